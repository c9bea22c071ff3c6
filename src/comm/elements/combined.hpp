// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/comm/reduction.hpp>

#include <cstdint>
#include <type_traits>

namespace msstream::comm::detail {

/// The type in which elements are combined: float32 for floats, and their own for integers.
template <class T>
using Combined = std::conditional_t<std::is_integral_v<T>, T, float>;

/// Returns two elements combined, on the host and on GPUs alike. Sums of integers wrap around. Of
/// largest and least elements, a NaN stays. A mean is a sum that is divided later.
template <class C>
[[nodiscard]] MSSTREAM_HOST_DEVICE C combined(C a, C b, Reduction reduction) {
  if (reduction == Reduction::max || reduction == Reduction::min) {
    bool const is_farther = reduction == Reduction::max ? b > a : b < a;
    return is_farther || b != b ? b : a;
  }
  if constexpr (std::is_integral_v<C>) {
    using Unsigned = std::make_unsigned_t<C>;
    return static_cast<C>(
        static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else {
    return a + b;
  }
}

/// Calls `function(T())` with a value of the element type.
template <class Function>
void with_type(DType dtype, Function const& function) {
  switch (dtype) {
    case DType::float32:
      return function(float());
    case DType::float16:
      return function(float16());
    case DType::bfloat16:
      return function(bfloat16());
    case DType::int32:
      return function(std::int32_t());
    case DType::int64:
      return function(std::int64_t());
    case DType::uint8:
      return function(std::uint8_t());
  }
}

}  // namespace msstream::comm::detail
