// SPDX-License-Identifier: Apache-2.0
#include "elementwise/softmax_math.hpp"
#include "ids/report_bad_bags.cuh"
#include "jagged/jagged_softmax.hpp"
#include "jagged/teams.cuh"

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {
namespace {

template <class Args>
__host__ __device__ BagOffsets<std::int64_t> offsets_of(Args const& args) {
  return {args.offsets, args.segments, args.capacity};
}

/// The elements of one column of a segment that one thread processes.
struct Elements {
  std::int64_t first;
  std::int64_t step;
  std::int64_t count;

  template <class Team>
  __device__ Elements(Team const& team,
                      PlaceRange const& rows,
                      std::int64_t column,
                      std::int64_t width)
      : first((rows.begin + team.row) * width + column),
        step(team.rows * width),
        count(column < width ? max(ceil_div<std::int64_t>(rows.end - rows.begin - team.row,
                                                          std::int64_t{team.rows}),
                                   std::int64_t{0})
                             : 0) {}

  [[nodiscard]] __device__ std::int64_t at(std::int64_t k) const { return first + k * step; }

  /// Calls each(i), where i is an element's index in the array, for all elements of the calling
  /// thread, with eight loads in flight.
  template <class Each>
  __device__ void for_each(Each const& each) const {
#pragma unroll 8
    for (std::int64_t k = 0; k < count; ++k) {
      each(at(k));
    }
  }

  /// Returns the sum of term(i), where i is an element's index in the array, over all elements of
  /// the calling thread.
  template <class Term>
  __device__ float sum_of(Term const& term) const {
    LongSum sum;
    for (std::int64_t k = 0; k < count;) {
      auto const end_of_part = min(k + kTermsOfPart, count);
#pragma unroll 8
      for (; k < end_of_part; ++k) {
        sum.add(term(at(k)));
      }
      sum.fold();
    }
    return sum.get();
  }
};

constexpr int kHeld = 2 * kRowsALane;  ///< the most elements that a thread holds in registers

/// The values of an array that one thread holds in registers, at most kHeld of them.
struct HeldElements {
  float values[kHeld];

  __device__ HeldElements(float const* array, Elements const& elements) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      values[k] = k < elements.count ? __ldg(array + elements.at(k)) : 0.0F;
    }
  }
};

/// Calls each(k) for the elements that the calling thread holds in registers.
template <class Each>
__device__ void for_each_held(Elements const& elements, Each const& each) {
#pragma unroll
  for (int k = 0; k < kHeld; ++k) {
    if (k < elements.count) {
      each(k);
    }
  }
}

/// Returns whether every thread of the warp has few enough elements to hold them in registers.
__device__ bool are_held(Elements const& elements) {
  return __all_sync(kAllLanes, elements.count <= kHeld) != 0;
}

template <class Team>
__device__ void softmax_held(Team const& team,
                             Elements const& elements,
                             JaggedSoftmaxArgs const& args) {
  HeldElements held(args.values, elements);
  float largest = Largest::nothing();
  for_each_held(elements, [&](int k) { largest = Largest::combine(largest, held.values[k]); });
  largest = team.template reduce<Largest>(largest);
  float sum = 0.0F;
  for_each_held(elements, [&](int k) {
    held.values[k] = std::exp(held.values[k] - largest);
    sum += held.values[k];
  });
  sum = team.template reduce<Total>(sum);
  for_each_held(elements, [&](int k) { args.output[elements.at(k)] = held.values[k] / sum; });
}

template <class Team>
__device__ void softmax_of_any(Team const& team,
                               Elements const& elements,
                               JaggedSoftmaxArgs const& args) {
  float largest = Largest::nothing();
  elements.for_each(
      [&](std::int64_t i) { largest = Largest::combine(largest, __ldg(args.values + i)); });
  largest = team.template reduce<Largest>(largest);
  float sum =
      elements.sum_of([&](std::int64_t i) { return std::exp(__ldg(args.values + i) - largest); });
  sum = team.template reduce<Total>(sum);
  elements.for_each(
      [&](std::int64_t i) { args.output[i] = std::exp(__ldg(args.values + i) - largest) / sum; });
}

__global__ void __launch_bounds__(kTeamThreads, kTeamBlocksAtOnce)
    jagged_softmax_kernel(__grid_constant__ JaggedSoftmaxArgs const args, TeamShape shape) {
  auto const softmax_of = [&](auto const& team, PlaceRange const& rows) {
    for (std::int64_t base = 0; base < args.width; base += team.columns) {
      Elements const elements(team, rows, base + team.column, args.width);
      if constexpr (!std::decay_t<decltype(team)>::kIsBlock) {
        if (are_held(elements)) {
          softmax_held(team, elements, args);
          continue;
        }
      }
      softmax_of_any(team, elements, args);
    }
  };
  auto const offsets = offsets_of(args);
  for_each_segment(offsets, args.report, args.width, args.output, shape, softmax_of);
  clear_rows_of_no_segment(offsets, args.width, args.output);
}

template <class Team>
__device__ void gradient_held(Team const& team,
                              Elements const& elements,
                              JaggedSoftmaxGradientArgs const& args) {
  HeldElements const outputs(args.output, elements);
  HeldElements const gradients(args.output_gradient, elements);
  float total = 0.0F;
  for_each_held(elements,
                [&](int k) { total += weighted(outputs.values[k], gradients.values[k]); });
  total = team.template reduce<Total>(total);
  for_each_held(elements, [&](int k) {
    args.value_gradients[elements.at(k)] =
        gradient_of(outputs.values[k], gradients.values[k], total);
  });
}

template <class Team>
__device__ void gradient_of_any(Team const& team,
                                Elements const& elements,
                                JaggedSoftmaxGradientArgs const& args) {
  float total = elements.sum_of([&](std::int64_t i) {
    return weighted(__ldg(args.output + i), __ldg(args.output_gradient + i));
  });
  total = team.template reduce<Total>(total);
  elements.for_each([&](std::int64_t i) {
    args.value_gradients[i] =
        gradient_of(__ldg(args.output + i), __ldg(args.output_gradient + i), total);
  });
}

__global__ void __launch_bounds__(kTeamThreads, kTeamBlocksAtOnce)
    jagged_softmax_gradient_kernel(__grid_constant__ JaggedSoftmaxGradientArgs const args,
                                   TeamShape shape) {
  auto const gradient_in = [&](auto const& team, PlaceRange const& rows) {
    for (std::int64_t base = 0; base < args.width; base += team.columns) {
      Elements const elements(team, rows, base + team.column, args.width);
      if constexpr (!std::decay_t<decltype(team)>::kIsBlock) {
        if (are_held(elements)) {
          gradient_held(team, elements, args);
          continue;
        }
      }
      gradient_of_any(team, elements, args);
    }
  };
  auto const offsets = offsets_of(args);
  for_each_segment(offsets, {}, args.width, args.value_gradients, shape, gradient_in);
  clear_rows_of_no_segment(offsets, args.width, args.value_gradients);
}

template <class Args>
bool has_elements(Args const& args) {
  return args.capacity > 0 && args.width > 0;
}

/// Calls launch(shape, blocks) for a jagged softmax kernel. The grid is not empty even without
/// segments, because there may be rows to set to zero.
template <class Args, class Launch>
void with_teams(Args const& args, Launch const& launch) {
  TeamShape const shape(args.segments, args.capacity, args.width);
  auto const to_clear =
      std::min(ceil_div<std::int64_t>(args.capacity * args.width, 4 * kTeamThreads), kTeamBlocks);
  auto const blocks = std::max(ceil_div(args.segments, shape.segments_a_block), to_clear);
  launch(shape, grid_for(blocks, 1));
}

}  // namespace

void jagged_softmax(CudaStream stream, JaggedSoftmaxArgs const& args) {
  if (!has_elements(args)) {
    return report_bad_bags(stream, "jagged_softmax", offsets_of(args), args.report);
  }
  with_teams(args, [&](TeamShape const& shape, unsigned blocks) {
    jagged_softmax_kernel<<<blocks, kTeamThreads, 0, stream>>>(args, shape);
    check_launch("jagged_softmax");
  });
}

void jagged_softmax_gradient(CudaStream stream, JaggedSoftmaxGradientArgs const& args) {
  if (!has_elements(args)) {
    return;
  }
  with_teams(args, [&](TeamShape const& shape, unsigned blocks) {
    jagged_softmax_gradient_kernel<<<blocks, kTeamThreads, 0, stream>>>(args, shape);
    check_launch("jagged_softmax_gradient");
  });
}

}  // namespace msstream::ops::kernels
