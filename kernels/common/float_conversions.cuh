// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

namespace msstream::ops::kernels {

// Conversions between float and half-precision types by the GPU's conversion instructions. They
// give the same values as to_float() and from_float(), but possibly other bits of a NaN.

__device__ inline float widen(float value) {
  return value;
}
__device__ inline float widen(bfloat16 value) {
  return to_float(value);
}
__device__ inline float widen(float16 value) {
  return __half2float(__ushort_as_half(value.bits));
}

/// Returns the value of type T nearest to a float; of two equally near ones, the one whose last bit
/// is 0.
template <class T>
__device__ T narrowed(float value) {
  if constexpr (std::is_same_v<T, float16>) {
    return {__half_as_ushort(__float2half_rn(value))};
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
  } else {
    return value;
  }
}

}  // namespace msstream::ops::kernels
