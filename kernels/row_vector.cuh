// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <cuda_fp16.h>
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

  /// Plain additions, never contracted: the CPU twin gives the same bits.
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

__device__ inline float widen(float value) {
  return value;
}
__device__ inline float widen(bfloat16 value) {
  return to_float(value);
}
// The instruction instead of the portable arithmetic: both are exact.
__device__ inline float widen(float16 value) {
  return __half2float(__ushort_as_half(value.bits));
}

}  // namespace detail

/// One load of Count elements through the read-only path; `from` is aligned to all of them.
template <int Count, class T>
__device__ Columns<Count> load_columns(T const* from) {
  using Packed = detail::Packed<Count* static_cast<int>(sizeof(T))>;
  auto const elements =
      std::bit_cast<detail::Unpacked<T, Count>>(__ldg(reinterpret_cast<Packed const*>(from)));
  Columns<Count> columns;
#pragma unroll
  for (int c = 0; c < Count; ++c) {
    columns.at[c] = detail::widen(elements.at[c]);
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

/// How the lanes of a warp share rows: a power of two of lanes works on one row, each lane on
/// neighbouring columns, and goes on by lanes * columns where the row is wider.
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

/// Whether rows of `width` elements that begin at `data` can be read `count` elements at a time.
template <class T>
bool allows_vectors(T const* data, std::int64_t width, int count) {
  return width % count == 0 &&
         reinterpret_cast<std::uintptr_t>(data) % (static_cast<std::size_t>(count) * sizeof(T)) ==
             0;
}
/// The same for rows of floats that are written, at most four a store.
inline bool allows_stores(float const* data, std::int64_t width, int count) {
  return allows_vectors(data, width, std::min(count, 4));
}

}  // namespace msstream::ops::kernels
