// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "elementwise/binary.hpp"

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

}  // namespace msstream::ops::kernels
