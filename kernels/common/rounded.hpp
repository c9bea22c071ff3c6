// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <cmath>
#include <type_traits>

namespace msstream::ops::kernels {

/// A float or a double whose operations are rounded one by one and never contracted to a fused
/// multiply-add, so that a formula gives the same bits in every kernel that it is compiled into,
/// and on the host.
template <class T>
struct Rounded {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>);
  T value;

  MSSTREAM_HOST_DEVICE friend Rounded operator*(Rounded a, Rounded b) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, float>) {
      return {__fmul_rn(a.value, b.value)};
    } else {
      return {__dmul_rn(a.value, b.value)};
    }
#else
    return {a.value * b.value};
#endif
  }
  MSSTREAM_HOST_DEVICE friend Rounded operator+(Rounded a, Rounded b) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, float>) {
      return {__fadd_rn(a.value, b.value)};
    } else {
      return {__dadd_rn(a.value, b.value)};
    }
#else
    return {a.value + b.value};
#endif
  }
  MSSTREAM_HOST_DEVICE friend Rounded operator-(Rounded a, Rounded b) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, float>) {
      return {__fsub_rn(a.value, b.value)};
    } else {
      return {__dsub_rn(a.value, b.value)};
    }
#else
    return {a.value - b.value};
#endif
  }
  MSSTREAM_HOST_DEVICE friend Rounded operator/(Rounded a, Rounded b) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, float>) {
      return {__fdiv_rn(a.value, b.value)};
    } else {
      return {__ddiv_rn(a.value, b.value)};
    }
#else
    return {a.value / b.value};
#endif
  }
  MSSTREAM_HOST_DEVICE friend Rounded root(Rounded a) {
#if defined(__CUDA_ARCH__)
    if constexpr (std::is_same_v<T, float>) {
      return {__fsqrt_rn(a.value)};
    } else {
      return {__dsqrt_rn(a.value)};
    }
#else
    return {std::sqrt(a.value)};
#endif
  }
};

template <class T>
Rounded(T) -> Rounded<T>;

}  // namespace msstream::ops::kernels
