// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/row_vector.cuh"

#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

namespace msstream::ops::kernels {

/// Stores columns with streaming stores of up to 16 bytes if the address is aligned to that size,
/// otherwise element by element. Addresses may be unaligned, because neighbouring tables may be of
/// any width.
template <class Out, int Count>
__device__ __forceinline__ void store_streaming_as(Out* to, Columns<Count> const& columns) {
  constexpr int kBytes =
      Count * static_cast<int>(sizeof(Out)) < 16 ? Count * static_cast<int>(sizeof(Out)) : 16;
  constexpr int kStep = kBytes / static_cast<int>(sizeof(Out));
  bool const is_aligned = reinterpret_cast<std::uintptr_t>(to) % kBytes == 0;
#pragma unroll
  for (int c = 0; c < Count; c += kStep) {
    detail::Unpacked<Out, kStep> part;
#pragma unroll
    for (int k = 0; k < kStep; ++k) {
      part.at[k] = narrowed<Out>(columns.at[c + k]);
    }
    if (is_aligned) {
      using Store = detail::Packed<kBytes>;
      __stcs(reinterpret_cast<Store*>(to + c), std::bit_cast<Store>(part));
    } else {
#pragma unroll
      for (int k = 0; k < kStep; ++k) {
        to[c + k] = part.at[k];
      }
    }
  }
}

}  // namespace msstream::ops::kernels
