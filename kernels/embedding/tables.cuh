// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/existing_places.hpp"
#include "common/id_report.cuh"
#include "common/row_vector.cuh"
#include "common/streaming_store.cuh"
#include "common/whole_sums.cuh"
#include "embedding/pooling_divisor.hpp"
#include "embedding/tables.hpp"
#include "ids/bag_offsets.cuh"

#include <cuda_runtime.h>

#include <cstdint>

// The work of a warp in a lookup in many tables.

namespace msstream::ops::kernels {

inline constexpr int kPooledRowsInFlight = 8;
inline constexpr int kSumRowsInFlight = 4;  ///< with 24 warps a multiprocessor, 48 KB of float rows

/// The kinds of tables that a launch supports. The fewer kinds a kernel supports, the fewer
/// registers it needs, and the more warps are resident.
enum class TableKinds : std::uint8_t {
  float_gathers,  ///< hotness 1, float32 tables with 16-byte loads, float32 output
  gathers,        ///< hotness 1, any types
  /// float32 tables of at least 8 lanes a row, with 16-byte loads, without weights or Pooling::max
  float_sums,
  any,
  any_with_argmax,  ///< any, of which those of Pooling::max also write argmax
};
[[nodiscard]] constexpr bool only_gathers(TableKinds kinds) {
  return kinds == TableKinds::float_gathers || kinds == TableKinds::gathers;
}
/// Returns whether all tables are of float32 and have rows that are read 16 bytes at a time.
[[nodiscard]] constexpr bool only_floats(TableKinds kinds) {
  return kinds == TableKinds::float_gathers || kinds == TableKinds::float_sums;
}
[[nodiscard]] constexpr bool only_sums(TableKinds kinds) {
  return kinds == TableKinds::float_sums;
}
[[nodiscard]] constexpr bool writes_argmax(TableKinds kinds) {
  return kinds == TableKinds::any_with_argmax;
}

/// The work of one warp in a lookup in many tables: some bags of a table.
struct TableTile {
  TableDescriptor const& table;
  int number;              ///< the table's number
  std::int64_t first_bag;  ///< below the batch size
  std::int64_t existing;   ///< the number of existing bags of the table
};

[[nodiscard]] __device__ inline std::int64_t load_id(TablesLookupArgs const& args,
                                                     std::int64_t place) {
  return args.id_dtype == DType::int32 ? __ldg(static_cast<std::int32_t const*>(args.ids) + place)
                                       : __ldg(static_cast<std::int64_t const*>(args.ids) + place);
}

template <TableKinds Kinds, int Count>
__device__ __forceinline__ void store_pooled(TablesLookupArgs const& args,
                                             std::int64_t width,
                                             std::int64_t bag,
                                             std::int64_t column,
                                             Columns<Count> const& columns) {
  auto const element = bag * width + column;
  switch (Kinds == TableKinds::float_gathers ? DType::float32 : args.output_dtype) {
    case DType::float16:
      return store_streaming_as(static_cast<float16*>(args.output) + element, columns);
    case DType::bfloat16:
      return store_streaming_as(static_cast<bfloat16*>(args.output) + element, columns);
    default:
      return store_streaming_as(static_cast<float*>(args.output) + element, columns);
  }
}

/// Returns the position of the default id of a bag of a table.
[[nodiscard]] __device__ inline std::int32_t default_place(TablesLookupArgs const& args,
                                                           TableTile const& tile,
                                                           std::int64_t bag) {
  return static_cast<std::int32_t>(args.capacity + tile.number * args.batch + bag);
}

/// Stores the positions of the maxima of neighbouring columns.
template <int Count>
__device__ __forceinline__ void store_argmax(TablesLookupArgs const& args,
                                             TableDescriptor const& table,
                                             std::int64_t width,
                                             std::int64_t bag,
                                             std::int64_t column,
                                             std::int32_t const (&places)[Count]) {
  auto const element = bag * width + table.first_argmax_column + column;
  Columns<Count> bits;  // floats with the bits of the integers, which are stored like floats
#pragma unroll
  for (int c = 0; c < Count; ++c) {
    bits.at[c] = __int_as_float(places[c]);
  }
  store_streaming_as(reinterpret_cast<float*>(args.argmax) + element, bits);
}

/// Looks up bags of hotness 1 without weights, for which every pooling is the row itself. Lane i of
/// the warp loads the id of bag i, and a group of lanes requests the rows of several bags before it
/// stores the first.
template <TableKinds Kinds, class T, int Count>
__device__ __forceinline__ void gather_tile(TablesLookupArgs const& args,
                                            TableTile const& tile,
                                            BagWidths const& widths,
                                            OutOfRangeIds& bad) {
  constexpr int kInFlight = 1 << kLog2BagsInFlight;
  auto const& table = tile.table;
  int const log2_lanes = table.log2_lanes;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  int const bags = 1 << log2_bags_of_tile(table, true);
  int const bags_a_group = bags >> (5 - log2_lanes);
  std::int64_t row = -1;
  std::int32_t place = -1;
  if (lane < bags && tile.first_bag + lane < tile.existing) {
    auto const place_of_id = args.batch * table.first_hotness + tile.first_bag + lane;
    auto const id = load_id(args, place_of_id);
    bool const is_valid = is_in_range(id, table.rows);
    row = is_valid ? id : table.default_id;
    if constexpr (writes_argmax(Kinds)) {
      place = is_valid   ? static_cast<std::int32_t>(place_of_id)
              : row >= 0 ? default_place(args, tile, tile.first_bag + lane)
                         : -1;
    }
    if (!is_valid) {
      bad.add(id);
    }
  }
  int const first = (lane >> log2_lanes) * bags_a_group;
  std::int64_t rows[kInFlight];
#pragma unroll
  for (int k = 0; k < kInFlight; ++k) {
    auto const loaded = __shfl_sync(0xFFFFFFFFU, row, (first + k) % 32);
    rows[k] = k < bags_a_group && is_in_range(loaded, table.rows) ? loaded : -1;
  }
  std::int32_t places[kInFlight];
  if constexpr (writes_argmax(Kinds)) {
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      places[k] = __shfl_sync(0xFFFFFFFFU, place, (first + k) % 32);
    }
  }
  // The row is added to +0, because a sum begins with +0, so that -0 in a table becomes +0; for a
  // maximum it is added to -0, which keeps the element as it is.
  float const zero = table.pooling == Pooling::max ? -0.0F : 0.0F;
  auto const* const weights = static_cast<T const*>(table.table);
  int const group_lane = lane & ((1 << log2_lanes) - 1);
  for (int column = group_lane * Count; column < table.width; column += Count << log2_lanes) {
    PackedColumns<T, Count> loaded[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      loaded[k] = {};
      if (rows[k] >= 0) {
        loaded[k] = load_packed<Count>(weights + rows[k] * table.width + column);
      }
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      auto const bag = tile.first_bag + first + k;
      if (k < bags_a_group && bag < args.batch) {
        auto columns = loaded[k].widened();
#pragma unroll
        for (int c = 0; c < Count; ++c) {
          columns.at[c] = __fadd_rn(zero, columns.at[c]);
        }
        store_pooled<Kinds>(args, widths.output, bag, table.first_column + column, columns);
        if constexpr (writes_argmax(Kinds)) {
          if (table.pooling == Pooling::max) {
            std::int32_t of_columns[Count];
#pragma unroll
            for (int c = 0; c < Count; ++c) {
              of_columns[c] = places[k];
            }
            store_argmax(args, table, widths.argmax, bag, column, of_columns);
          }
        }
      }
    }
  }
}

/// The state of pooling the rows of a bag into one: the pooled columns, the divisor and, if
/// `HasArgmax`, the positions of the maxima.
template <int Count, bool HasArgmax>
struct TablePooling {
  Columns<Count> pooled;
  PoolingDivisor divisor;
  std::int32_t places[Count];

  __device__ TablePooling() {
    if constexpr (HasArgmax) {
#pragma unroll
      for (int c = 0; c < Count; ++c) {
        places[c] = -1;
      }
    }
  }
  __device__ void take_larger(Columns<Count> const& row, std::int64_t place) {
    bool const is_first = divisor.valid++ == 0;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      bool const takes = is_first || is_larger(row.at[c], pooled.at[c]);
      pooled.at[c] = takes ? row.at[c] : pooled.at[c];
      if constexpr (HasArgmax) {
        places[c] = takes ? static_cast<std::int32_t>(place) : places[c];
      }
    }
  }
  __device__ void add(Columns<Count> const& row) {
    ++divisor.valid;
    pooled.add(row);
  }
  __device__ void add(Columns<Count> row, Pooling pooling, float weight) {
    row.multiply(weight);
    divisor.add_weight(pooling, weight);
    add(row);
  }
  __device__ void divide(Pooling pooling, bool is_weighted) {
    auto const by = divisor.get(pooling, is_weighted);
    if (by == 0.0F) {
      pooled = Columns<Count>{};
    } else {
      pooled.divide(by);
    }
  }
};

/// Returns the positions of the ids of the bag of the calling lane's group.
[[nodiscard]] __device__ __forceinline__ PlaceRange places_of_group(TablesLookupArgs const& args,
                                                                    TableTile const& tile,
                                                                    std::int64_t bag) {
  int const lanes = 1 << tile.table.log2_lanes;
  PlaceRange places{0, 0};
  if (args.offsets != nullptr) {
    auto const find = [&]<class Id>(Id) {
      auto const offsets = offsets_of<Id>(args);
      auto const of_all = tile.number * args.batch + bag;
      int const group_lane = static_cast<int>(threadIdx.x) & (lanes - 1);
      places = places_by_lanes(
          offsets, of_all, bag < tile.existing, group_lane, lanes, args.report, true);
    };
    args.id_dtype == DType::int32 ? find(std::int32_t{}) : find(std::int64_t{});
  } else if (bag < tile.existing) {
    places = places_of<std::int64_t>(args, tile.table, tile.number, bag);
  }
  return places;
}

/// The fewest lanes of a row for which sum_tile() works: those that hold the ids of the rows in
/// flight and of as many behind them.
inline constexpr int kLog2LeastSumLanes = 3;

/// Adds up the rows of the bags of a tile, without weights, as pool_tile() does. Each lane of a
/// group holds the id of one position, and of the position as many further on as the group has
/// lanes. For each row that it adds, the group requests the row kSumRowsInFlight further on, so
/// that rows are in flight from the first to the last of a bag.
template <TableKinds Kinds, class T, int Count>
__device__ __forceinline__ void sum_tile(TablesLookupArgs const& args,
                                         TableTile const& tile,
                                         BagWidths const& widths,
                                         OutOfRangeIds& bad) {
  constexpr int kInFlight = kSumRowsInFlight;
  static_assert(kInFlight <= 1 << kLog2LeastSumLanes, "a row in flight has its id in a lane");
  static_assert(kRowsOfPart % kInFlight == 0, "parts end between rounds");
  auto const& table = tile.table;
  int const lanes = 1 << table.log2_lanes;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  int const group_lane = lane & (lanes - 1);
  int const first_lane = lane - group_lane;
  unsigned const group = lanes == 32 ? 0xFFFFFFFFU : ((1U << lanes) - 1) << first_lane;
  auto const bag = tile.first_bag + (lane >> table.log2_lanes);
  auto const places = places_of_group(args, tile, bag);
  auto const count = static_cast<int>(places.end - places.begin);
  auto const* const weights = static_cast<T const*>(table.table);
  bool const is_long = count > kRowsOfPart;
  for (int column = group_lane * Count; column - group_lane * Count < table.width;
       column += Count << table.log2_lanes) {
    bool const has_columns = column < table.width;
    auto const row_at = [&](int i) -> std::int64_t {
      if (i >= count) {
        return -1;
      }
      auto const id = load_id(args, places.begin + i);
      if (is_in_range(id, table.rows)) {
        return id;
      }
      if (column == group_lane * Count) {  // once, and not again with further columns
        bad.add(id);
      }
      return -1;
    };
    TablePooling<Count, false> combiner;
    WholeSums<Count> whole;
    PackedColumns<T, Count> rows[kInFlight];
    bool is_valid[kInFlight];
    int first_held = 0;  // the position whose row lane 0 of the group holds
    auto held = row_at(group_lane);
    auto held_next = row_at(lanes + group_lane);
    auto const request = [&](int k, int i) {
      int const ahead = i - first_held;
      auto const value = ahead < lanes ? held : held_next;
      auto const from = first_lane + (ahead & (lanes - 1));
      // With a constant mask, the code does not find out first which lanes take part.
      auto const row =
          lanes == 32 ? __shfl_sync(0xFFFFFFFFU, value, from) : __shfl_sync(group, value, from);
      is_valid[k] = row >= 0;
      if (is_valid[k] && has_columns) {
        rows[k] = load_packed<Count>(weights + row * table.width + column);
      }
    };
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      request(k, k);
    }
    for (int done = 0; done < count;) {
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (is_valid[k]) {
          combiner.add(rows[k].widened());
        }
        request(k, done + kInFlight + k);
      }
      done += kInFlight;
      if (is_long && done % kRowsOfPart == 0 && done < count) {
        whole.fold(combiner.pooled, done == kRowsOfPart);
      }
      if (done == first_held + lanes) {
        first_held = done;
        held = held_next;
        held_next = row_at(first_held + lanes + group_lane);
      }
    }
    if (is_long) {
      combiner.pooled = whole.get(combiner.pooled);
    }
    if (!has_columns) {
      continue;
    }
    if (combiner.divisor.valid > 0) {
      if (divides(table.pooling)) {
        combiner.divide(table.pooling, false);
      }
    } else if (bag < tile.existing && is_in_range(table.default_id, table.rows)) {
      combiner.add(load_packed<Count>(weights + table.default_id * table.width + column).widened());
    }
    if (bag < args.batch) {
      store_pooled<Kinds>(args, widths.output, bag, table.first_column + column, combiner.pooled);
    }
  }
}

/// Pools the bags of a tile, of any length. A group of lanes takes a bag, and requests several rows
/// before it adds the first.
template <TableKinds Kinds, class T, int Count>
__device__ __forceinline__ void pool_tile(TablesLookupArgs const& args,
                                          TableTile const& tile,
                                          BagWidths const& widths,
                                          OutOfRangeIds& bad) {
  constexpr int kInFlight = kPooledRowsInFlight;
  auto const& table = tile.table;
  int const log2_lanes = table.log2_lanes;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  auto const bag = tile.first_bag + (lane >> log2_lanes);
  int const group_lane = lane & ((1 << log2_lanes) - 1);
  auto const places = places_of_group(args, tile, bag);
  auto const* const weights = static_cast<T const*>(table.table);
  bool const is_weighted = args.weights != nullptr;
  bool const is_max = table.pooling == Pooling::max;
  for (int column = group_lane * Count; column < table.width; column += Count << log2_lanes) {
    auto const load = [&](std::int64_t row) {
      return load_packed<Count>(weights + row * table.width + column);
    };
    TablePooling<Count, writes_argmax(Kinds)> combiner;
    WholeSums<Count> whole;
    static_assert(kRowsOfPart % kInFlight == 0, "parts end between rounds");
    bool const is_long = !is_max && places.end - places.begin > kRowsOfPart;
    for (auto first = places.begin; first < places.end; first += kInFlight) {
      bool is_valid[kInFlight];
      PackedColumns<T, Count> rows[kInFlight];
      float weights_of_rows[kInFlight];
      std::int64_t ids[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        ids[k] = first + k < places.end ? load_id(args, first + k) : -1;
        is_valid[k] = is_in_range(ids[k], table.rows);
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (is_valid[k]) {
          rows[k] = load(ids[k]);
          weights_of_rows[k] = is_weighted ? __ldg(args.weights + first + k) : 1.0F;
        } else if (column == 0 && first + k < places.end) {
          bad.add(ids[k]);
        }
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (!is_valid[k]) {
          continue;
        }
        if (is_max) {
          combiner.take_larger(rows[k].widened(), first + k);
        } else if (is_weighted) {
          combiner.add(rows[k].widened(), table.pooling, weights_of_rows[k]);
        } else {
          combiner.add(rows[k].widened());
        }
      }
      if (auto const done = static_cast<int>(first - places.begin) + kInFlight;
          is_long && done % kRowsOfPart == 0 && first + kInFlight < places.end) {
        whole.fold(combiner.pooled, done == kRowsOfPart);
      }
    }
    if (is_long) {
      combiner.pooled = whole.get(combiner.pooled);
    }
    if (combiner.divisor.valid > 0) {
      if (divides(table.pooling)) {
        combiner.divide(table.pooling, is_weighted);
      }
    } else if (bag < tile.existing && is_in_range(table.default_id, table.rows)) {
      auto const row = load(table.default_id).widened();
      is_max ? combiner.take_larger(row, default_place(args, tile, bag)) : combiner.add(row);
    }
    if (bag < args.batch) {
      store_pooled<Kinds>(args, widths.output, bag, table.first_column + column, combiner.pooled);
      if constexpr (writes_argmax(Kinds)) {
        if (is_max) {
          store_argmax(args, table, widths.argmax, bag, column, combiner.places);
        }
      }
    }
  }
}

template <TableKinds Kinds, class T>
__device__ __forceinline__ void look_up_tile(TablesLookupArgs const& args,
                                             TableTile const& tile,
                                             BagWidths const& widths,
                                             OutOfRangeIds& bad) {
  constexpr int kWidest = 16 / sizeof(T);
  bool const gathers = only_gathers(Kinds) || is_gathered(args, tile.table);
  if (only_floats(Kinds) || tile.table.columns_a_lane == kWidest) {
    if (gathers) {
      gather_tile<Kinds, T, kWidest>(args, tile, widths, bad);
    } else if constexpr (only_sums(Kinds)) {
      sum_tile<Kinds, T, kWidest>(args, tile, widths, bad);
    } else if constexpr (!only_gathers(Kinds)) {
      pool_tile<Kinds, T, kWidest>(args, tile, widths, bad);
    }
  } else if constexpr (!only_sums(Kinds)) {
    if (gathers) {
      gather_tile<Kinds, T, 1>(args, tile, widths, bad);
    } else if constexpr (!only_gathers(Kinds)) {
      pool_tile<Kinds, T, 1>(args, tile, widths, bad);
    }
  }
}

}  // namespace msstream::ops::kernels
