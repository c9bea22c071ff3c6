// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "embedding_gradient/gradients.hpp"
#include "embedding_gradient/row_gradients.cuh"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

/// Sums the gradients of rows in a single launch if there are few positions: a warp takes a row, or
/// the whole block if the row has many positions. Blocks along the grid's y dimension share the
/// columns, if there is more than one.
template <class Source, class Rows, bool IsWhole>
__global__ void __launch_bounds__(kGroupedThreads, 2)
    few_places_kernel(__grid_constant__ RowGradientArgs const args,
                      Source const source,
                      Rows const rows,
                      StoreSums<IsWhole> const sink,
                      RowLanes const shape) {
  auto const existing = *args.unique_count;
  auto const first = std::int64_t{blockIdx.x} * kGroupedWarps;
  if (first >= existing) {
    return;
  }
  WarpRange mine{{0, 0}, first + threadIdx.x / 32, 0, 0, false};
  if (mine.rank < existing) {
    mine.range = {args.starts[mine.rank], args.starts[mine.rank + 1]};
    mine.exists = true;
  }
  sum_ranges(
      mine,
      columns_of_block(shape),
      shape,
      [&](WarpRange const&) {
        return [&](std::int64_t k, std::int64_t column) {
          auto const place = args.positions[k];
          auto const row = source.row_of(place);
          auto columns = rows.widened(rows.load(row, place, column));
          columns.multiply(row >= 0 ? source.factor_of(place) : 0.0F);
          return columns;
        };
      },
      [&](WarpRange const& range, std::int64_t column, Columns<4> const& sum) {
        typename StoreSums<IsWhole>::Ahead ahead;
        sink.finish({}, ahead, range.rank, column, sum, 0.0F, shape.width);
      });
}

template <class Rows, bool IsWhole>
void launch(CudaStream stream, RowGradientArgs const& args, Rows const& rows) {
  StoreSums<IsWhole> const sink{args.row_gradients};
  auto const places = place_capacity(args.bags);
  WorkspaceLayout workspace(args.workspace);
  RowGradientMemory const memory(workspace, args.bags, args.pooling, args.width);
  if (memory.borders) {
    launch_grouped_sums(stream,
                        {args.ranks, args.positions, args.starts, places},
                        make_place_source(stream, args, memory.lists),
                        rows,
                        gradient_row_count(args),
                        sink,
                        args.width,
                        *memory.borders);
    return;
  }
  auto const launch_few = [&](auto const& source) {
    RowLanes const shape(args.width, 4);
    dim3 const grid(grid_for(places, kGroupedWarps), column_shares(shape));
    few_places_kernel<<<grid, kGroupedThreads, 0, stream>>>(args, source, rows, sink, shape);
    check_launch("embedding_gradient, few places");
  };
  bool const is_searched = lists_places(args.bags, args.pooling) &&
                           !has_divisors(args.bags, args.pooling) && args.pooling != Pooling::none;
  if (is_searched) {
    with_id_type("embedding_gradient", args.bags, [&](auto const& bags) {
      launch_few(SearchedSource{bags});
    });
  } else {
    launch_few(make_place_source(stream, args, memory.lists));
  }
}

template <class T, bool IsMax>
void launch_of_type(CudaStream stream, RowGradientArgs const& args) {
  auto const launch_rows = [&](auto is_whole) {
    constexpr bool kIsWhole = decltype(is_whole)::value;
    using Rows = GradientRows<T, IsMax, kIsWhole>;
    launch<Rows, kIsWhole>(
        stream, args, Rows{static_cast<T const*>(args.output_gradient), args.argmax, args.width});
  };
  if (allows_whole_loads<T>(args) && allows_stores(args.row_gradients, args.width, 4)) {
    launch_rows(std::true_type{});
  } else {
    launch_rows(std::false_type{});
  }
}

}  // namespace

std::size_t row_gradient_workspace_bytes(CudaStream,
                                         BagView const& bags,
                                         Pooling pooling,
                                         std::int64_t width) {
  WorkspaceLayout workspace(nullptr);
  RowGradientMemory(workspace, bags, pooling, width);
  return workspace.bytes();
}

void embedding_row_gradients(CudaStream stream, RowGradientArgs const& args) {
  if (place_capacity(args.bags) == 0 || args.width == 0) {
    return;
  }
  with_real_type("embedding_gradient: an output gradient", args.gradient_dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (args.pooling == Pooling::max) {
      launch_of_type<T, true>(stream, args);
    } else {
      launch_of_type<T, false>(stream, args);
    }
  });
}

}  // namespace msstream::ops::kernels
