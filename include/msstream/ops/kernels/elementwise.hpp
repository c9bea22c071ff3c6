// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace msstream::ops::kernels {

/// One of the blocks that lie side by side in a packed row-major matrix: [rows, width].
struct ColumnBlock {
  float* data;
  std::int64_t width;
};

/// packed[:, start of block k : start + width] = blocks[k], for any number of blocks (chunked over
/// launches if need be).
void concat_columns(HostStream stream,
                    std::span<ColumnBlock const> blocks,
                    std::int64_t rows,
                    float* packed);
void concat_columns(CudaStream stream,
                    std::span<ColumnBlock const> blocks,
                    std::int64_t rows,
                    float* packed);
/// The reverse: blocks[k] = packed[:, start : start + width]. A block with null data is skipped.
void split_columns(HostStream stream,
                   float const* packed,
                   std::span<ColumnBlock const> blocks,
                   std::int64_t rows);
void split_columns(CudaStream stream,
                   float const* packed,
                   std::span<ColumnBlock const> blocks,
                   std::int64_t rows);

/// How many of add()'s inputs one launch reads; more take several, with the sum so far in `output`.
inline constexpr std::size_t kAddInputsPerLaunch = 64;
/// output[i] = inputs[0][i] + inputs[1][i] + …, added in this order, in parts of 32 inputs as
/// long_sum.hpp says, and between launches in float32: the same bits in both twins. output may be
/// one of the first 64 inputs. Throws std::invalid_argument if it is a later one, or without any
/// input.
void add(HostStream stream,
         std::span<float const* const> inputs,
         float* output,
         std::int64_t count);
void add(CudaStream stream,
         std::span<float const* const> inputs,
         float* output,
         std::int64_t count);

/// output[i] = factor * input[i]; may be in place.
void scale(HostStream stream, float const* input, float factor, float* output, std::int64_t count);
void scale(CudaStream stream, float const* input, float factor, float* output, std::int64_t count);

/// output[i] = 1 / (1 + exp(-input[i])), without overflow; may be in place.
void sigmoid(HostStream stream, float const* input, float* output, std::int64_t count);
void sigmoid(CudaStream stream, float const* input, float* output, std::int64_t count);
/// input_gradient[i] = output_gradient[i] * output[i] * (1 - output[i]).
void sigmoid_gradient(HostStream stream,
                      float const* output,
                      float const* output_gradient,
                      float* input_gradient,
                      std::int64_t count);
void sigmoid_gradient(CudaStream stream,
                      float const* output,
                      float const* output_gradient,
                      float* input_gradient,
                      std::int64_t count);

/// output[0] = factor * (sum of input), by float partial sums in a fixed tree: the same bits in
/// every run and in both twins. workspace: reduce_workspace_bytes(stream, count) bytes, 0 for up to
/// 65536 elements.
std::size_t reduce_workspace_bytes(HostStream stream, std::int64_t count);
std::size_t reduce_workspace_bytes(CudaStream stream, std::int64_t count);
void reduce_sum(HostStream stream,
                float const* input,
                std::int64_t count,
                float factor,
                void* workspace,
                float* output);
void reduce_sum(CudaStream stream,
                float const* input,
                std::int64_t count,
                float factor,
                void* workspace,
                float* output);
/// output[i] = factor * value[0] for i < count: the gradient of reduce_sum.
void broadcast_scalar(
    HostStream stream, float const* value, float factor, float* output, std::int64_t count);
void broadcast_scalar(
    CudaStream stream, float const* value, float factor, float* output, std::int64_t count);

/// losses[i] = max(x, 0) - x * z + log(1 + exp(-|x|)), x a logit and z its label in [0, 1];
/// gradients[i] = sigmoid(x) - z. Both are NaN for a label outside [0, 1].
struct BceArgs {
  float const* logits;
  float const* labels;
  float* losses;
  float* gradients;  ///< or null
  std::int64_t count;
};
void bce_with_logits(HostStream stream, BceArgs const& args);
void bce_with_logits(CudaStream stream, BceArgs const& args);
/// output[i] = factor * value[0] * input[i]: how a saved gradient is scaled by its upstream scalar.
void scale_by_scalar(HostStream stream,
                     float const* input,
                     float const* value,
                     float factor,
                     float* output,
                     std::int64_t count);
void scale_by_scalar(CudaStream stream,
                     float const* input,
                     float const* value,
                     float factor,
                     float* output,
                     std::int64_t count);

}  // namespace msstream::ops::kernels
