// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>
#include <span>

namespace msstream::ops::kernels {

/// Weights and their moving average.
struct AveragedWeights {
  float* weights;
  float* average;
  std::int64_t count;
};
/// Computes average = decay * average + (1 - decay) * weights for any number of tensors, up to 48
/// per launch.
void update_averages(HostStream stream, float decay, std::span<AveragedWeights const> tensors);
void update_averages(CudaStream stream, float decay, std::span<AveragedWeights const> tensors);
/// Exchanges the weights and the averages of any number of tensors, up to 48 per launch.
void swap_averages(HostStream stream, std::span<AveragedWeights const> tensors);
void swap_averages(CudaStream stream, std::span<AveragedWeights const> tensors);

}  // namespace msstream::ops::kernels
