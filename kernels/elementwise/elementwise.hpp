// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace msstream::ops::kernels {

/// A matrix [rows, width] whose columns are side by side with others in a packed row-major matrix.
struct ColumnBlock {
  float* data;
  std::int64_t width;
};

/// Copies matrices side by side into a packed matrix: packed[:, start of block k : start + width] =
/// blocks[k]. Any number of blocks is allowed; many blocks take several launches. A block with null
/// data is skipped, and its columns are not written.
void concat_columns(HostStream stream,
                    std::span<ColumnBlock const> blocks,
                    std::int64_t rows,
                    float* packed);
void concat_columns(CudaStream stream,
                    std::span<ColumnBlock const> blocks,
                    std::int64_t rows,
                    float* packed);
/// Copies the columns of a packed matrix to separate matrices, the reverse of concat_columns():
/// blocks[k] = packed[:, start : start + width]. A block with null data is skipped.
void split_columns(HostStream stream,
                   float const* packed,
                   std::span<ColumnBlock const> blocks,
                   std::int64_t rows);
void split_columns(CudaStream stream,
                   float const* packed,
                   std::span<ColumnBlock const> blocks,
                   std::int64_t rows);

/// The number of inputs that one launch of add() reads. More inputs take several launches, which
/// pass their sums on in `output`.
inline constexpr std::size_t kAddInputsPerLaunch = 64;
/// Computes output[i] = inputs[0][i] + inputs[1][i] + …, added in this order, in parts of 32 inputs
/// as described in kernels/common/long_sum.hpp. Sums are rounded to float32 between launches. The
/// host and the CUDA implementation give the same bits. The output may be one of the first 64
/// inputs. Throws std::invalid_argument if the output is a later input, or if there is no input.
void add(HostStream stream,
         std::span<float const* const> inputs,
         float* output,
         std::int64_t count);
void add(CudaStream stream,
         std::span<float const* const> inputs,
         float* output,
         std::int64_t count);

/// Computes output[i] = factor * input[i]. The output may be the input.
void scale(HostStream stream, float const* input, float factor, float* output, std::int64_t count);
void scale(CudaStream stream, float const* input, float factor, float* output, std::int64_t count);

/// Computes the sigmoid output[i] = 1 / (1 + exp(-input[i])), without overflow. The output may be
/// the input.
void sigmoid(HostStream stream, float const* input, float* output, std::int64_t count);
void sigmoid(CudaStream stream, float const* input, float* output, std::int64_t count);
/// Computes the gradient of sigmoid(): input_gradient[i] = output_gradient[i] * output[i] * (1 -
/// output[i]).
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

/// Computes output[0] = factor * (sum of input), with float partial sums in a fixed tree. Every
/// run, on the host or on CUDA, gives the same bits. `workspace` must have
/// reduce_workspace_bytes(stream, count) bytes, which is 0 for up to 65536 elements.
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
/// Sets output[i] = factor * value[0] for i < count: the gradient of reduce_sum().
void broadcast_scalar(
    HostStream stream, float const* value, float factor, float* output, std::int64_t count);
void broadcast_scalar(
    CudaStream stream, float const* value, float factor, float* output, std::int64_t count);

/// A loss of one input x and one target z.
enum class LossKind : std::uint8_t {
  bce_with_logits,  ///< max(x, 0) - x z + log(1 + exp(-|x|)), z times `parameter` if positive
  squared_error,    ///< (x - z)^2
  hinge,            ///< max(0, parameter - (2 z - 1) x)
};

/// Computes losses[i] of inputs[i] and targets[i], times a weight, and the derivative of each loss
/// with respect to its input. The target of a cross-entropy or hinge loss is a label in [0, 1];
/// both results are NaN for another. An element of weight 0 has a loss and a derivative of 0,
/// whatever its input and target are.
struct ElementLossArgs {
  void const* inputs;    ///< of `dtype`
  float const* targets;  ///< null if all are 1
  float* losses;
  void* gradients;  ///< of `gradient_dtype`, rounded once; null if not requested
  std::int64_t count;
  LossKind kind = LossKind::bce_with_logits;
  float parameter = 1.0F;
  float const* weights = nullptr;         ///< null if all are 1
  std::int64_t elements_a_weight = 1;     ///< consecutive elements that share a weight
  DType dtype = DType::float32;           ///< float32, float16 or bfloat16
  DType gradient_dtype = DType::float32;  ///< float32, or `dtype`
};
void element_losses(HostStream stream, ElementLossArgs const& args);
void element_losses(CudaStream stream, ElementLossArgs const& args);
/// Computes output[i] = factor * value[0] * input[i], which multiplies a saved gradient by the
/// scalar gradient of the loss. The output is float32, float16 or bfloat16, rounded once.
void scale_by_scalar(HostStream stream,
                     float const* input,
                     float const* value,
                     float factor,
                     void* output,
                     std::int64_t count,
                     DType dtype = DType::float32);
void scale_by_scalar(CudaStream stream,
                     float const* input,
                     float const* value,
                     float factor,
                     void* output,
                     std::int64_t count,
                     DType dtype = DType::float32);

}  // namespace msstream::ops::kernels
