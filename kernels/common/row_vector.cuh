// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/float_conversions.cuh"

#include <msstream/base/dtype.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

/// `Count` neighbouring columns of a row in one thread's registers.
template <int Count>
struct Columns {
  float at[Count] = {};

  /// Adds columns without contraction to a fused multiply-add, so that the CPU implementation gives
  /// the same bits.
  __device__ void add(Columns const& other) {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      at[c] = __fadd_rn(at[c], other.at[c]);
    }
  }
  __device__ void multiply(float factor) {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      at[c] = __fmul_rn(at[c], factor);
    }
  }
  __device__ void divide(float divisor) {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      at[c] = __fdiv_rn(at[c], divisor);
    }
  }
};

namespace detail {

template <int Bytes>
using Packed = std::conditional_t<
    Bytes == 16,
    uint4,
    std::
        conditional_t<Bytes == 8, uint2, std::conditional_t<Bytes == 4, unsigned, unsigned short>>>;

template <class T, int Count>
struct Unpacked {
  T at[Count];
};

}  // namespace detail

/// Neighbouring columns of a row in the element type of a table, not converted to float yet, so
/// that half-precision rows in flight take half the registers. Undefined until loaded.
template <class T, int Count>
struct PackedColumns {
  detail::Packed<Count* static_cast<int>(sizeof(T))> bits;

  __device__ Columns<Count> widened() const {
    auto const elements = std::bit_cast<detail::Unpacked<T, Count>>(bits);
    Columns<Count> columns;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      columns.at[c] = widen(elements.at[c]);
    }
    return columns;
  }
};

/// Loads Count neighbouring elements with one access through the read-only cache. `from` must be
/// aligned to the size of all of them.
template <int Count, class T>
__device__ PackedColumns<T, Count> load_packed(T const* from) {
  using Packed = decltype(PackedColumns<T, Count>::bits);
  return {__ldg(reinterpret_cast<Packed const*>(from))};
}
template <int Count, class T>
__device__ Columns<Count> load_columns(T const* from) {
  return load_packed<Count>(from).widened();
}

/// Loads Count neighbouring elements with one access if `is_row`; otherwise returns zeros, and
/// `from` may be any address.
template <int Count, class T>
__device__ PackedColumns<T, Count> load_packed_if(bool is_row, T const* from) {
  PackedColumns<T, Count> columns;
  auto& bits = columns.bits;
  // The load is predicated, because with a branch each register that the load fills would be
  // allocated twice.
  if constexpr (Count * sizeof(T) == 16) {
    asm("{ .reg .pred p; setp.ne.u32 p, %5, 0;"
        "mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0;"
        "@p ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4]; }"
        : "=&r"(bits.x), "=&r"(bits.y), "=&r"(bits.z), "=&r"(bits.w)
        : "l"(from), "r"(unsigned{is_row}));
  } else {
    bits = {};
    if (is_row) {
      columns = load_packed<Count>(from);
    }
  }
  return columns;
}

template <int Count>
__device__ void store_columns(float* to, Columns<Count> const& columns) {
  if constexpr (Count % 4 == 0) {
#pragma unroll
    for (int c = 0; c < Count; c += 4) {
      *reinterpret_cast<float4*>(to + c) =
          make_float4(columns.at[c], columns.at[c + 1], columns.at[c + 2], columns.at[c + 3]);
    }
  } else {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      to[c] = columns.at[c];
    }
  }
}

/// Converts columns to type T and stores them with streaming stores of at most 16 bytes, so that
/// the written data leave the L2 cache before rows that were read. `to` must be aligned to each
/// store.
template <class T, int Count>
__device__ void store_narrowed(T* to, Columns<Count> const& columns) {
  constexpr int kPiece = std::min(Count, static_cast<int>(16 / sizeof(T)));
  using Packed = detail::Packed<kPiece* static_cast<int>(sizeof(T))>;
#pragma unroll
  for (int first = 0; first < Count; first += kPiece) {
    detail::Unpacked<T, kPiece> piece;
#pragma unroll
    for (int c = 0; c < kPiece; ++c) {
      piece.at[c] = narrowed<T>(columns.at[first + c]);
    }
    __stcs(reinterpret_cast<Packed*>(to + first), std::bit_cast<Packed>(piece));
  }
}

/// Converts columns to `dtype` (float32, float16 or bfloat16) and stores them into an array of that
/// type, from element `at` on, with streaming stores of at most 16 bytes.
template <int Count>
__device__ void store_as(void* array, DType dtype, std::int64_t at, Columns<Count> const& columns) {
  if (dtype == DType::float32) {
    store_narrowed<float>(static_cast<float*>(array) + at, columns);
  } else if (dtype == DType::float16) {
    store_narrowed<float16>(static_cast<float16*>(array) + at, columns);
  } else {
    store_narrowed<bfloat16>(static_cast<bfloat16*>(array) + at, columns);
  }
}

/// Returns the address of a row of an array whose rows are `stride` bytes apart, by one
/// multiplication.
template <class T>
__device__ T* row_at(T* first, std::uint32_t row, std::uint32_t stride) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uint64_t>(first) + std::uint64_t{row} * stride);
}

/// The division of a warp into groups of lanes. A group, whose size is a power of two, works on one
/// row, each lane on neighbouring columns; in a wider row each lane continues lanes * columns
/// further on.
struct RowLanes {
  std::int64_t width;
  int log2_lanes;

  __host__ __device__ RowLanes(std::int64_t row_width, int columns_a_lane)
      : width(row_width), log2_lanes(0) {
    while (log2_lanes < 5 && (std::int64_t{columns_a_lane} << log2_lanes) < row_width) {
      ++log2_lanes;
    }
  }

  __host__ __device__ int lanes() const { return 1 << log2_lanes; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) & (lanes() - 1); }
};

/// Returns whether rows of `width` elements that begin at `data` can be read `count` elements at a
/// time.
template <class T>
bool allows_vectors(T const* data, std::int64_t width, int count) {
  return width % count == 0 &&
         reinterpret_cast<std::uintptr_t>(data) % (static_cast<std::size_t>(count) * sizeof(T)) ==
             0;
}
/// Returns whether store_narrowed() can write rows of `width` elements of `dtype` that begin at
/// `data`, `count` elements at a time.
inline bool allows_stores(void const* data, DType dtype, std::int64_t width, int count) {
  auto const bytes = static_cast<int>(bytes_of(dtype));
  auto const piece = std::min(count, 16 / bytes);
  return width % piece == 0 &&
         reinterpret_cast<std::uintptr_t>(data) % (static_cast<std::size_t>(piece) * bytes) == 0;
}
/// Returns whether rows of `width` floats that begin at `data` can be written `count` floats at a
/// time, with at most four per store.
inline bool allows_stores(float const* data, std::int64_t width, int count) {
  return allows_vectors(data, width, std::min(count, 4));
}

}  // namespace msstream::ops::kernels
