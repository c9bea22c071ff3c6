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

/// Where a gate's logits of a row lie; its weights and its logits' gradient lie alike.
struct GateLayout {
  std::int64_t batch;
  bool stacked;  ///< [gates, batch, choices of each]; else [batch, choices of all]

  [[nodiscard]] constexpr std::int64_t first(GateTable const& table,
                                             int gate,
                                             std::int64_t row) const {
    auto const before = table.first_choice[gate];
    auto const choices = table.first_choice[gate + 1] - before;
    return stacked ? (gate * batch + row) * choices : row * table.choices() + before;
  }
};

/// weights = softmax of each gate's logits; output[g, row, :] = sum over its choices k, in their
/// order, of weights[k] * experts[expert of k][row, :].
struct MixtureArgs {
  GateTable table;
  GateLayout layout;
  float const* experts[GateTable::kMostExperts];  ///< each [batch, width]
  float const* logits;
  float* weights;
  float* output;  ///< [gates, batch, width]
  std::int64_t width;
};
void mix_experts(HostStream stream, MixtureArgs const& args);
void mix_experts(CudaStream stream, MixtureArgs const& args);

/// expert_gradients[e] = sum over the choices of e, in their order, of weight * output_gradient;
/// logits_gradient by the softmax's derivative.
struct MixtureGradientArgs {
  GateTable table;
  GateLayout layout;
  int expert_count;
  float const* experts[GateTable::kMostExperts];     ///< each [batch, width]
  float* expert_gradients[GateTable::kMostExperts];  ///< each [batch, width], or null
  float const* weights;
  float const* output_gradient;  ///< [gates, batch, width]
  float* logits_gradient;
  std::int64_t width;
};
void mix_experts_gradient(HostStream stream, MixtureGradientArgs const& args);
void mix_experts_gradient(CudaStream stream, MixtureGradientArgs const& args);

}  // namespace msstream::ops::kernels
