// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/mixture.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace msstream::ops {

/// For each gate the experts that it mixes, by number, in the order of its logits. At most 16
/// gates and 128 choices of all together, among at most 64 experts.
using Gates = std::vector<std::vector<int>>;

template <Runtime R>
struct Mixture {
  Tensor<float, R> output;   ///< [gates, batch, width]
  Tensor<float, R> weights;  ///< softmax of the logits, in their shape
};

namespace detail {

/// The experts of several tensors, numbered through.
template <Runtime R>
struct Experts {
  std::int64_t batch;
  std::int64_t width;
  std::vector<float const*> outputs;  ///< each [batch, width]

  explicit Experts(std::vector<Tensor<float, R>> const& tensors) {
    require(!tensors.empty(), "mix_experts: no experts");
    auto const& first = tensors.front().shape();
    auto const rank = first.rank();
    require(rank == 2 || rank == 3, "mix_experts: experts of shape ", first);
    batch = first[rank - 2];
    width = first[rank - 1];
    for (auto const& tensor : tensors) {
      auto const& shape = tensor.shape();
      require((shape.rank() == 2 && shape == Shape{batch, width}) ||
                  (shape.rank() == 3 && shape == Shape{shape[0], batch, width}),
              "mix_experts: experts of shape ",
              shape,
              " beside ",
              first,
              "; expected [batch, width] or [experts, batch, width]");
      auto const count = shape.rank() == 3 ? shape[0] : 1;
      for (std::int64_t i = 0; i < count; ++i) {
        outputs.push_back(tensor.data() + i * batch * width);
      }
    }
    require(outputs.size() <= kernels::GateTable::kMostExperts,
            "mix_experts: ",
            outputs.size(),
            " experts; expected at most ",
            kernels::GateTable::kMostExperts);
  }
};

inline kernels::GateTable gate_table(Gates const& gates, std::size_t experts) {
  kernels::GateTable table;
  require(!gates.empty() && gates.size() <= kernels::GateTable::kMostGates,
          "mix_experts: ",
          gates.size(),
          " gates; expected 1 to ",
          kernels::GateTable::kMostGates);
  for (auto const& gate : gates) {
    require(!gate.empty(), "mix_experts: gate ", table.gates, " mixes no experts");
    auto next = table.first_choice[table.gates];
    for (int const expert : gate) {
      require(expert >= 0 && static_cast<std::size_t>(expert) < experts,
              "mix_experts: gate ",
              table.gates,
              " mixes expert ",
              expert,
              " of ",
              experts);
      require(next < kernels::GateTable::kMostChoices,
              "mix_experts: more than ",
              kernels::GateTable::kMostChoices,
              " choices of all gates");
      table.expert[next++] = static_cast<std::uint8_t>(expert);
    }
    table.first_choice[++table.gates] = next;
  }
  return table;
}

/// Where the logits lie, by their shape.
inline kernels::GateLayout gate_layout(kernels::GateTable const& table,
                                       std::int64_t batch,
                                       Shape const& logits) {
  auto const stacked = logits.rank() == 3;
  bool fits = logits == Shape{batch, table.choices()};
  if (stacked) {
    fits = logits == Shape{table.gates, batch, table.first_choice[1]};
    for (int gate = 0; gate <= table.gates; ++gate) {
      fits = fits && table.first_choice[gate] == gate * table.first_choice[1];
    }
  }
  require(fits,
          "mix_experts: logits of shape ",
          logits,
          " for ",
          table.gates,
          " gates with ",
          table.choices(),
          " choices of all and a batch of ",
          batch,
          "; expected [batch, choices of all], or [gates, batch, choices of each]");
  return {batch, stacked};
}

}  // namespace detail

/// The outputs of experts mixed by gates, as in the mixtures of MMoE and PLE (Tang et al. 2020,
/// section 4): output[g] = sum over the experts that gate g mixes of softmax(its logits) times the
/// expert's output, row by row.
///
/// experts: tensors [batch, width] or [experts, batch, width], numbered through. logits: [batch,
/// choices of all gates], or [gates, batch, choices] where each gate has as many. One launch;
/// float32; deterministic; asynchronous; capture-safe. Throws std::invalid_argument for shapes
/// and numbers that do not fit.
template <Runtime R>
[[nodiscard]] Mixture<R> mix_experts(std::vector<Tensor<float, R>> const& experts,
                                     Tensor<float, R> const& logits,
                                     Gates const& gates) {
  detail::Experts<R> const numbered(experts);
  auto const table = detail::gate_table(gates, numbered.outputs.size());
  auto const layout = detail::gate_layout(table, numbered.batch, logits.shape());
  Mixture<R> mixture{{logits.device(), {table.gates, numbered.batch, numbered.width}},
                     {logits.device(), logits.shape()}};
  kernels::MixtureArgs args{.table = table,
                            .layout = layout,
                            .experts = {},
                            .logits = logits.data(),
                            .weights = mixture.weights.data(),
                            .output = mixture.output.data(),
                            .width = numbered.width};
  for (std::size_t i = 0; i < numbered.outputs.size(); ++i) {
    args.experts[i] = numbered.outputs[i];
  }
  issue("mix_experts",
        reads(experts, logits),
        writes(mixture.output, mixture.weights),
        [args](auto stream) { kernels::mix_experts(stream, args); });
  return mixture;
}

template <Runtime R>
struct MixtureGradients {
  std::vector<std::optional<Tensor<float, R>>> experts;  ///< empty where not wanted
  Tensor<float, R> logits;
};

/// The gradients of mix_experts(), from the weights that it gave; of the experts those wanted.
template <Runtime R>
[[nodiscard]] MixtureGradients<R> mix_experts_gradient(
    std::vector<Tensor<float, R>> const& experts,
    Tensor<float, R> const& weights,
    Gates const& gates,
    Tensor<float, R> const& output_gradient,
    std::vector<bool> const& wanted) {
  detail::Experts<R> const numbered(experts);
  auto const table = detail::gate_table(gates, numbered.outputs.size());
  auto const layout = detail::gate_layout(table, numbered.batch, weights.shape());
  require(output_gradient.shape() == Shape{table.gates, numbered.batch, numbered.width} &&
              wanted.size() == experts.size(),
          "mix_experts_gradient: output gradient of shape ",
          output_gradient.shape(),
          ", ",
          wanted.size(),
          " of ",
          experts.size(),
          " wanted");
  MixtureGradients<R> gradients{{}, {weights.device(), weights.shape()}};
  kernels::MixtureGradientArgs args{.table = table,
                                    .layout = layout,
                                    .expert_count = static_cast<int>(numbered.outputs.size()),
                                    .experts = {},
                                    .expert_gradients = {},
                                    .weights = weights.data(),
                                    .output_gradient = output_gradient.data(),
                                    .logits_gradient = gradients.logits.data(),
                                    .width = numbered.width};
  auto written = writes(gradients.logits);
  std::size_t number = 0;
  for (std::size_t i = 0; i < experts.size(); ++i) {
    auto& gradient = gradients.experts.emplace_back();
    if (wanted[i]) {
      written.add(gradient.emplace(experts[i].device(), experts[i].shape()));
    }
    auto const& shape = experts[i].shape();
    auto const count = shape.rank() == 3 ? shape[0] : 1;
    for (std::int64_t k = 0; k < count; ++k, ++number) {
      args.experts[number] = numbered.outputs[number];
      args.expert_gradients[number] =
          wanted[i] ? gradient->data() + k * numbered.batch * numbered.width : nullptr;
    }
  }
  issue("mix_experts_gradient",
        reads(experts, weights, output_gradient),
        written,
        [args](auto stream) { kernels::mix_experts_gradient(stream, args); });
  return gradients;
}

}  // namespace msstream::ops
