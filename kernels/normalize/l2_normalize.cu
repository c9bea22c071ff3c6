// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "elementwise/rows_in_registers.cuh"
#include "normalize/l2_normalize.hpp"

#include <cmath>

namespace msstream::ops::kernels {

namespace {

/// The factor of a row with a norm: 1 / max(norm, epsilon).
__device__ double factor_of(double norm, double epsilon) {
  return 1.0 / (norm < epsilon ? epsilon : norm);
}
/// The parts of the gradient of a row: (dy - x * share) * factor.
struct RowGradient {
  double share = 0.0;
  double factor = 0.0;

  __device__ RowGradient() {}
  __device__ RowGradient(double squares, double products, double epsilon) {
    double const norm = sqrt(squares);
    bool const is_short = norm <= epsilon;
    share = is_short ? 0.0 : products / squares;
    factor = 1.0 / (is_short ? epsilon : norm);
  }
  [[nodiscard]] __device__ float operator()(float x, float gradient) const {
    return static_cast<float>((static_cast<double>(gradient) - static_cast<double>(x) * share) *
                              factor);
  }
};

/// l2_normalize() of rows in registers.
struct L2Normalize {
  using In = float;
  using Out = float;
  static constexpr int kInputs = 1;
  L2NormalizeArgs args;

  [[nodiscard]] __host__ __device__ std::int64_t rows() const { return args.rows; }
  [[nodiscard]] __host__ __device__ std::int64_t columns() const { return args.width; }
  [[nodiscard]] __host__ __device__ float const* input(int) const { return args.input; }
  [[nodiscard]] __host__ __device__ float* output() const { return args.output; }

  template <class Place>
  __device__ void operator()(typename Place::Team& team, Place const& place) const {
    constexpr int kRows = Place::kRows;
    constexpr int kVector = Place::kVector;
    int widths[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      widths[r] = place.exists(r) ? place.width : 0;
    }
    typename Place::Packed inputs[kRows];
    place.load(0, widths, 0.0F, inputs);
    double factors[kRows] = {};
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < Place::kCount; ++k) {
        double const x = inputs[r].at(k / kVector, k % kVector);
        factors[r] += x * x;
      }
      inputs[r].forget_converted();
    }
    team.sum(factors);
#pragma unroll
    for (double& factor : factors) {
      factor = factor_of(sqrt(factor), args.epsilon);
    }
    place.store([&](int r, int k, int) {
      return static_cast<float>(static_cast<double>(inputs[r].at(k / kVector, k % kVector)) *
                                factors[r]);
    });
  }
};

/// The gradient of l2_normalize() of rows in registers.
struct L2NormalizeGradient {
  using In = float;
  using Out = float;
  static constexpr int kInputs = 2;
  static constexpr bool kTakesManyRegisters = true;
  L2NormalizeGradientArgs args;

  [[nodiscard]] __host__ __device__ std::int64_t rows() const { return args.rows; }
  [[nodiscard]] __host__ __device__ std::int64_t columns() const { return args.width; }
  [[nodiscard]] __host__ __device__ float const* input(int i) const {
    return i == 0 ? args.input : args.output_gradient;
  }
  [[nodiscard]] __host__ __device__ float* output() const { return args.input_gradient; }

  template <class Place>
  __device__ void operator()(typename Place::Team& team, Place const& place) const {
    constexpr int kRows = Place::kRows;
    constexpr int kVector = Place::kVector;
    int widths[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      widths[r] = place.exists(r) ? place.width : 0;
    }
    typename Place::Packed inputs[kRows];
    typename Place::Packed gradients[kRows];
    place.load(0, widths, 0.0F, inputs);
    place.load(1, widths, 0.0F, gradients);
    double sums[2 * kRows] = {};  // of the squares of each row, and of its products
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int k = 0; k < Place::kCount; ++k) {
        double const x = inputs[r].at(k / kVector, k % kVector);
        sums[2 * r] += x * x;
        sums[2 * r + 1] += x * static_cast<double>(gradients[r].at(k / kVector, k % kVector));
      }
      inputs[r].forget_converted();
      gradients[r].forget_converted();
    }
    team.sum(sums);
    RowGradient of_rows[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      of_rows[r] = RowGradient(sums[2 * r], sums[2 * r + 1], args.epsilon);
    }
    place.store([&](int r, int k, int) {
      return of_rows[r](inputs[r].at(k / kVector, k % kVector),
                        gradients[r].at(k / kVector, k % kVector));
    });
  }
};

// A warp reads a row that does not fit registers twice, and so does it where that is faster.

/// Returns whether a warp that reads a row twice is faster than a block: if the row begins at any
/// element and is slightly too wide for lanes of a warp, a third of the block's columns are empty.
bool is_read_twice(L2Normalize const& function) {
  constexpr std::int64_t kWidest = kWidestStagedRowOfLanes + 32;
  return function.columns() > kWidestStagedRowOfLanes && function.columns() <= kWidest &&
         !rows_are_aligned(function);
}

constexpr int kRowsOfBlock = kBlockThreads / 32;

/// Returns the sum over the lanes of a warp, to all of them.
__device__ double sum_of_lanes(double value) {
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, distance);
  }
  return value;
}

/// The row of a warp, whose lane l has columns l, l + 32, …
struct RowOfWarp {
  std::int64_t row;
  int lane;

  __device__ RowOfWarp()
      : row(static_cast<std::int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / 32),
        lane(static_cast<int>(threadIdx.x) % 32) {}
};

__global__ void __launch_bounds__(kBlockThreads)
    l2_normalize_of_long_rows_kernel(__grid_constant__ L2NormalizeArgs const args) {
  RowOfWarp const place;
  if (place.row >= args.rows) {
    return;
  }
  auto const* const input = args.input + place.row * args.width;
  double squares = 0.0;
#pragma unroll 4
  for (std::int64_t column = place.lane; column < args.width; column += 32) {
    double const x = input[column];
    squares += x * x;
  }
  double const factor = factor_of(sqrt(sum_of_lanes(squares)), args.epsilon);
  auto* const output = args.output + place.row * args.width;
#pragma unroll 4
  for (std::int64_t column = place.lane; column < args.width; column += 32) {
    output[column] = static_cast<float>(static_cast<double>(input[column]) * factor);
  }
}

__global__ void __launch_bounds__(kBlockThreads)
    l2_gradient_of_long_rows_kernel(__grid_constant__ L2NormalizeGradientArgs const args) {
  RowOfWarp const place;
  if (place.row >= args.rows) {
    return;
  }
  auto const first = place.row * args.width;
  auto const* const input = args.input + first;
  auto const* const gradient = args.output_gradient + first;
  double squares = 0.0;
  double products = 0.0;
#pragma unroll 4
  for (std::int64_t column = place.lane; column < args.width; column += 32) {
    double const x = input[column];
    squares += x * x;
    products += x * static_cast<double>(gradient[column]);
  }
  RowGradient const of(sum_of_lanes(squares), sum_of_lanes(products), args.epsilon);
#pragma unroll 4
  for (std::int64_t column = place.lane; column < args.width; column += 32) {
    args.input_gradient[first + column] = of(input[column], gradient[column]);
  }
}

}  // namespace

void l2_normalize(CudaStream stream, L2NormalizeArgs const& args) {
  if (args.rows == 0 || args.width == 0) {
    return;
  }
  if (L2Normalize const function{args}; fits_registers(function) && !is_read_twice(function)) {
    launch_in_registers(stream.handle, function);
  } else {
    l2_normalize_of_long_rows_kernel<<<grid_for(args.rows, kRowsOfBlock),
                                       kBlockThreads,
                                       0,
                                       stream.handle>>>(args);
  }
  check_launch("l2_normalize");
}

void l2_normalize_gradient(CudaStream stream, L2NormalizeGradientArgs const& args) {
  if (args.rows == 0 || args.width == 0) {
    return;
  }
  if (L2NormalizeGradient const function{args}; fits_registers(function)) {
    launch_in_registers(stream.handle, function);
  } else {
    l2_gradient_of_long_rows_kernel<<<grid_for(args.rows, kRowsOfBlock),
                                      kBlockThreads,
                                      0,
                                      stream.handle>>>(args);
  }
  check_launch("l2_normalize_gradient");
}

}  // namespace msstream::ops::kernels
