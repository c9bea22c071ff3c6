// SPDX-License-Identifier: Apache-2.0
// Included before every file that scripts/check_toolkits.sh compiles with clang 19: what nvcc
// knows, and this clang does not. Only for checks that code compiles.
#pragma once

// Loads and stores with hints for the cache, of all types that nvcc has them for.
template <class T>
__device__ T __ldcs(T const* from) {
  return *from;
}
template <class T>
__device__ T __ldcg(T const* from) {
  return *from;
}
template <class T>
__device__ void __stcs(T* to, T value) {
  *to = value;
}

// The architectures of the build.
#define __CUDA_ARCH_LIST__ 900

// nvcc lets device code use deduction guides, and clang 19 only those that are marked for it.
#pragma clang force_cuda_host_device begin
#include "common/rounded.hpp"
#pragma clang force_cuda_host_device end
