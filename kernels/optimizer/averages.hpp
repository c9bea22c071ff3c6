// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>
#include <span>

namespace msstream::ops::kernels {

/// Weights and their moving average.
struct AveragedWeights {
  void* weights;  ///< of `dtype`: float32, float16 or bfloat16
  float* average;
  /// The place of the weights of 16 bits while they have the values of the average; null if they
  /// need not be kept, and unused for float32.
  void* kept;
  std::int64_t count;
  DType dtype;
};
/// Computes average = decay * average + (1 - decay) * weights for any number of tensors, up to 48
/// per launch.
void update_averages(HostStream stream, float decay, std::span<AveragedWeights const> tensors);
void update_averages(CudaStream stream, float decay, std::span<AveragedWeights const> tensors);
/// Gives the weights of any number of tensors the values of their averages, up to 48 per launch.
/// Weights of float32 are exchanged with their averages; others are kept, and averages rounded.
void swap_averages_in(HostStream stream, std::span<AveragedWeights const> tensors);
void swap_averages_in(CudaStream stream, std::span<AveragedWeights const> tensors);
/// Undoes swap_averages_in(), bit by bit.
void swap_averages_out(HostStream stream, std::span<AveragedWeights const> tensors);
void swap_averages_out(CudaStream stream, std::span<AveragedWeights const> tensors);

}  // namespace msstream::ops::kernels
