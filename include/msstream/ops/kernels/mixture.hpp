// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Which experts each gate mixes: gate g those of `expert[first_choice[g]]` up to
/// `expert[first_choice[g + 1]]`.
struct GateTable {
  static constexpr int kMostGates = 16;
  static constexpr int kMostChoices = 128;
  static constexpr int kMostExperts = 64;

  int gates = 0;
  int first_choice[kMostGates + 1] = {};
  std::uint8_t expert[kMostChoices] = {};

  [[nodiscard]] constexpr int choices() const { return first_choice[gates]; }
};

/// The numbers of each gate, one a choice, row by row.
template <class T>
struct GateNumbers {
  T* first[GateTable::kMostGates];  ///< of the first row
};

/// weights = softmax of each gate's logits; output[g, row, :] = sum over its choices k, in their
/// order, of weights[k] * experts[expert of k][row, :].
struct MixtureArgs {
  GateTable table;
  std::int64_t row_stride[GateTable::kMostGates];  ///< of a gate's logits and weights
  GateNumbers<float const> logits;
  GateNumbers<float> weights;
  float const* experts[GateTable::kMostExperts];  ///< each [batch, width]
  float* output;                                  ///< [gates, batch, width]
  std::int64_t batch;
  std::int64_t width;
};
void mix_experts(HostStream stream, MixtureArgs const& args);
void mix_experts(CudaStream stream, MixtureArgs const& args);

/// expert_gradients[e] = sum over the choices of e, in their order, of weight * output_gradient;
/// logits_gradient by the softmax's derivative.
struct MixtureGradientArgs {
  GateTable table;
  std::int64_t row_stride[GateTable::kMostGates];
  GateNumbers<float const> weights;
  GateNumbers<float> logits_gradient;
  int expert_count;
  float const* experts[GateTable::kMostExperts];     ///< each [batch, width]
  float* expert_gradients[GateTable::kMostExperts];  ///< each [batch, width], or null
  float const* output_gradient;                      ///< [gates, batch, width]
  std::int64_t batch;
  std::int64_t width;
};
void mix_experts_gradient(HostStream stream, MixtureGradientArgs const& args);
void mix_experts_gradient(CudaStream stream, MixtureGradientArgs const& args);

}  // namespace msstream::ops::kernels
