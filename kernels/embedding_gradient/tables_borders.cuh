// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/search.hpp"
#include "common/whole_sums.cuh"
#include "embedding_gradient/tables_sums.cuh"

#include <cstdint>

/// The second launch of the sums of embedding_gradient/tables_sums.cuh: completes rows whose
/// positions lie in several parts.
namespace msstream::ops::kernels {

/// Returns the sum of the rows [begin, end) of `tails` and of `head`, unless it is null, added in
/// that order by one warp.
__device__ inline Columns<kTableSumCount> sum_of_tails(float const* tails,
                                                       std::int64_t width,
                                                       PlaceRange range,
                                                       float const* head,
                                                       std::int64_t column,
                                                       int columns) {
  constexpr int kInFlight = 4;
  Columns<kTableSumCount> sum;
  WholeSums<kTableSumCount> whole;
  bool is_folded = false;
  for (auto first = range.begin; first < range.end; first += kInFlight) {
    if (first != range.begin && (first - range.begin) % kTermsOfPart == 0) {
      whole.fold(sum, !is_folded);
      is_folded = true;
    }
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
  return is_folded ? whole.get(sum) : sum;
}

/// A row of gradients whose sorted positions begin in an earlier part and end in the given one. Its
/// sum is that of the partial sums of the earlier parts (tails) and of the given part (head).
struct TableSumBorder {
  PlaceRange tails{0, 0};
  std::int64_t part = 0;
  std::int32_t rank = -1;  ///< negative if there is no such row
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

// Completes rows of gradients whose sorted positions lie in several parts: a warp per part, or the
// whole block if a row has many partial sums. No other warp writes the row. The blocks after those
// for the parts find the first distinct row of each table.
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
