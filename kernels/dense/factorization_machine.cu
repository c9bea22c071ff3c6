// SPDX-License-Identifier: Apache-2.0
#include "common/float_conversions.cuh"
#include "common/launch.cuh"
#include "common/real_types.hpp"
#include "common/round_once.hpp"
#include "common/vector_map.cuh"
#include "dense/factorization_machine.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

/// Returns the sum and the sum of pairs of one column of a sample's vectors.
template <class T>
__device__ PairSum sum_column(T const* column, std::int64_t features, std::int64_t width) {
  PairSum sums;
  for (std::int64_t first = 0; first < features; first += kTermsOfPart) {
    auto const last = min(first + kTermsOfPart, features);
#pragma unroll 4
    for (auto feature = first; feature < last; ++feature) {
      sums.add(widen(column[feature * width]));
    }
    sums.fold();
  }
  return sums;
}

/// Computes a sample with 2^log2_lanes lanes of a warp:
///
///   lane l   columns l, l + lanes, l + 2 lanes, … of the sample, all features
template <class T>
__global__ void __launch_bounds__(kBlockThreads)
    factorization_machine_kernel(__grid_constant__ FactorizationMachineArgs const args,
                                 int log2_lanes) {
  int const lanes = 1 << log2_lanes;
  int const lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  std::int64_t const sample = grid_thread() >> log2_lanes;
  bool const exists = sample < args.batch;
  double total = 0.0;
  if (exists) {
    auto const* const vectors =
        static_cast<T const*>(args.embeddings) + sample * args.features * args.width;
    for (std::int64_t column = lane; column < args.width; column += lanes) {
      total += sum_column(vectors + column, args.features, args.width).pairs();
    }
  }
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    total += __shfl_xor_sync(0xFFFFFFFFU, total, distance);
  }
  if (exists && lane == 0) {
    static_cast<T*>(args.output)[sample] = round_once<T>(total);
  }
}

/// Computes the gradient of one column of a sample's vectors with each thread, in float64. A
/// float32 sum would lose the small elements of a column with a large one, whose gradient is the
/// sum of the small.
template <class T>
__global__ void __launch_bounds__(kBlockThreads) factorization_machine_gradient_kernel(
    __grid_constant__ FactorizationMachineGradientArgs const args) {
  std::int64_t const thread = grid_thread();
  std::int64_t const sample = thread / args.width;
  if (sample >= args.batch) {
    return;
  }
  auto const first = sample * args.features * args.width + (thread - sample * args.width);
  auto const* const column = static_cast<T const*>(args.embeddings) + first;
  auto* const gradients = static_cast<T*>(args.input_gradient) + first;
  double const gradient = widen(static_cast<T const*>(args.output_gradient)[sample]);
  double sum = 0.0;
#pragma unroll 4
  for (std::int64_t feature = 0; feature < args.features; ++feature) {
    sum += static_cast<double>(widen(column[feature * args.width]));
  }
#pragma unroll 4
  for (std::int64_t feature = 0; feature < args.features; ++feature) {
    auto const i = feature * args.width;
    gradients[i] = round_once<T>(gradient * (sum - static_cast<double>(widen(column[i]))));
  }
}

}  // namespace

void factorization_machine(CudaStream stream, FactorizationMachineArgs const& args) {
  if (args.batch == 0) {
    return;
  }
  auto const width = static_cast<unsigned>(std::clamp<std::int64_t>(args.width, 1, 32));
  int const log2_lanes = static_cast<int>(std::bit_width(width - 1));
  with_real_type("factorization_machine: a vector", args.dtype, [&](auto type) {
    factorization_machine_kernel<typename decltype(type)::type>
        <<<grid_for(args.batch, kBlockThreads >> log2_lanes), kBlockThreads, 0, stream.handle>>>(
            args, log2_lanes);
  });
  check_launch("factorization_machine");
}

void factorization_machine_gradient(CudaStream stream,
                                    FactorizationMachineGradientArgs const& args) {
  if (args.batch * args.features * args.width == 0) {
    return;
  }
  with_real_type("factorization_machine_gradient: a vector", args.dtype, [&](auto type) {
    factorization_machine_gradient_kernel<typename decltype(type)::type>
        <<<grid_for(args.batch * args.width, kBlockThreads), kBlockThreads, 0, stream.handle>>>(
            args);
  });
  check_launch("factorization_machine_gradient");
}

}  // namespace msstream::ops::kernels
