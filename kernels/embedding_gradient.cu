// SPDX-License-Identifier: Apache-2.0
#include "bag_layout.hpp"
#include "grouped_sums.cuh"

#include <msstream/ops/kernels/embedding.hpp>

namespace msstream::ops::kernels {
namespace {

constexpr int kThreads = 256;

/// Few places: a warp a row, a block where it is long; one launch.
bool needs_one_launch(BagLayout const& bags) {
  constexpr std::int64_t kFewPlaces = 2048;
  return bags.capacity <= kFewPlaces;
}

/// The rows that sorted places read, their factors and those of the bags, then the sums' own.
struct GradientWorkspace {
  std::int32_t* rows;
  float* factors;
  float* scales;
  void* sums;
  std::size_t bytes;

  GradientWorkspace(void* memory, BagLayout const& bags, std::int64_t width) : bytes(0) {
    auto const take = [&](std::int64_t count) -> void* {
      constexpr std::size_t kAlignment = 256;
      auto* const taken = static_cast<std::byte*>(memory) + bytes;
      bytes += ceil_div(static_cast<std::size_t>(count) * sizeof(float), kAlignment) * kAlignment;
      return taken;
    };
    rows = static_cast<std::int32_t*>(take(bags.capacity));
    factors = static_cast<float*>(take(bags.capacity));
    scales = static_cast<float*>(take(bags.bags));
    sums = take(0);
    bytes += grouped_sums_workspace_bytes(bags.capacity, width);
  }
};

/// gradient_scale() of each bag: a warp a bag.
__global__ void __launch_bounds__(kThreads) bag_scales_kernel(RowGradientArgs args, float* scales) {
  auto const bag = grid_thread() / warpSize;
  if (bag >= existing_bags(args.bags)) {
    return;
  }
  auto const places = places_of_bag(args.bags, bag);
  int const lane = static_cast<int>(threadIdx.x) % warpSize;
  unsigned valid = 0;
  for (auto place = places.begin + lane; place < places.end; place += warpSize) {
    valid += is_in_range(args.ids[place], args.rows) ? 1 : 0;
  }
  valid = __reduce_add_sync(0xFFFFFFFFU, valid);
  if (lane == 0) {
    scales[bag] = 1.0F / static_cast<float>(valid);
  }
}

/// Which row of the output gradient each sorted place reads, and its factor unless `scales` is
/// null.
__global__ void __launch_bounds__(kThreads) source_rows_kernel(RowGradientArgs args,
                                                               float const* scales,
                                                               std::int32_t* rows,
                                                               float* factors) {
  auto const k = grid_thread();
  if (k < args.bags.capacity && args.ranks[k] >= 0) {
    auto const bag = bag_of_place(args.bags, args.positions[k]);
    rows[k] = static_cast<std::int32_t>(bag);
    if (scales != nullptr) {
      factors[k] = scales[bag];
    }
  }
}

GroupedPlaces grouped_places(CudaStream stream,
                             RowGradientArgs const& args,
                             GradientWorkspace const& workspace) {
  bool const is_scaled = args.pooling != Pooling::sum;
  bool const place_is_bag = args.bags.offsets == nullptr && args.bags.hotness == 1;
  GroupedPlaces const places{args.ranks,
                             place_is_bag ? args.positions : workspace.rows,
                             is_scaled && !place_is_bag ? workspace.factors : nullptr,
                             args.starts,
                             args.bags.capacity};
  if (place_is_bag) {
    return places;  // a mean of one
  }
  auto* const scales = is_scaled ? workspace.scales : nullptr;
  if (is_scaled) {
    bag_scales_kernel<<<grid_for(args.bags.bags, kThreads / 32), kThreads, 0, stream>>>(args,
                                                                                        scales);
    check_launch("embedding_gradient, scales");
  }
  source_rows_kernel<<<grid_for(args.bags.capacity, kThreads), kThreads, 0, stream>>>(
      args, scales, workspace.rows, workspace.factors);
  check_launch("embedding_gradient, rows");
  return places;
}

template <int Count>
__global__ void __launch_bounds__(kGroupedThreads)
    few_places_kernel(RowGradientArgs args, RowLanes shape) {
  auto const existing = *args.unique_count;
  if (std::int64_t{blockIdx.x} * kGroupedWarps >= existing) {
    return;
  }
  WarpRange mine{{0, 0}, std::int64_t{blockIdx.x} * kGroupedWarps + threadIdx.x / 32, false};
  if (mine.rank < existing) {
    mine.range = {args.starts[mine.rank], args.starts[mine.rank + 1]};
    mine.exists = true;
  }
  sum_ranges<Count>(
      mine, shape, args.row_gradients, [&](std::int64_t k, bool, std::int64_t column) {
        auto const bag = bag_of_place(args.bags, args.positions[k]);
        auto row = load_columns<Count>(args.output_gradient + bag * shape.width + column);
        row.multiply(gradient_scale(args.bags, args.pooling, args.ids, args.rows, bag));
        return row;
      });
}

template <int Count>
void launch(CudaStream stream, RowGradientArgs const& args) {
  if (needs_one_launch(args.bags)) {
    few_places_kernel<Count>
        <<<grid_for(args.bags.capacity, kGroupedWarps), kGroupedThreads, 0, stream>>>(
            args, RowLanes(args.width, Count));
    check_launch("embedding_gradient, few places");
    return;
  }
  GradientWorkspace const workspace(args.workspace, args.bags, args.width);
  launch_grouped_sums<Count>(stream,
                             grouped_places(stream, args, workspace),
                             args.output_gradient,
                             args.width,
                             args.row_gradients,
                             workspace.sums);
}

}  // namespace

std::size_t row_gradient_workspace_bytes(CudaStream, BagLayout const& bags, std::int64_t width) {
  return needs_one_launch(bags) ? 0 : GradientWorkspace(nullptr, bags, width).bytes;
}

void embedding_row_gradients(CudaStream stream, RowGradientArgs const& args) {
  if (args.bags.capacity == 0 || args.width == 0) {
    return;
  }
  if (allows_vectors(args.output_gradient, args.width, 4) &&
      allows_stores(args.row_gradients, args.width, 4)) {
    launch<4>(stream, args);
  } else {
    launch<1>(stream, args);
  }
}

}  // namespace msstream::ops::kernels
