// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/workspace_layout.hpp"
#include "embedding_gradient/tables_borders.cuh"
#include "embedding_gradient/tables_places.hpp"
#include "embedding_gradient/tables_sums.cuh"

#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

// Describes the positions of the ids of all bags (tell_places()), one thread per bag.
template <class Id, class Row>
__global__ void __launch_bounds__(kTableSumThreads, 4)
    tell_places_kernel(TablePlacesArgs const args, bool has_default_ids, std::int64_t all_bags) {
  auto const i = grid_thread();
  if (i < all_bags) {
    auto const number = static_cast<unsigned>(i) / static_cast<unsigned>(args.bags.batch);
    auto const bag = i - number * args.bags.batch;
    tell_places<Id, Row>(args, args.bags.tables[number], has_default_ids, number, bag);
  }
}

/// The partial sums of rows whose sorted positions lie in several parts; a second launch adds them.
struct TableSumBorders {
  float* tails;  ///< [parts, widest]
  float* heads;  ///< [parts, widest]
  std::size_t bytes;

  TableSumBorders(void* memory, TableSumParts const& parts, std::int64_t widest) {
    WorkspaceLayout workspace(memory);
    tails = workspace.take<float>(parts.parts * widest);
    heads = workspace.take<float>(parts.parts * widest);
    bytes = workspace.bytes();
  }
};

template <class T, bool HasMax>
void launch_sums(CudaStream stream, TablesGradientArgs const& args) {
  auto const& plan = *args.plan;
  RowLanes const shape(plan.widest, kTableSumCount);
  TableSumParts const parts(args.places);
  TableSumBorders const borders(args.workspace, parts, plan.widest);
  if (parts.parts > 0) {
    table_sum_parts_kernel<T, HasMax>
        <<<grid_for(parts.parts, kTableSumThreads / shape.lanes()), kTableSumThreads, 0, stream>>>(
            args, shape, parts, {plan.width, plan.argmax_width}, borders.tails, borders.heads);
    check_launch("embedding_tables_gradient, parts");
  }
  auto const tables = static_cast<std::int64_t>(plan.tables.size());
  auto const blocks = ceil_div<std::int64_t>(parts.parts, kTableSumWarps) +
                      ceil_div<std::int64_t>(tables + 1, kTableSumThreads);
  table_sum_borders_kernel<<<grid_for(blocks, 1), kTableSumThreads, 0, stream>>>(
      args, parts, plan.widest, tables, borders.tails, borders.heads);
  check_launch("embedding_tables_gradient, borders");
}

}  // namespace

void embedding_tables_places(CudaStream stream, TablePlacesArgs const& args) {
  auto const& plan = *args.bags.plan;
  if (has_unused_places(args.bags)) {
    auto const places = static_cast<std::size_t>(place_capacity(args.bags));
    check_cuda(cudaMemsetAsync(args.rows, 0xFF, places * bytes_of(args.row_dtype), stream),
               "cudaMemsetAsync");
  }
  auto const all_bags = static_cast<std::int64_t>(plan.tables.size()) * args.bags.batch;
  if (all_bags == 0) {
    return;
  }
  with_place_types(args, [&]<class Id, class Row>(Id, Row) {
    tell_places_kernel<Id, Row>
        <<<grid_for(all_bags, kTableSumThreads), kTableSumThreads, 0, stream>>>(
            args, plan.has_default_ids, all_bags);
    check_launch("embedding_tables_places");
  });
}

std::size_t embedding_tables_gradient_workspace_bytes(CudaStream,
                                                      std::int64_t places,
                                                      std::int64_t widest) {
  return TableSumBorders(nullptr, TableSumParts(places), widest).bytes;
}

void embedding_tables_gradient(CudaStream stream, TablesGradientArgs const& args) {
  with_real_type("embedding_tables_gradient: a gradient", args.gradient_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    bool const has_max = args.argmax != nullptr && args.plan->argmax_width > 0;
    has_max ? launch_sums<T, true>(stream, args) : launch_sums<T, false>(stream, args);
  });
}

}  // namespace msstream::ops::kernels
