// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "common/vector_map.cuh"
#include "normalize/l2_normalize.hpp"

#include <cmath>

namespace msstream::ops::kernels {

namespace {

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
    l2_normalize_kernel(__grid_constant__ L2NormalizeArgs const args) {
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
  double const norm = sqrt(sum_of_lanes(squares));
  double const least = args.epsilon;
  double const factor = 1.0 / (norm < least ? least : norm);
  auto* const output = args.output + place.row * args.width;
#pragma unroll 4
  for (std::int64_t column = place.lane; column < args.width; column += 32) {
    output[column] = static_cast<float>(static_cast<double>(input[column]) * factor);
  }
}

__global__ void __launch_bounds__(kBlockThreads)
    l2_normalize_gradient_kernel(__grid_constant__ L2NormalizeGradientArgs const args) {
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
  squares = sum_of_lanes(squares);
  products = sum_of_lanes(products);
  double const norm = sqrt(squares);
  double const least = args.epsilon;
  bool const is_short = norm <= least;
  double const factor = 1.0 / (is_short ? least : norm);
  double const share = is_short ? 0.0 : products / squares;
#pragma unroll 4
  for (std::int64_t column = place.lane; column < args.width; column += 32) {
    args.input_gradient[first + column] = static_cast<float>(
        (static_cast<double>(gradient[column]) - static_cast<double>(input[column]) * share) *
        factor);
  }
}

}  // namespace

void l2_normalize(CudaStream stream, L2NormalizeArgs const& args) {
  if (args.rows > 0 && args.width > 0) {
    l2_normalize_kernel<<<grid_for(args.rows, kRowsOfBlock), kBlockThreads, 0, stream>>>(args);
    check_launch("l2_normalize");
  }
}

void l2_normalize_gradient(CudaStream stream, L2NormalizeGradientArgs const& args) {
  if (args.rows > 0 && args.width > 0) {
    l2_normalize_gradient_kernel<<<grid_for(args.rows, kRowsOfBlock), kBlockThreads, 0, stream>>>(
        args);
    check_launch("l2_normalize_gradient");
  }
}

}  // namespace msstream::ops::kernels
