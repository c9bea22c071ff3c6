// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "row_vector.cuh"

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <bit>
#include <cstdint>

namespace msstream::ops::kernels {

/// Columns of a row as they are stored, which is in half the registers where the table is of half
/// precision.
template <class T, int Count>
struct StoredColumns {
  using Bits = detail::Packed<Count* static_cast<int>(sizeof(T))>;

  Bits bits;

  __device__ static StoredColumns load(T const* from) {
    return {__ldg(reinterpret_cast<Bits const*>(from))};
  }
  [[nodiscard]] __device__ Columns<Count> widened() const {
    auto const elements = std::bit_cast<detail::Unpacked<T, Count>>(bits);
    Columns<Count> columns;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      columns.at[c] = detail::widen(elements.at[c]);
    }
    return columns;
  }
};

namespace detail {

__device__ inline void narrow(float value, float& to) {
  to = value;
}
__device__ inline void narrow(float value, float16& to) {
  to.bits = __half_as_ushort(__float2half_rn(value));
}
__device__ inline void narrow(float value, bfloat16& to) {
  to = from_float<bfloat16>(value);
}

/// The widest streaming stores that the address allows: neighbouring tables may be of any width.
template <class Out, int Count>
__device__ __forceinline__ void store_streaming_as(Out* to, Columns<Count> const& columns) {
  constexpr int kBytes =
      Count * static_cast<int>(sizeof(Out)) < 16 ? Count * static_cast<int>(sizeof(Out)) : 16;
  constexpr int kStep = kBytes / static_cast<int>(sizeof(Out));
  bool const is_aligned = reinterpret_cast<std::uintptr_t>(to) % kBytes == 0;
#pragma unroll
  for (int c = 0; c < Count; c += kStep) {
    Unpacked<Out, kStep> part;
#pragma unroll
    for (int k = 0; k < kStep; ++k) {
      narrow(columns.at[c + k], part.at[k]);
    }
    if (is_aligned) {
      using Store = Packed<kBytes>;
      __stcs(reinterpret_cast<Store*>(to + c), std::bit_cast<Store>(part));
    } else {
#pragma unroll
      for (int k = 0; k < kStep; ++k) {
        to[c + k] = part.at[k];
      }
    }
  }
}

}  // namespace detail

}  // namespace msstream::ops::kernels
