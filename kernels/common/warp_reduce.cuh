// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream::ops::kernels {

namespace detail {

/// Combines the values of all lanes of a warp, for GPUs before compute capability 8.0, which have
/// no instruction for it.
template <class T, class Combine>
__device__ T combine_lanes(T value, Combine const& combine) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value = combine(value, __shfl_xor_sync(0xFFFFFFFFU, value, distance));
  }
  return value;
}

}  // namespace detail

/// Returns the sum of the values of a warp, whose 32 lanes must all call it together. T is int or
/// unsigned.
template <class T>
__device__ T warp_sum(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return detail::combine_lanes(value, [](T a, T b) { return a + b; });
#else
  return __reduce_add_sync(0xFFFFFFFFU, value);
#endif
}

/// Returns the greatest value of a warp, like warp_sum().
template <class T>
__device__ T warp_max(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return detail::combine_lanes(value, [](T a, T b) { return a < b ? b : a; });
#else
  return __reduce_max_sync(0xFFFFFFFFU, value);
#endif
}

/// Returns the least value of a warp, like warp_sum().
template <class T>
__device__ T warp_min(T value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  return detail::combine_lanes(value, [](T a, T b) { return b < a ? b : a; });
#else
  return __reduce_min_sync(0xFFFFFFFFU, value);
#endif
}

}  // namespace msstream::ops::kernels
