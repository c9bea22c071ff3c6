// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"
#include "cuda_check.cuh"
#include "id_report.cuh"
#include "row_vector.cuh"

#include <msstream/ops/kernels/embedding.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

// The grid of a lookup, here with 8 lanes a bag, so 4 bags a warp:
//
//   warp     | lanes 0-7 | lanes 8-15 | lanes 16-23 | lanes 24-31 |
//   bag      |     b     |   b + 1    |    b + 2    |    b + 3    |
//   a lane:    columns [lane * Count, lane * Count + Count), then the same lanes * Count further on
//
// A kernel is put together from an addresser (which ids: places_of_bag), a loader (an id's columns)
// and a combiner (how rows become one). All lanes stay to the end, because a warp reports its bad
// ids together.

inline constexpr int kLookupThreads = 256;

/// Reads columns of table rows; a bad id reads as zeros, which change no sum: a sum that begins
/// with +0 is never -0.
template <class T, int Count>
struct TableLoader {
  T const* table;
  std::int64_t rows;
  std::int64_t width;

  __device__ explicit TableLoader(LookupArgs const& args)
      : table(static_cast<T const*>(args.table)), rows(args.rows), width(args.width) {}

  __device__ bool has(std::int64_t id) const { return is_in_range(id, rows); }
  __device__ Columns<Count> load(std::int64_t id, std::int64_t column) const {
    return has(id) ? load_columns<Count>(table + id * width + column) : Columns<Count>{};
  }
};

/// Adds rows in order; the mean divides by how many of them were valid.
template <int Count>
struct PoolingCombiner {
  Columns<Count> sum;
  std::int64_t valid = 0;

  __device__ void add(Columns<Count> const& row, bool is_valid) {
    sum.add(row);
    valid += is_valid ? 1 : 0;
  }
  __device__ Columns<Count> finish(Pooling pooling) const {
    auto result = sum;
    if (pooling == Pooling::mean && valid > 1) {
      result.divide(static_cast<float>(valid));
    }
    return result;
  }
};

/// Bags of any length: a group of lanes a bag, `InFlight` rows requested before the first is added.
template <class T, int Count, int InFlight>
__global__ void __launch_bounds__(kLookupThreads) pool_kernel(LookupArgs args, RowLanes shape) {
  constexpr std::int64_t kNoId = -1;
  auto const bag = grid_thread() >> shape.log2_lanes;
  auto const places = bag < args.bags.bags && bag < existing_bags(args.bags)
                          ? places_of_bag(args.bags, bag)
                          : PlaceRange{0, 0};
  TableLoader<T, Count> const loader(args);
  OutOfRangeIds bad;
  for (std::int64_t column = shape.lane() * Count; column < shape.width;
       column += shape.lanes() * Count) {
    PoolingCombiner<Count> combiner;
    for (auto place = places.begin; place < places.end; place += InFlight) {
      std::int64_t ids[InFlight];
      Columns<Count> rows[InFlight];
#pragma unroll
      for (int k = 0; k < InFlight; ++k) {
        ids[k] = place + k < places.end ? __ldg(args.ids + place + k) : kNoId;
      }
#pragma unroll
      for (int k = 0; k < InFlight; ++k) {
        rows[k] = loader.load(ids[k], column);
      }
#pragma unroll
      for (int k = 0; k < InFlight; ++k) {
        bool const is_valid = loader.has(ids[k]);
        combiner.add(rows[k], is_valid);
        if (!is_valid && column == 0 && place + k < places.end) {
          bad.add(ids[k]);
        }
      }
    }
    if (bag < args.bags.bags) {
      store_columns(args.output + bag * shape.width + column, combiner.finish(args.pooling));
    }
  }
  report_out_of_range(args.report, bad, args.rows);
}

/// Fixed hotness 1, where a sum and a mean are the row itself: a group of lanes copies `InFlight`
/// neighbouring bags, all requested before the first is stored.
template <class T, int Count, int InFlight>
__global__ void __launch_bounds__(kLookupThreads) gather_kernel(LookupArgs args, RowLanes shape) {
  auto const first = (grid_thread() >> shape.log2_lanes) * InFlight;
  auto const bags = args.bags.bags;
  auto const existing = min(existing_bags(args.bags), bags);
  TableLoader<T, Count> const loader(args);
  OutOfRangeIds bad;
  std::int64_t ids[InFlight];
#pragma unroll
  for (int k = 0; k < InFlight; ++k) {
    ids[k] = first + k < existing ? __ldg(args.ids + first + k) : -1;
    if (first + k < existing && !loader.has(ids[k]) && shape.lane() == 0) {
      bad.add(ids[k]);
    }
  }
  for (std::int64_t column = shape.lane() * Count; column < shape.width;
       column += shape.lanes() * Count) {
    Columns<Count> rows[InFlight];
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      rows[k] = loader.load(ids[k], column);
    }
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      if (first + k < bags) {
        Columns<Count> sum;  // 0 + row, as everywhere: a table's -0 becomes +0
        sum.add(rows[k]);
        store_columns(args.output + (first + k) * shape.width + column, sum);
      }
    }
  }
  report_out_of_range(args.report, bad, args.rows);
}

}  // namespace msstream::ops::kernels
