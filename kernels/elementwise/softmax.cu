// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/id_report.cuh"
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "elementwise/reduce_lanes.cuh"
#include "elementwise/reduce_math.hpp"
#include "elementwise/row_lanes.cuh"
#include "elementwise/softmax.hpp"
#include "elementwise/softmax_math.hpp"

#include <cmath>
#include <cstdint>

namespace msstream::ops::kernels {

namespace {

/// Returns the number of columns of a row that take part in its softmax.
__device__ std::int64_t length_of(SoftmaxArgs const& args, std::int64_t row) {
  if (args.lengths == nullptr) {
    return args.columns;
  }
  std::int64_t const length = args.lengths[row / args.rows_a_length];
  return length < 0 ? 0 : min(length, args.columns);
}

template <class T, int PerLane>
__global__ void __launch_bounds__(kBlockThreads)
    softmax_by_lanes_kernel(__grid_constant__ SoftmaxArgs const args, int log2_lanes) {
  RowOfLanes const place(log2_lanes);
  bool const exists = place.row < args.rows;
  std::int64_t const length = exists ? length_of(args, place.row) : 0;
  std::int64_t const first = place.row * args.columns;
  float values[PerLane] = {};
  float largest = Largest::nothing();
  place.for_each<PerLane>(length, [&](int k, int column) {
    values[k] = args.input[first + column];
    largest = Largest::combine(largest, values[k]);
  });
  largest = reduce_lanes<Largest>(largest, place.lanes);
  float sum = 0.0F;
  place.for_each<PerLane>(length, [&](int k, int) {
    values[k] = std::exp(values[k] - largest);
    sum += values[k];
  });
  sum = reduce_lanes<Total>(sum, place.lanes);
  place.for_each<PerLane>(exists ? args.columns : 0, [&](int k, int column) {
    static_cast<T*>(args.output)[first + column] =
        narrowed<T>(column < length ? values[k] / sum : 0.0F);
  });
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    softmax_by_blocks_kernel(__grid_constant__ SoftmaxArgs const args) {
  std::int64_t const row = blockIdx.x;
  std::int64_t const length = length_of(args, row);
  float const* const input = args.input + row * args.columns;
  auto* const output = static_cast<T*>(args.output) + row * args.columns;
  float largest = Largest::nothing();
  for_each_of_block(
      length, [&](std::int64_t column) { largest = Largest::combine(largest, input[column]); });
  largest = reduce_block<Largest>(largest);
  LongSum exponentials;
  for_each_of_block(
      length,
      [&](std::int64_t column) { exponentials.add(std::exp(input[column] - largest)); },
      [&] { exponentials.fold(); });
  float const sum = reduce_block<Total>(exponentials.get());
  for_each_of_block(args.columns, [&](std::int64_t column) {
    output[column] = narrowed<T>(column < length ? std::exp(input[column] - largest) / sum : 0.0F);
  });
}

template <class T, int PerLane>
__global__ void __launch_bounds__(kBlockThreads)
    softmax_gradient_by_lanes_kernel(__grid_constant__ SoftmaxGradientArgs const args,
                                     int log2_lanes) {
  RowOfLanes const place(log2_lanes);
  std::int64_t const columns = place.row < args.rows ? args.columns : 0;
  std::int64_t const first = place.row * args.columns;
  float outputs[PerLane] = {};
  float gradients[PerLane] = {};
  float total = 0.0F;
  place.for_each<PerLane>(columns, [&](int k, int column) {
    outputs[k] = widen(static_cast<T const*>(args.output)[first + column]);
    gradients[k] = widen(static_cast<T const*>(args.output_gradient)[first + column]);
    total += weighted(outputs[k], gradients[k]);
  });
  total = reduce_lanes<Total>(total, place.lanes);
  place.for_each<PerLane>(columns, [&](int k, int column) {
    static_cast<T*>(args.input_gradient)[first + column] =
        narrowed<T>(gradient_of(outputs[k], gradients[k], total));
  });
}

template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    softmax_gradient_by_blocks_kernel(__grid_constant__ SoftmaxGradientArgs const args) {
  std::int64_t const first = static_cast<std::int64_t>(blockIdx.x) * args.columns;
  auto const* const output = static_cast<T const*>(args.output) + first;
  auto const* const output_gradient = static_cast<T const*>(args.output_gradient) + first;
  auto* const input_gradient = static_cast<T*>(args.input_gradient) + first;
  LongSum products;
  for_each_of_block(
      args.columns,
      [&](std::int64_t column) {
        products.add(weighted(widen(output[column]), widen(output_gradient[column])));
      },
      [&] { products.fold(); });
  float const total = reduce_block<Total>(products.get());
  for_each_of_block(args.columns, [&](std::int64_t column) {
    input_gradient[column] =
        narrowed<T>(gradient_of(widen(output[column]), widen(output_gradient[column]), total));
  });
}

/// Returns the class of a row. Of the threads that share the row, the one with `notes` records a
/// bad class and whether the row counts.
__device__ ClassOfRow class_of(CrossEntropyArgs const& args,
                               std::int64_t row,
                               bool notes,
                               OutOfRangeIds& out_of_range) {
  ClassOfRow const chosen(args, row);
  if (notes && args.counted != nullptr) {
    args.counted[row] = chosen.counted;
  }
  if (notes && chosen.is_bad) {
    out_of_range.add(chosen.column);
  }
  return chosen;
}

template <class T, class Gradient, int PerLane>
__global__ void __launch_bounds__(kBlockThreads)
    cross_entropy_by_lanes_kernel(__grid_constant__ CrossEntropyArgs const args, int log2_lanes) {
  RowOfLanes const place(log2_lanes);
  bool const exists = place.row < args.rows;
  OutOfRangeIds out_of_range;
  // Lanes without a row of their own follow the last one, and write nothing.
  auto const row = exists ? place.row : args.rows - 1;
  auto const chosen = class_of(args, row, exists && place.lane == 0, out_of_range);
  LogitsOfRow<T> const logits(args, row, chosen.column);
  std::int64_t const length = exists && chosen.counts ? args.columns : 0;
  float values[PerLane] = {};
  float largest = Largest::nothing();
  place.for_each<PerLane>(length, [&](int k, int column) {
    values[k] = logits.at(column);
    largest = Largest::combine(largest, values[k]);
  });
  largest = reduce_lanes<Largest>(largest, place.lanes);
  SmoothedTarget const target(args);
  float sum = 0.0F;
  float total = 0.0F;
  place.for_each<PerLane>(length, [&](int k, int) {
    float const below = below_largest(values[k], largest);
    total += below;
    values[k] = std::exp(below);
    sum += values[k];
  });
  sum = reduce_lanes<Total>(sum, place.lanes);
  if (args.smoothing != 0.0F) {
    total = reduce_lanes<Total>(total, place.lanes);
  }
  place.for_each<PerLane>(exists ? args.columns : 0, [&](int k, int column) {
    float const gradient = values[k] / sum - target.at(column == chosen.column);
    static_cast<Gradient*>(args.gradients)[row * args.columns + column] =
        narrowed<Gradient>(chosen.counts ? chosen.weight * gradient : 0.0F);
  });
  if (exists && place.lane == 0) {
    args.losses[row] =
        chosen.counts
            ? chosen.weight * target.loss(std::log(sum),
                                          below_largest(logits.at(chosen.column), largest),
                                          total)
            : 0.0F;
  }
  report_out_of_range(args.report, out_of_range, args.columns);
}

template <class T, class Gradient>
__global__ void __launch_bounds__(kBlockThreads)
    cross_entropy_by_blocks_kernel(__grid_constant__ CrossEntropyArgs const args) {
  std::int64_t const row = blockIdx.x;
  OutOfRangeIds out_of_range;
  auto const chosen = class_of(args, row, threadIdx.x == 0, out_of_range);
  LogitsOfRow<T> const logits(args, row, chosen.column);
  std::int64_t const length = chosen.counts ? args.columns : 0;
  auto* const gradients = static_cast<Gradient*>(args.gradients) + row * args.columns;
  float largest = Largest::nothing();
  for_each_of_block(
      length, [&](std::int64_t column) { largest = Largest::combine(largest, logits.at(column)); });
  largest = reduce_block<Largest>(largest);
  LongSum exponentials;
  for_each_of_block(
      length,
      [&](std::int64_t column) {
        exponentials.add(std::exp(below_largest(logits.at(column), largest)));
      },
      [&] { exponentials.fold(); });
  float const sum = reduce_block<Total>(exponentials.get());
  SmoothedTarget const target(args);
  float total = 0.0F;
  if (args.smoothing != 0.0F) {
    LongSum below;
    for_each_of_block(
        length,
        [&](std::int64_t column) { below.add(below_largest(logits.at(column), largest)); },
        [&] { below.fold(); });
    total = reduce_block<Total>(below.get());
  }
  for_each_of_block(args.columns, [&](std::int64_t column) {
    // The logits of a row that does not count are not read: its class may lie outside the array.
    gradients[column] = narrowed<Gradient>(
        chosen.counts ? chosen.weight * (std::exp(below_largest(logits.at(column), largest)) / sum -
                                         target.at(column == chosen.column))
                      : 0.0F);
  });
  if (threadIdx.x == 0) {
    args.losses[row] =
        chosen.counts
            ? chosen.weight * target.loss(std::log(sum),
                                          below_largest(logits.at(chosen.column), largest),
                                          total)
            : 0.0F;
  }
  report_out_of_range(args.report, out_of_range, args.columns);
}

}  // namespace

void softmax(CudaStream stream, SoftmaxArgs const& args) {
  if (args.rows == 0 || args.columns == 0) {
    return;
  }
  with_real_type("softmax: an output", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (args.columns > kLongestRowOfLanes) {
      softmax_by_blocks_kernel<T>
          <<<grid_for(args.rows, 1), kBlockThreads, 0, stream.handle>>>(args);
      return;
    }
    with_row_lanes(args.rows, args.columns, [&](auto per_lane, int log2_lanes, unsigned blocks) {
      softmax_by_lanes_kernel<T, decltype(per_lane)::value>
          <<<blocks, kBlockThreads, 0, stream.handle>>>(args, log2_lanes);
    });
  });
  check_launch("softmax");
}

void softmax_gradient(CudaStream stream, SoftmaxGradientArgs const& args) {
  if (args.rows == 0 || args.columns == 0) {
    return;
  }
  with_real_type("softmax_gradient: an output", args.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if (args.columns > kLongestRowOfLanes) {
      softmax_gradient_by_blocks_kernel<T>
          <<<grid_for(args.rows, 1), kBlockThreads, 0, stream.handle>>>(args);
      return;
    }
    with_row_lanes(args.rows, args.columns, [&](auto per_lane, int log2_lanes, unsigned blocks) {
      softmax_gradient_by_lanes_kernel<T, decltype(per_lane)::value>
          <<<blocks, kBlockThreads, 0, stream.handle>>>(args, log2_lanes);
    });
  });
  check_launch("softmax_gradient");
}

void softmax_cross_entropy(CudaStream stream, CrossEntropyArgs const& args) {
  if (args.rows == 0) {
    return;
  }
  auto const launch = [&](auto type, auto gradient_type) {
    using T = typename decltype(type)::type;
    using Gradient = typename decltype(gradient_type)::type;
    if (args.columns > kLongestRowOfLanes) {
      cross_entropy_by_blocks_kernel<T, Gradient>
          <<<grid_for(args.rows, 1), kBlockThreads, 0, stream.handle>>>(args);
      return;
    }
    with_row_lanes(args.rows, args.columns, [&](auto per_lane, int log2_lanes, unsigned blocks) {
      cross_entropy_by_lanes_kernel<T, Gradient, decltype(per_lane)::value>
          <<<blocks, kBlockThreads, 0, stream.handle>>>(args, log2_lanes);
    });
  };
  with_real_types("softmax_cross_entropy: logits", args.dtype, args.gradient_dtype, launch);
  check_launch("softmax_cross_entropy");
}

}  // namespace msstream::ops::kernels
