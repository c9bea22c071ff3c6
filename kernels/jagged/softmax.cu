// SPDX-License-Identifier: Apache-2.0
#include "elementwise/softmax_math.hpp"
#include "ids/report_bad_bags.cuh"
#include "jagged/jagged_softmax.hpp"
#include "jagged/parts.cuh"
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

/// The values of an array that one thread holds in registers, at most kHeldRowsALane of them.
struct HeldElements {
  float values[kHeldRowsALane];

  __device__ HeldElements(float const* array, Elements const& elements) {
#pragma unroll
    for (int k = 0; k < kHeldRowsALane; ++k) {
      values[k] = k < elements.count ? __ldg(array + elements.at(k)) : 0.0F;
    }
  }
};

/// Calls each(k) for the elements that the calling thread holds in registers.
template <class Each>
__device__ void for_each_held(Elements const& elements, Each const& each) {
#pragma unroll
  for (int k = 0; k < kHeldRowsALane; ++k) {
    if (k < elements.count) {
      each(k);
    }
  }
}

/// Returns whether every thread of the warp has few enough elements to hold them in registers.
__device__ bool are_held(Elements const& elements) {
  return __all_sync(kAllLanes, elements.count <= kHeldRowsALane) != 0;
}

/// The addition of float64 values as a reduction.
struct WholeTotal {
  static __device__ double combine(double a, double b) { return a + b; }
};

/// Returns the column of the calling thread in a part of a long segment.
__device__ std::int64_t column_of(BlockTeam const& team, LongPart const& part) {
  return part.slice * team.columns + team.column;
}

/// Returns a function for for_each_part() that searches for the segments of the slots, and stores
/// them for the launch that found_in() serves.
__device__ auto finder_in(BagOffsets<std::int64_t> const& offsets, LongParts const& parts) {
  return [&](LaneGroup const& warp, std::int64_t slot, std::int64_t slice) {
    auto const segment = long_segment_at(warp, offsets, parts, slot);
    if (slice == 0 && warp.lane == 0) {
      parts.segments[slot] = segment;
    }
    return segment;
  };
}
__device__ auto found_in(LongParts const& parts) {
  return [&](LaneGroup const&, std::int64_t slot, std::int64_t) { return parts.segments[slot]; };
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

/// The largest element of a column of a segment, and the sum of the exponentials.
struct Denominator {
  float largest;
  float sum;

  /// Returns what to subtract from elements before their exponentials are added: the largest
  /// element; 0 if that is -infinity, so that the exponentials are 0.
  static __device__ float subtrahend(float largest) {
    return largest == Largest::nothing() ? 0.0F : largest;
  }

  template <class Team>
  __device__ Denominator(Team const& team, Elements const& elements, JaggedSoftmaxArgs const& args)
      : largest(Largest::nothing()) {
    elements.for_each(
        [&](std::int64_t i) { largest = Largest::combine(largest, __ldg(args.values + i)); });
    largest = team.template reduce<Largest>(largest);
    float const subtracted = subtrahend(largest);
    sum = elements.sum_of(
        [&](std::int64_t i) { return std::exp(__ldg(args.values + i) - subtracted); });
    sum = team.template reduce<Total>(sum);
  }

  /// Combines the results of the parts of a long segment, whose slots are the rows of `elements`,
  /// in float64.
  __device__ Denominator(BlockTeam const& team, Elements const& elements, LongParts const& parts)
      : largest(Largest::nothing()) {
    elements.for_each(
        [&](std::int64_t i) { largest = Largest::combine(largest, __ldg(parts.largest + i)); });
    largest = team.reduce<Largest>(largest);
    float const subtracted = subtrahend(largest);
    double whole = 0.0;
    elements.for_each([&](std::int64_t i) {
      float const factor = std::exp(__ldg(parts.largest + i) - subtracted);
      whole += static_cast<double>(__ldg(parts.sums + i)) * static_cast<double>(factor);
    });
    sum = static_cast<float>(team.reduce<WholeTotal>(whole));
  }

  /// Stores the softmax of elements of the column.
  __device__ void store(Elements const& elements, JaggedSoftmaxArgs const& args) const {
    elements.for_each(
        [&](std::int64_t i) { args.output[i] = std::exp(__ldg(args.values + i) - largest) / sum; });
  }
};

__global__ void __launch_bounds__(kTeamThreads, kTeamBlocksAtOnce)
    jagged_softmax_kernel(__grid_constant__ JaggedSoftmaxArgs const args,
                          TeamShape shape,
                          __grid_constant__ LongParts const parts) {
  auto const softmax_of = [&](auto const& team, PlaceRange const& rows) {
    for (std::int64_t base = 0; base < args.width; base += team.columns) {
      Elements const elements(team, rows, base + team.column, args.width);
      if constexpr (!std::decay_t<decltype(team)>::kIsBlock) {
        if (are_held(elements)) {
          softmax_held(team, elements, args);
          continue;
        }
      }
      Denominator(team, elements, args).store(elements, args);
    }
  };
  auto const offsets = offsets_of(args);
  if (blockIdx.x < parts.blocks) {
    for_each_part(parts, finder_in(offsets, parts), [&](LongPart const& part) {
      BlockTeam const team(shape);
      auto const column = column_of(team, part);
      Denominator const found(team, Elements(team, part.rows, column, args.width), args);
      if (team.row == 0 && column < args.width) {
        parts.largest[part.slot * args.width + column] = found.largest;
        parts.sums[part.slot * args.width + column] = found.sum;
      }
    });
  } else {
    for_each_segment(offsets, args.report, args.width, args.output, shape, softmax_of);
  }
  clear_rows_of_no_segment(offsets, args.width, args.output);
}

/// Stores the softmax of the long segments, with the partial results of their parts.
__global__ void __launch_bounds__(kTeamThreads, kTeamBlocksAtOnce)
    long_softmax_kernel(__grid_constant__ JaggedSoftmaxArgs const args,
                        TeamShape shape,
                        __grid_constant__ LongParts const parts) {
  for_each_part(parts, found_in(parts), [&](LongPart const& part) {
    BlockTeam const team(shape);
    auto const column = column_of(team, part);
    Denominator const of_all(team, Elements(team, part.slots, column, args.width), parts);
    of_all.store(Elements(team, part.rows, column, args.width), args);
  });
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

/// Returns the sum of y * dy over a column of a segment.
template <class Team>
__device__ float total_of(Team const& team,
                          Elements const& elements,
                          JaggedSoftmaxGradientArgs const& args) {
  float const total = elements.sum_of([&](std::int64_t i) {
    return weighted(__ldg(args.output + i), __ldg(args.output_gradient + i));
  });
  return team.template reduce<Total>(total);
}

__device__ void store_gradients(Elements const& elements,
                                float total,
                                JaggedSoftmaxGradientArgs const& args) {
  elements.for_each([&](std::int64_t i) {
    args.value_gradients[i] =
        gradient_of(__ldg(args.output + i), __ldg(args.output_gradient + i), total);
  });
}

__global__ void __launch_bounds__(kTeamThreads, kTeamBlocksAtOnce)
    jagged_softmax_gradient_kernel(__grid_constant__ JaggedSoftmaxGradientArgs const args,
                                   TeamShape shape,
                                   __grid_constant__ LongParts const parts) {
  auto const gradient_in = [&](auto const& team, PlaceRange const& rows) {
    for (std::int64_t base = 0; base < args.width; base += team.columns) {
      Elements const elements(team, rows, base + team.column, args.width);
      if constexpr (!std::decay_t<decltype(team)>::kIsBlock) {
        if (are_held(elements)) {
          gradient_held(team, elements, args);
          continue;
        }
      }
      store_gradients(elements, total_of(team, elements, args), args);
    }
  };
  auto const offsets = offsets_of(args);
  if (blockIdx.x < parts.blocks) {
    for_each_part(parts, finder_in(offsets, parts), [&](LongPart const& part) {
      BlockTeam const team(shape);
      auto const column = column_of(team, part);
      float const total = total_of(team, Elements(team, part.rows, column, args.width), args);
      if (team.row == 0 && column < args.width) {
        parts.sums[part.slot * args.width + column] = total;
      }
    });
  } else {
    for_each_segment(offsets, {}, args.width, args.value_gradients, shape, gradient_in);
  }
  clear_rows_of_no_segment(offsets, args.width, args.value_gradients);
}

/// Stores the gradients of the long segments, with the partial sums of their parts.
__global__ void __launch_bounds__(kTeamThreads, kTeamBlocksAtOnce)
    long_softmax_gradient_kernel(__grid_constant__ JaggedSoftmaxGradientArgs const args,
                                 TeamShape shape,
                                 __grid_constant__ LongParts const parts) {
  for_each_part(parts, found_in(parts), [&](LongPart const& part) {
    BlockTeam const team(shape);
    auto const column = column_of(team, part);
    double whole = 0.0;
    Elements(team, part.slots, column, args.width).for_each([&](std::int64_t i) {
      whole += static_cast<double>(__ldg(parts.sums + i));
    });
    auto const total = static_cast<float>(team.reduce<WholeTotal>(whole));
    store_gradients(Elements(team, part.rows, column, args.width), total, args);
  });
}

template <class Args>
bool has_elements(Args const& args) {
  return args.capacity > 0 && args.width > 0;
}

/// Calls launch(shape, blocks) for the first kernel of a jagged softmax, whose first blocks process
/// the parts of long segments. The grid is not empty even without segments, because there may be
/// rows to set to zero.
template <class Args, class Launch>
void with_teams(Args const& args, LongParts const& parts, Launch const& launch) {
  TeamShape shape(args.segments, args.capacity, args.width);
  shape.most_rows_of_block = parts.rows - 1;
  shape.first_block = parts.blocks;
  auto const to_clear =
      std::min(ceil_div<std::int64_t>(args.capacity * args.width, 4 * kTeamThreads), kTeamBlocks);
  auto const blocks = std::max(ceil_div(args.segments, shape.segments_a_block), to_clear);
  launch(shape, grid_for(parts.blocks + blocks, 1));
}

LongParts parts_of(JaggedSoftmaxArgs const& args) {
  return {args.workspace, args.capacity, args.width, true};
}
LongParts parts_of(JaggedSoftmaxGradientArgs const& args) {
  return {args.workspace, args.capacity, args.width, false};
}

}  // namespace

std::size_t jagged_softmax_workspace_bytes(CudaStream, std::int64_t capacity, std::int64_t width) {
  return LongParts(nullptr, capacity, width, true).bytes;
}

void jagged_softmax(CudaStream stream, JaggedSoftmaxArgs const& args) {
  if (!has_elements(args)) {
    return report_bad_bags(stream, "jagged_softmax", offsets_of(args), args.report);
  }
  auto const parts = parts_of(args);
  with_teams(args, parts, [&](TeamShape const& shape, unsigned blocks) {
    jagged_softmax_kernel<<<blocks, kTeamThreads, 0, stream>>>(args, shape, parts);
    check_launch("jagged_softmax");
    if (parts.blocks > 0) {
      long_softmax_kernel<<<grid_for(parts.blocks, 1), kTeamThreads, 0, stream>>>(
          args, shape, parts);
      check_launch("jagged_softmax");
    }
  });
}

std::size_t jagged_softmax_gradient_workspace_bytes(CudaStream,
                                                    std::int64_t capacity,
                                                    std::int64_t width) {
  return LongParts(nullptr, capacity, width, false).bytes;
}

void jagged_softmax_gradient(CudaStream stream, JaggedSoftmaxGradientArgs const& args) {
  if (!has_elements(args)) {
    return;
  }
  auto const parts = parts_of(args);
  with_teams(args, parts, [&](TeamShape const& shape, unsigned blocks) {
    jagged_softmax_gradient_kernel<<<blocks, kTeamThreads, 0, stream>>>(args, shape, parts);
    check_launch("jagged_softmax_gradient");
    if (parts.blocks > 0) {
      long_softmax_gradient_kernel<<<grid_for(parts.blocks, 1), kTeamThreads, 0, stream>>>(
          args, shape, parts);
      check_launch("jagged_softmax_gradient");
    }
  });
}

}  // namespace msstream::ops::kernels
