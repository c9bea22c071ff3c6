// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/search.hpp"
#include "common/whole_sums.cuh"
#include "embedding_gradient/tables_quads.cuh"

#include <cstdint>
#include <type_traits>

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
  std::int32_t table = 0;
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
        table = static_cast<std::int32_t>(bag / static_cast<unsigned>(args.batch));
        width = args.tables[table].width;
      }
    }
  }
  [[nodiscard]] __device__ bool is_long() const {
    constexpr std::int64_t kFew = 32;
    return rank >= 0 && tails.end - tails.begin > kFew;
  }
};

/// Four columns of a sum that a lane has.
struct BorderSum {
  static constexpr int kQuads = 1;
  Columns<kTableSumCount> at[kQuads];
};

/// Calls function(q) for q from First to Count - 1, which are constants of the compiler. A loop of
/// so few steps takes more registers, even if it is unrolled.
template <int Count, int First = 0, class Function>
__device__ __forceinline__ void for_quads(Function const& function) {
  if constexpr (First < Count) {
    function(std::integral_constant<int, First>{});
    for_quads<Count, First + 1>(function);
  }
}

/// Completes the sums of rows whose sorted positions lie in several parts, those that end in the
/// parts of one block: a warp per part, or the whole block if a row has many partial sums. All
/// lanes of one warp call finish(border, column, sum) for every Sum::kQuads * 32 * kTableSumCount
/// columns of a row, also those whose columns are beyond its width. Each part of the sum has
/// kTableSumCount columns, 32 * kTableSumCount further on than the part before. No other warp
/// completes the row. All threads of the block must call complete_sums() together.
template <class Sum, class Finish>
__device__ void complete_sums(TablesGradientArgs const& args,
                              TableSumParts const& parts,
                              std::int64_t widest,
                              float const* tails,
                              float const* heads,
                              Finish const& finish) {
  constexpr int kQuads = Sum::kQuads;
  constexpr int kDistance = 32 * kTableSumCount;
  __shared__ bool is_long[kTableSumWarps];
  __shared__ float partials[kTableSumWarps][kDistance];
  auto const first_part = std::int64_t{blockIdx.x} * kTableSumWarps;
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
  if (!mine.is_long()) {
    for (int base = 0; base < mine.width; base += kQuads * kDistance) {
      int const column = base + lane * kTableSumCount;
      Sum sums;
      for_quads<kQuads>(
          [&](auto q) { sums.at[q] = sum_of(mine, mine.tails, true, column + q * kDistance); });
      finish(mine, column, sums);
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
    for (int base = 0; base < border.width; base += kQuads * kDistance) {
      int const first_column = base + lane * kTableSumCount;
      Sum sums;
      for_quads<kQuads>([&](auto q) {
        int const column = first_column + q * kDistance;
        auto& sum = sums.at[q];
        sum = sum_of(border, own, warp == kTableSumWarps - 1, column);
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
        }
        if (q + 1 < kQuads) {
          __syncthreads();
        }
      });
      if (warp == 0) {
        finish(border, first_column, sums);
      }
      __syncthreads();
    }
  }
}

/// The sum of a row that a sink takes at once.
template <class Sink, bool IsWide>
struct BorderOf {
  using Sum = BorderSum;
};
template <class Sink>
struct BorderOf<Sink, true> {
  using Sum = typename Sink::Division::Sum;
};

/// Completes rows whose sorted positions lie in several parts. For a sink that finds tables, the
/// blocks after those for the parts find the first distinct row of each table.
template <class Sink>
__global__ void __launch_bounds__(kTableSumThreads, Sink::kIsWide ? 2 : 4)
    table_sum_borders_kernel(__grid_constant__ TablesGradientArgs const args,
                             __grid_constant__ Sink const sink,
                             TableSumParts const parts,
                             std::int64_t widest,
                             std::int64_t tables,
                             float const* tails,
                             float const* heads) {
  auto const blocks_of_parts = ceil_div<std::int64_t>(parts.parts, kTableSumWarps);
  if (Sink::kFindsTables && blockIdx.x >= blocks_of_parts) {
    auto const table = (blockIdx.x - blocks_of_parts) * kTableSumThreads + threadIdx.x;
    if (table <= tables) {
      args.table_starts[table] =
          count_not_above(args.unique_rows, *args.unique_count, args.first_rows[table] - 1);
    }
    return;
  }
  if (sink.is_skipped()) {
    return;
  }
  using Sum = typename BorderOf<Sink, Sink::kIsWide>::Sum;
  auto const finish = [&](TableSumBorder const& border, std::int64_t column, Sum const& sums) {
    auto const table = sink.table(args, border.table);
    if (!table.exists()) {
      return;
    }
    RowLanes shape(32 * kTableSumCount, kTableSumCount);
    shape.width = border.width;
    auto const target = sink.target_of(args, border.table, border.rank);
    if constexpr (Sink::kIsWide) {
      typename Sink::Division::Lane lane(static_cast<int>(column), 32 * kTableSumCount);
      lane.set_width(border.width);
      typename Sink::Held held;
      auto const row = static_cast<std::uint32_t>(target);
      held.load(table, row, lane);
      auto used = sums;
      auto const squares =
          sink.template squares_of<typename Sink::Division>(table, held, true, lane, used, shape);
      sink.finish(table, held, row, lane, used, squares);
    } else {
      auto const& sum = sums.at[0];
      typename Sink::Ahead ahead;
      ahead.load(table, target, column);
      float squares[] = {sink.squares_of(table, ahead, sum)};
      sink.add_squares(squares, shape);
      sink.finish(table, ahead, shape, target, column, sum, squares[0]);
    }
  };
  complete_sums<Sum>(args, parts, widest, tails, heads, finish);
}

/// Sums the gradients of the distinct rows of many tables, and passes the sums to the sink.
template <class Sink>
void launch_table_sums(CudaStream stream, TablesGradientArgs const& args, Sink const& sink) {
  auto const& plan = *args.plan;
  TableSumParts const parts(args.places, plan.widest);
  TableSumBorders const borders(args.workspace, parts, plan.widest);
  auto const launch =
      [&](auto* kernel, auto const& division, RowLanes const& shape, std::size_t shared_bytes) {
        kernel<<<grid_for(parts.parts, kTableSumThreads / shape.lanes()),
                 kTableSumThreads,
                 shared_bytes,
                 stream>>>(args,
                           sink,
                           division,
                           parts,
                           {stride_or(args.gradient_stride, plan.width), plan.argmax_width},
                           borders.tails,
                           borders.heads);
        check_launch("sums of tables, parts");
      };
  if (parts.parts > 0) {
    if constexpr (Sink::kTakesQuads) {
      typename Sink::Division const division(plan.widest);
      auto const& shape = division.shape;
      auto const shared_bytes = StagedTablePlaces<StagedQuadPlace>::bytes_a_block(shape) +
                                SharedTables<typename Sink::Table>::bytes_a_block(shape);
      if (args.factors != nullptr || args.argmax != nullptr) {
        launch(table_sum_quads_kernel<Sink, true>, division, shape, shared_bytes);
      } else {
        launch(table_sum_quads_kernel<Sink, false>, division, shape, shared_bytes);
      }
    } else {
      RowLanes const shape(plan.widest, kTableSumCount);
      launch(table_sum_parts_kernel<Sink>,
             shape,
             shape,
             StagedTablePlaces<StagedTablePlace>::bytes_a_block(shape));
    }
  }
  auto const tables = static_cast<std::int64_t>(plan.tables.size());
  auto const blocks =
      ceil_div<std::int64_t>(parts.parts, kTableSumWarps) +
      (Sink::kFindsTables ? ceil_div<std::int64_t>(tables + 1, kTableSumThreads) : 0);
  if (blocks > 0) {
    table_sum_borders_kernel<<<grid_for(blocks, 1), kTableSumThreads, 0, stream>>>(
        args, sink, parts, plan.widest, tables, borders.tails, borders.heads);
    check_launch("sums of tables, borders");
  }
}

}  // namespace msstream::ops::kernels
