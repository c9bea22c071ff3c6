// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/launch.cuh"
#include "common/row_vector.cuh"
#include "embedding_gradient/tables_places.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

inline constexpr int kTableSumThreads = 256;
inline constexpr int kTableSumWarps = kTableSumThreads / 32;
inline constexpr int kTableSumCount = 4;  ///< columns per lane

// Sums over sorted positions, which are cut into parts of equal length, one group of lanes each, so
// that no frequent row delays a launch:
//
//   ranks  0 0 0 1 | 1 1 1 1 | 1 2 3 3        part 0 stores row 0, part 2 rows 2 and 3
//   part      0    |    1    |    2           row 1: tails of 0 and 1 + head of 2
//
// A part stores the rows whose positions it contains completely. Its sum of a row that continues in
// the next part is its tail; its sum of a row that began in an earlier part and ends in this one is
// its head. A second launch adds tails and heads.

struct TableSumParts {
  std::int64_t places;  ///< positions per part
  std::int64_t parts;

  explicit TableSumParts(std::int64_t all_places)
      : places(std::clamp<std::int64_t>(ceil_div(all_places, kParts * kStep) * kStep, kStep, 256)),
        parts(ceil_div(all_places, places)) {}

 private:
  static constexpr std::int64_t kParts = 16'384;  // enough to fill a large GPU
  static constexpr std::int64_t kStep = 16;
};

struct TableSumPart {
  std::int64_t begin;
  std::int64_t end;
  bool has_head = false;  ///< its first row began in an earlier part
  bool has_tail = false;  ///< its last row continues in the next part

  __device__ TableSumPart(TablesGradientArgs const& args,
                          TableSumParts const& parts,
                          std::int64_t part)
      : begin(min(part * parts.places, args.places)), end(min(begin + parts.places, args.places)) {
    auto const goes_on = [&](std::int64_t border) {
      return args.ranks[border] >= 0 && args.ranks[border - 1] == args.ranks[border];
    };
    if (begin < end) {
      has_head = begin > 0 && goes_on(begin);
      has_tail = end < args.places && goes_on(end);
    }
  }
};

/// Loads the first `count` of up to kTableSumCount columns, and sets the other columns to zero. The
/// columns of tables of any width are adjacent, so that rows may begin at any alignment.
template <class T>
__device__ Columns<kTableSumCount> load_some_columns(T const* from, int count) {
  constexpr std::uintptr_t kBytes = kTableSumCount * sizeof(T);
  if (count >= kTableSumCount && reinterpret_cast<std::uintptr_t>(from) % kBytes == 0) {
    return load_columns<kTableSumCount>(from);
  }
  Columns<kTableSumCount> columns;
#pragma unroll
  for (int c = 0; c < kTableSumCount; ++c) {
    if (c < count) {
      columns.at[c] = load_columns<1>(from + c).at[0];
    }
  }
  return columns;
}

__device__ inline void store_some_columns(float* to,
                                          Columns<kTableSumCount> const& columns,
                                          int count) {
  if (count >= kTableSumCount && reinterpret_cast<std::uintptr_t>(to) % 16 == 0) {
    store_columns(to, columns);
    return;
  }
#pragma unroll
  for (int c = 0; c < kTableSumCount; ++c) {
    if (c < count) {
      to[c] = columns.at[c];
    }
  }
}

/// Sets those columns to zero whose maximum came from another position. They are not multiplied by
/// zero, because an infinite gradient would give NaN.
__device__ inline void keep_maxima(Columns<kTableSumCount>& columns,
                                   std::int32_t const* argmax,
                                   std::int32_t place,
                                   int count) {
#pragma unroll
  for (int c = 0; c < kTableSumCount; ++c) {
    columns.at[c] = c < count && __ldg(argmax + c) == place ? columns.at[c] : 0.0F;
  }
}

/// The location of the gradient that belongs to a sorted position, and its width and factor. If
/// `HasMax`, also the location of the argmax of a table of Pooling::max.
template <bool HasMax>
struct TableSumSource {
  std::int64_t element;
  std::int64_t argmax = -1;  ///< negative for the other poolings
  int width;
  std::int32_t place;
  float factor;

  __device__ TableSumSource(TablesGradientArgs const& args,
                            std::int64_t k,
                            BagWidths const& widths) {
    place = __ldg(args.positions + k);
    auto const bag = static_cast<unsigned>(__ldg(args.bags_of_places + place));
    factor = args.factors != nullptr ? __ldg(args.factors + place) : 1.0F;
    auto const number = bag / static_cast<unsigned>(args.batch);
    auto const& table = args.tables[number];
    width = __ldg(&table.width);
    auto const row = bag - number * args.batch;
    element = row * widths.output + __ldg(&table.first_column);
    if constexpr (HasMax) {
      if (table.pooling == Pooling::max) {
        argmax = row * widths.argmax + __ldg(&table.first_argmax_column);
      }
    }
  }
};

template <class T, bool HasMax>
__global__ void __launch_bounds__(kTableSumThreads)
    table_sum_parts_kernel(TablesGradientArgs const args,
                           RowLanes shape,
                           TableSumParts parts,
                           BagWidths widths,
                           float* tails,
                           float* heads) {
  constexpr int kInFlight = 4;
  auto const part = grid_thread() >> shape.log2_lanes;
  TableSumPart const mine(args, parts, part);
  if (mine.begin >= mine.end) {
    return;
  }
  int const first_rank = __ldg(args.ranks + mine.begin);
  if (first_rank < 0) {
    return;
  }
  auto const* const gradient = static_cast<T const*>(args.output_gradient);
  for (std::int64_t column = shape.lane() * kTableSumCount; column < shape.width;
       column += shape.lanes() * kTableSumCount) {
    auto const columns_of = [&](std::int64_t width) { return static_cast<int>(width - column); };
    int current = first_rank;
    int current_columns = 0;
    bool is_head = mine.has_head;
    Columns<kTableSumCount> sum;
    auto const store = [&] {
      auto* const row = is_head ? heads + part * shape.width : args.values + current * shape.width;
      store_some_columns(row + column, sum, current_columns);
    };
    for (auto first = mine.begin; first < mine.end; first += kInFlight) {
      int ranks[kInFlight];
      int counts[kInFlight];
      Columns<kTableSumCount> loaded[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        ranks[k] = first + k < mine.end ? __ldg(args.ranks + first + k) : -1;
        counts[k] = 0;
        if (ranks[k] >= 0) {
          TableSumSource<HasMax> const source(args, first + k, widths);
          counts[k] = columns_of(source.width);
          if (counts[k] > 0) {
            loaded[k] = load_some_columns(gradient + source.element + column, counts[k]);
            if constexpr (HasMax) {
              if (source.argmax >= 0) {
                keep_maxima(
                    loaded[k], args.argmax + source.argmax + column, source.place, counts[k]);
              }
            }
            loaded[k].multiply(source.factor);
          }
        }
      }
#pragma unroll
      for (int k = 0; k < kInFlight; ++k) {
        if (ranks[k] >= 0) {
          if (ranks[k] != current) {
            store();
            current = ranks[k];
            is_head = false;
            sum = Columns<kTableSumCount>{};
          }
          current_columns = counts[k];
          sum.add(loaded[k]);
        }
      }
    }
    if (mine.has_tail) {
      store_some_columns(tails + part * shape.width + column, sum, current_columns);
    } else {
      store();
    }
  }
}

}  // namespace msstream::ops::kernels
