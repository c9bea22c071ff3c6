// SPDX-License-Identifier: Apache-2.0
#include "segment_teams.cuh"
#include "softmax_math.hpp"

#include <msstream/ops/kernels/jagged_softmax.hpp>

#include <cmath>

namespace msstream::ops::kernels {
namespace {

/// Calls each(element) for the thread's elements of a column; eight loads are under way at once.
template <class Team, class Each>
__device__ void for_each_row(Team const& team,
                             PlaceRange const& rows,
                             std::int64_t column,
                             std::int64_t width,
                             Each const& each) {
  auto const end = column < width ? rows.end : rows.begin;
#pragma unroll 8
  for (auto row = rows.begin + team.row; row < end; row += team.rows) {
    each(row * width + column);
  }
}

__global__ void __launch_bounds__(kTeamThreads)
    jagged_softmax_kernel(__grid_constant__ JaggedSoftmaxArgs const args, TeamShape shape) {
  auto const softmax_of = [&](auto const& team, PlaceRange const& rows) {
    for (std::int64_t base = 0; base < args.width; base += team.columns) {
      auto const column = base + team.column;
      auto const each = [&](auto const& use) { for_each_row(team, rows, column, args.width, use); };
      float largest = Largest::nothing();
      each([&](std::int64_t i) { largest = Largest::combine(largest, __ldg(args.values + i)); });
      largest = team.template reduce<Largest>(largest);
      float sum = 0.0F;
      each([&](std::int64_t i) { sum += std::exp(__ldg(args.values + i) - largest); });
      sum = team.template reduce<Total>(sum);
      each([&](std::int64_t i) {
        args.output[i] = std::exp(__ldg(args.values + i) - largest) / sum;
      });
    }
  };
  for_each_segment(args.offsets, args.segments, args.capacity, shape, softmax_of);
  clear_rows_of_no_segment(args.offsets, args.segments, args.capacity, args.width, args.output);
}

__global__ void __launch_bounds__(kTeamThreads)
    jagged_softmax_gradient_kernel(__grid_constant__ JaggedSoftmaxGradientArgs const args,
                                   TeamShape shape) {
  auto const gradient_in = [&](auto const& team, PlaceRange const& rows) {
    for (std::int64_t base = 0; base < args.width; base += team.columns) {
      auto const column = base + team.column;
      auto const each = [&](auto const& use) { for_each_row(team, rows, column, args.width, use); };
      float total = 0.0F;
      each([&](std::int64_t i) {
        total += weighted(__ldg(args.output + i), __ldg(args.output_gradient + i));
      });
      total = team.template reduce<Total>(total);
      each([&](std::int64_t i) {
        args.value_gradients[i] =
            gradient_of(__ldg(args.output + i), __ldg(args.output_gradient + i), total);
      });
    }
  };
  for_each_segment(args.offsets, args.segments, args.capacity, shape, gradient_in);
  clear_rows_of_no_segment(
      args.offsets, args.segments, args.capacity, args.width, args.value_gradients);
}

/// Calls launch(shape, blocks); even without segments there may be rows to clear.
template <class Args, class Launch>
void with_teams(Args const& args, Launch const& launch) {
  if (args.capacity == 0 || args.width == 0) {
    return;
  }
  TeamShape const shape(args.segments, args.capacity, args.width);
  auto const to_clear =
      std::min(ceil_div<std::int64_t>(args.capacity * args.width, 4 * kTeamThreads), kTeamBlocks);
  auto const blocks = std::max(ceil_div(args.segments, shape.segments_a_block), to_clear);
  launch(shape, grid_for(blocks, 1));
}

}  // namespace

void jagged_softmax(CudaStream stream, JaggedSoftmaxArgs const& args) {
  with_teams(args, [&](TeamShape const& shape, unsigned blocks) {
    jagged_softmax_kernel<<<blocks, kTeamThreads, 0, stream>>>(args, shape);
    check_launch("jagged_softmax");
  });
}

void jagged_softmax_gradient(CudaStream stream, JaggedSoftmaxGradientArgs const& args) {
  with_teams(args, [&](TeamShape const& shape, unsigned blocks) {
    jagged_softmax_gradient_kernel<<<blocks, kTeamThreads, 0, stream>>>(args, shape);
    check_launch("jagged_softmax_gradient");
  });
}

}  // namespace msstream::ops::kernels
