// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <cmath>

namespace msstream::ops::kernels {

/// A float whose operations are rounded one by one and never contracted to a fused multiply-add, so
/// that an update rule gives the same bits in every kernel that it is compiled into.
struct Rounded {
  float value;

  MSSTREAM_HOST_DEVICE friend Rounded operator*(Rounded a, Rounded b) {
#if defined(__CUDA_ARCH__)
    return {__fmul_rn(a.value, b.value)};
#else
    return {a.value * b.value};
#endif
  }
  MSSTREAM_HOST_DEVICE friend Rounded operator+(Rounded a, Rounded b) {
#if defined(__CUDA_ARCH__)
    return {__fadd_rn(a.value, b.value)};
#else
    return {a.value + b.value};
#endif
  }
  MSSTREAM_HOST_DEVICE friend Rounded operator-(Rounded a, Rounded b) {
#if defined(__CUDA_ARCH__)
    return {__fsub_rn(a.value, b.value)};
#else
    return {a.value - b.value};
#endif
  }
  MSSTREAM_HOST_DEVICE friend Rounded operator/(Rounded a, Rounded b) {
#if defined(__CUDA_ARCH__)
    return {__fdiv_rn(a.value, b.value)};
#else
    return {a.value / b.value};
#endif
  }
  MSSTREAM_HOST_DEVICE friend Rounded root(Rounded a) {
#if defined(__CUDA_ARCH__)
    return {__fsqrt_rn(a.value)};
#else
    return {std::sqrt(a.value)};
#endif
  }
};

}  // namespace msstream::ops::kernels
