// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/row_vector.cuh"
#include "segment/math.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

template <class Combiner, int Count>
__device__ Columns<Count> nothing_of() {
  Columns<Count> columns;
#pragma unroll
  for (int c = 0; c < Count; ++c) {
    columns.at[c] = Combiner::nothing();
  }
  return columns;
}

template <class Combiner, int Count>
__device__ void combine(Columns<Count>& total, Columns<Count> const& other) {
#pragma unroll
  for (int c = 0; c < Count; ++c) {
    total.at[c] = Combiner::combine(total.at[c], other.at[c]);
  }
}

template <class Combiner, int Count>
__device__ Columns<Count> elements_of(Columns<Count> columns) {
#pragma unroll
  for (int c = 0; c < Count; ++c) {
    columns.at[c] = Combiner::element(columns.at[c]);
  }
  return columns;
}

/// Loads columns of rows that are read once, and marks them as used once, so that the cache keeps
/// data that are used again.
template <int Count>
__device__ Columns<Count> load_once(float const* from) {
  Columns<Count> columns;
  if constexpr (Count == 4) {
    auto const four = __ldcs(reinterpret_cast<float4 const*>(from));
    columns.at[0] = four.x;
    columns.at[1] = four.y;
    columns.at[2] = four.z;
    columns.at[3] = four.w;
  } else {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      columns.at[c] = __ldcs(from + c);
    }
  }
  return columns;
}

/// Loads columns of rows that are also written by a kernel (another kernel on the stream or, in
/// shared memory, the same one), not through the read-only cache.
template <int Count>
__device__ Columns<Count> load_written(float const* from) {
  Columns<Count> columns;
  if constexpr (Count == 4) {
    auto const four = *reinterpret_cast<float4 const*>(from);
    columns.at[0] = four.x;
    columns.at[1] = four.y;
    columns.at[2] = four.z;
    columns.at[3] = four.w;
  } else {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      columns.at[c] = from[c];
    }
  }
  return columns;
}

/// Stores those columns of a row that exist, of which the first is `column` and the others follow
/// at a distance of `Apart`. If that is 1, all of them exist.
template <int Apart, int Count>
__device__ void store_columns_apart(float* row,
                                    std::int64_t column,
                                    std::int64_t width,
                                    Columns<Count> const& columns) {
  if constexpr (Apart == 1) {
    store_columns(row + column, columns);
  } else {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      if (column + c * Apart < width) {
        row[column + c * Apart] = columns.at[c];
      }
    }
  }
}

/// The output of a reduction, which receives the total of each segment.
struct SegmentOutput {
  float* rows;
  std::int64_t width;
  SegmentReduction reduction;
  float empty_value;

  template <int Apart = 1, int Count>
  __device__ void write(std::int64_t segment,
                        std::int64_t column,
                        Columns<Count> total,
                        std::int64_t places) const {
    if (divides(reduction)) {
      total.divide(segment_divisor(reduction, places));
    }
    store_columns_apart<Apart>(rows + segment * width, column, width, total);
  }
  template <int Count>
  __device__ void write_empty(std::int64_t segment, std::int64_t column) const {
    Columns<Count> row;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      row.at[c] = empty_value;
    }
    store_columns(rows + segment * width + column, row);
  }
};

}  // namespace msstream::ops::kernels
