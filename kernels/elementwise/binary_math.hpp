// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "common/real_types.hpp"
#include "elementwise/binary.hpp"

#include <msstream/base/dtype.hpp>

#include <type_traits>

/// The functions of two elements that the host and the CUDA implementation share.
namespace msstream::ops::kernels {

struct Sum {
  MSSTREAM_HOST_DEVICE float operator()(float left, float right) const { return left + right; }
};
struct Difference {
  MSSTREAM_HOST_DEVICE float operator()(float left, float right) const { return left - right; }
};
struct ElementProduct {
  MSSTREAM_HOST_DEVICE float operator()(float left, float right) const { return left * right; }
};
struct Quotient {
  MSSTREAM_HOST_DEVICE float operator()(float left, float right) const { return left / right; }
};
struct NegativeProduct {
  MSSTREAM_HOST_DEVICE float operator()(float left, float right) const { return -(left * right); }
};

/// Calls visit() with the function object that computes `function`.
template <class Visit>
void with_function(BinaryFunction function, Visit const& visit) {
  switch (function) {
    case BinaryFunction::add:
      return visit(Sum{});
    case BinaryFunction::subtract:
      return visit(Difference{});
    case BinaryFunction::multiply:
      return visit(ElementProduct{});
    case BinaryFunction::divide:
      return visit(Quotient{});
    case BinaryFunction::negative_product:
      return visit(NegativeProduct{});
  }
}

/// Throws std::invalid_argument for a function that has no half precision.
[[noreturn]] void refuse_half();

/// Calls visit(type, function) with the type of the elements, as std::type_identity, and the
/// function object that computes `function`. Throws std::invalid_argument for a function that has
/// no half precision.
template <class Visit>
void with_function(BinaryFunction function, DType dtype, Visit const& visit) {
  with_real_type("binary: an operand", dtype, [&](auto type) {
    if constexpr (std::is_same_v<typename decltype(type)::type, float>) {
      with_function(function, [&](auto object) { visit(type, object); });
    } else if (function == BinaryFunction::add) {
      visit(type, Sum{});
    } else if (function == BinaryFunction::multiply) {
      visit(type, ElementProduct{});
    } else {
      refuse_half();
    }
  });
}

}  // namespace msstream::ops::kernels
