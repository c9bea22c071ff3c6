// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda_check.cuh"
#include "embedding_tables_gradient.hpp"
#include "row_vector.cuh"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

inline constexpr int kTableSumThreads = 256;
inline constexpr int kTableSumWarps = kTableSumThreads / 32;
inline constexpr int kTableSumCount = 4;  ///< columns of a lane

// Sums of sorted places that are cut into parts of equal length, a group of lanes each, so that no
// row that stands often holds up a launch:
//
//   ranks  0 0 0 1 | 1 1 1 1 | 1 2 3 3        part 0 stores row 0, part 2 rows 2 and 3
//   part      0    |    1    |    2           row 1: tails of 0 and 1 + head of 2
//
// A part stores the rows whose places it has all; what it has of a row that goes on behind it is
// its tail, of a row that began before it and ends in it its head. A second launch adds those.

struct TableSumParts {
  std::int64_t places;  ///< of a part
  std::int64_t parts;

  explicit TableSumParts(std::int64_t all_places)
      : places(std::clamp<std::int64_t>(ceil_div(all_places, kParts * kStep) * kStep, kStep, 256)),
        parts(ceil_div(all_places, places)) {}

 private:
  static constexpr std::int64_t kParts = 16'384;  // fill a large GPU
  static constexpr std::int64_t kStep = 16;
};

struct TableSumPart {
  std::int64_t begin;
  std::int64_t end;
  bool has_head = false;  ///< its first row began before it
  bool has_tail = false;  ///< its last row goes on behind it

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

/// The first `count` of up to kTableSumCount columns, and zeros; tables of any width lie side by
/// side, so that rows may begin anywhere.
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

/// Where the gradient of a sorted place lies.
struct TableSumSource {
  std::int64_t element;
  int width;
  float factor;

  __device__ TableSumSource(TablesGradientArgs const& args,
                            std::int64_t k,
                            std::int64_t output_width) {
    auto const place = __ldg(args.positions + k);
    auto const bag = static_cast<unsigned>(__ldg(args.bags_of_places + place));
    factor = args.factors != nullptr ? __ldg(args.factors + place) : 1.0F;
    auto const number = bag / static_cast<unsigned>(args.batch);
    auto const& table = args.tables[number];
    width = __ldg(&table.width);
    element = (bag - number * args.batch) * output_width + __ldg(&table.first_column);
  }
};

template <class T>
__global__ void __launch_bounds__(kTableSumThreads)
    table_sum_parts_kernel(TablesGradientArgs const args,
                           RowLanes shape,
                           TableSumParts parts,
                           std::int64_t output_width,
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
          TableSumSource const source(args, first + k, output_width);
          counts[k] = columns_of(source.width);
          if (counts[k] > 0) {
            loaded[k] = load_some_columns(gradient + source.element + column, counts[k]);
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

/// The sum of rows [begin, end) of `tails`, and then of a head unless it is null; by one warp, in
/// order.
__device__ inline Columns<kTableSumCount> sum_of_tails(float const* tails,
                                                       std::int64_t width,
                                                       PlaceRange range,
                                                       float const* head,
                                                       std::int64_t column,
                                                       int columns) {
  constexpr int kInFlight = 4;
  Columns<kTableSumCount> sum;
  for (auto first = range.begin; first < range.end; first += kInFlight) {
    Columns<kTableSumCount> rows[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (first + k < range.end) {
        rows[k] = load_some_columns(tails + (first + k) * width + column, columns);
      }
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      sum.add(rows[k]);
    }
  }
  if (head != nullptr) {
    sum.add(load_some_columns(head + column, columns));
  }
  return sum;
}

/// A row that began in an earlier part and ends in this one: the tails and the head to add.
struct TableSumBorder {
  PlaceRange tails{0, 0};
  std::int64_t part = 0;
  std::int32_t rank = -1;  ///< below 0: no such row
  std::int32_t width = 0;

  __device__ TableSumBorder(TablesGradientArgs const& args,
                            TableSumParts const& parts,
                            std::int64_t number)
      : part(number) {
    TableSumPart const mine(args, parts, part);
    if (mine.has_head) {
      auto const first_rank = args.ranks[mine.begin];
      if (!mine.has_tail || args.ranks[mine.end] != first_rank) {
        rank = first_rank;
        tails = {args.starts[rank] / parts.places, part};
        auto const bag = static_cast<unsigned>(args.bags_of_places[args.positions[mine.begin]]);
        width = args.tables[bag / static_cast<unsigned>(args.batch)].width;
      }
    }
  }
  [[nodiscard]] __device__ bool is_long() const {
    constexpr std::int64_t kFew = 32;
    return rank >= 0 && tails.end - tails.begin > kFew;
  }
};

// A warp a part, and a block for long borders. No other warp writes the row. The blocks behind
// those find where each table begins.
static __global__ void __launch_bounds__(kTableSumThreads)
    table_sum_borders_kernel(TablesGradientArgs const args,
                             TableSumParts parts,
                             std::int64_t widest,
                             std::int64_t tables,
                             float const* tails,
                             float const* heads) {
  __shared__ bool is_long[kTableSumWarps];
  __shared__ float partials[kTableSumWarps][32 * kTableSumCount];
  auto const first_part = std::int64_t{blockIdx.x} * kTableSumWarps;
  auto const blocks_of_parts = ceil_div<std::int64_t>(parts.parts, kTableSumWarps);
  if (blockIdx.x >= blocks_of_parts) {
    auto const table = (blockIdx.x - blocks_of_parts) * kTableSumThreads + threadIdx.x;
    if (table <= tables) {
      args.table_starts[table] =
          count_not_above(args.unique_rows, *args.unique_count, args.first_rows[table] - 1);
    }
    return;
  }
  int const warp = static_cast<int>(threadIdx.x) / 32;
  int const lane = static_cast<int>(threadIdx.x) % 32;
  TableSumBorder const mine(args, parts, first_part + warp);
  if (lane == 0) {
    is_long[warp] = mine.is_long();
  }
  auto const sum_of =
      [&](TableSumBorder const& border, PlaceRange range, bool has_head, int column) {
        float const* const head = has_head ? heads + border.part * widest : nullptr;
        return column < border.width
                   ? sum_of_tails(tails, widest, range, head, column, border.width - column)
                   : Columns<kTableSumCount>{};
      };
  auto const store =
      [&](TableSumBorder const& border, Columns<kTableSumCount> const& sum, int column) {
        store_some_columns(args.values + border.rank * widest + column, sum, border.width - column);
      };
  if (!mine.is_long()) {
    for (int column = lane * kTableSumCount; column < mine.width; column += 32 * kTableSumCount) {
      store(mine, sum_of(mine, mine.tails, true, column), column);
    }
  }
  __syncthreads();
  for (int owner = 0; owner < kTableSumWarps; ++owner) {
    if (!is_long[owner]) {
      continue;
    }
    TableSumBorder const border(args, parts, first_part + owner);
    auto const share =
        ceil_div<std::int64_t>(border.tails.end - border.tails.begin, kTableSumWarps);
    auto const begin = min(border.tails.begin + warp * share, border.tails.end);
    PlaceRange const own{begin, min(begin + share, border.tails.end)};
    for (int base = 0; base < border.width; base += 32 * kTableSumCount) {
      int const column = base + lane * kTableSumCount;
      auto sum = sum_of(border, own, warp == kTableSumWarps - 1, column);
#pragma unroll
      for (int c = 0; c < kTableSumCount; ++c) {
        partials[warp][lane * kTableSumCount + c] = sum.at[c];
      }
      __syncthreads();
      if (warp == 0) {
        for (int other = 1; other < kTableSumWarps; ++other) {
#pragma unroll
          for (int c = 0; c < kTableSumCount; ++c) {
            sum.at[c] = __fadd_rn(sum.at[c], partials[other][lane * kTableSumCount + c]);
          }
        }
        store(border, sum, column);
      }
      __syncthreads();
    }
  }
}

}  // namespace msstream::ops::kernels
