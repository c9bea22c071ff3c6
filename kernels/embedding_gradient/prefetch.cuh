// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace msstream::ops::kernels {

/// Requests the cache line of an address into the L2 cache.
__device__ inline void prefetch_to_l2(void const* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

}  // namespace msstream::ops::kernels
