// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// The experts that each gate of a mixture uses: gate g mixes the experts expert[first_choice[g]],
/// …, expert[first_choice[g + 1] - 1].
struct GateTable {
  static constexpr int kMostGates = 16;
  static constexpr int kMostChoices = 128;
  static constexpr int kMostExperts = 64;

  int gates = 0;
  int first_choice[kMostGates + 1] = {};
  std::uint8_t expert[kMostChoices] = {};

  [[nodiscard]] constexpr int choices() const { return first_choice[gates]; }
};

/// The addresses of the logits, the weights or their gradients of each gate: rows with one number
/// per choice of the gate.
template <class T>
struct GateNumbers {
  T* first[GateTable::kMostGates];  ///< [gates], the first number of a gate's first row
};

/// Computes weights = softmax of each gate's logits, and output[g, row, :] = sum over the gate's
/// choices k, in their order, of weights[k] * experts[expert of k][row, :]. Sums are float32, and
/// the output is rounded once.
struct MixtureArgs {
  GateTable table;
  /// The stride between rows of a gate's logits and weights.
  std::int64_t row_stride[GateTable::kMostGates];
  GateNumbers<float const> logits;
  GateNumbers<float> weights;
  void const* experts[GateTable::kMostExperts];  ///< each [batch, width] of `dtype`
  void* output;                                  ///< [gates, batch, width] of `dtype`
  std::int64_t batch;
  std::int64_t width;
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
};
void mix_experts(HostStream stream, MixtureArgs const& args);
void mix_experts(CudaStream stream, MixtureArgs const& args);

/// Computes the gradients of mix_experts(): expert_gradients[e] = sum over the choices of expert e,
/// in their order, of weight * output_gradient, rounded once, and logits_gradient by the derivative
/// of the softmax.
struct MixtureGradientArgs {
  GateTable table;
  std::int64_t row_stride[GateTable::kMostGates];
  GateNumbers<float const> weights;
  GateNumbers<float> logits_gradient;
  int expert_count;
  void const* experts[GateTable::kMostExperts];     ///< each [batch, width] of `dtype`
  void* expert_gradients[GateTable::kMostExperts];  ///< each [batch, width] of `dtype`, or null
  void const* output_gradient;                      ///< [gates, batch, width] of `dtype`
  std::int64_t batch;
  std::int64_t width;
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
};
void mix_experts_gradient(HostStream stream, MixtureGradientArgs const& args);
void mix_experts_gradient(CudaStream stream, MixtureGradientArgs const& args);

}  // namespace msstream::ops::kernels
