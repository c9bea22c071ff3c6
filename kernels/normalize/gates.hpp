// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "normalize/batch_norm.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstddef>
#include <cstdint>

/// Activations whose negative part has a slope that is trained: one weight, or one per column.
namespace msstream::ops::kernels {

enum class Gate : std::uint8_t {
  prelu,  ///< g = 1 for x > 0, otherwise 0
  dice,   ///< g = the logistic function of the normalised x
};

/// Computes output[r, c] = x * (weight + (1 - weight) * g): x where the gate g is 1, weight * x
/// where it is 0.
struct GateArgs {
  Gate gate;
  float const* input;   ///< [rows, width]
  float const* weight;  ///< [width], or one number
  bool one_weight;
  ColumnMoments moments;  ///< used by Gate::dice
  float* output;          ///< [rows, width]
  std::int64_t rows;
  std::int64_t width;
};
void gate(HostStream stream, GateArgs const& args);
void gate(CudaStream stream, GateArgs const& args);

/// Computes the gradients of gate(), with the statistics of the batch: the gradient of a weight is
/// the sum of dy * x * (1 - g), that of the input follows the normalisation of Gate::dice.
struct GateGradientArgs {
  Gate gate;
  float const* input;
  float const* weight;
  bool one_weight;
  float const* statistics;  ///< [4, width], used by Gate::dice
  float const* output_gradient;
  std::int64_t rows;
  std::int64_t width;
  void* workspace;         ///< gate_gradient_workspace_bytes(), aligned to 8 bytes
  float* input_gradient;   ///< null if not wanted
  float* weight_gradient;  ///< null if not wanted
  RowMask mask = {};       ///< of the statistics
};
std::size_t gate_gradient_workspace_bytes(HostStream stream, std::int64_t rows, std::int64_t width);
std::size_t gate_gradient_workspace_bytes(CudaStream stream, std::int64_t rows, std::int64_t width);
void gate_gradient(HostStream stream, GateGradientArgs const& args);
void gate_gradient(CudaStream stream, GateGradientArgs const& args);

/// The halves of gate_gradient(), for rows that are on several ranks. gate_gradient_sums() computes
/// the gradient of the weight over the rows of a rank, if it is wanted, and writes the sums of each
/// column, [kGateSums, width]: of the gradients of the weight, of the normalised elements, and of
/// the products of the latter with the normalised elements. gate_input_gradient() takes the sums of
/// all ranks, [ranks, kGateSums, width], and needs no workspace.
inline constexpr std::int64_t kGateSums = 3;
void gate_gradient_sums(HostStream stream, GateGradientArgs const& args, double* sums);
void gate_gradient_sums(CudaStream stream, GateGradientArgs const& args, double* sums);
void gate_input_gradient(HostStream stream,
                         GateGradientArgs const& args,
                         double const* sums,
                         std::int64_t ranks);
void gate_input_gradient(CudaStream stream,
                         GateGradientArgs const& args,
                         double const* sums,
                         std::int64_t ranks);

}  // namespace msstream::ops::kernels
