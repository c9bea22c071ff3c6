// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/kernels/mixture.hpp>
#include <msstream/ops/mixture.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {

Mixture<AnyRuntime> mix_experts(std::vector<Floats> const& experts,
                                std::vector<GateLogits<AnyRuntime>> const& gates,
                                std::source_location issued_at) {
  Experts<AnyRuntime> const numbered(experts);
  NumberedGates const all(gates, numbered.outputs.size(), numbered.batch);
  Mixture<AnyRuntime> mixture{
      {experts.front().device(), {all.table.gates, numbered.batch, numbered.width}}, {}};
  std::vector<Floats> logits;
  for (auto const& some : gates) {
    logits.push_back(some.logits);
    mixture.weights.emplace_back(some.logits.device(), some.logits.shape());
  }
  kernels::MixtureArgs args{};
  args.table = all.table;
  std::copy_n(all.row_stride, all.table.gates, args.row_stride);
  all.find(args.logits, [&](std::size_t i) { return logits[i].data(); });
  all.find(args.weights, [&](std::size_t i) { return mixture.weights[i].data(); });
  std::copy(numbered.outputs.begin(), numbered.outputs.end(), args.experts);
  args.output = mixture.output.data();
  args.batch = numbered.batch;
  args.width = numbered.width;
  issue(
      "mix_experts",
      reads(experts, logits),
      writes(mixture.output, mixture.weights),
      [args](auto stream) { kernels::mix_experts(stream, args); },
      {},
      issued_at);
  return mixture;
}

Mixture<AnyRuntime> mix_experts(std::vector<Floats> const& experts,
                                Floats const& logits,
                                Gates const& gates,
                                std::source_location issued_at) {
  return mix_experts(experts, std::vector<GateLogits<AnyRuntime>>{{logits, gates}}, issued_at);
}

MixtureGradients<AnyRuntime> mix_experts_gradient(
    std::vector<Floats> const& experts,
    std::vector<GateLogits<AnyRuntime>> const& weights,
    Floats const& output_gradient,
    std::vector<bool> const& wanted,
    std::source_location issued_at) {
  Experts<AnyRuntime> const numbered(experts);
  NumberedGates const all(weights, numbered.outputs.size(), numbered.batch);
  require(output_gradient.shape() == Shape{all.table.gates, numbered.batch, numbered.width} &&
              wanted.size() == experts.size(),
          "mix_experts_gradient: output gradient of shape ",
          output_gradient.shape(),
          ", ",
          wanted.size(),
          " of ",
          experts.size(),
          " wanted");
  MixtureGradients<AnyRuntime> gradients;
  std::vector<Floats> by_gate;
  for (auto const& some : weights) {
    by_gate.push_back(some.logits);
    gradients.logits.emplace_back(some.logits.device(), some.logits.shape());
  }
  auto written = writes(gradients.logits);
  kernels::MixtureGradientArgs args{};
  args.table = all.table;
  std::copy_n(all.row_stride, all.table.gates, args.row_stride);
  all.find(args.weights, [&](std::size_t i) { return by_gate[i].data(); });
  all.find(args.logits_gradient, [&](std::size_t i) { return gradients.logits[i].data(); });
  args.expert_count = static_cast<int>(numbered.outputs.size());
  std::copy(numbered.outputs.begin(), numbered.outputs.end(), args.experts);
  std::size_t number = 0;
  for (std::size_t i = 0; i < experts.size(); ++i) {
    auto& gradient = gradients.experts.emplace_back();
    if (wanted[i]) {
      written.add(gradient.emplace(experts[i].device(), experts[i].shape()));
    }
    auto const& shape = experts[i].shape();
    auto const count = shape.rank() == 3 ? shape[0] : 1;
    for (std::int64_t k = 0; k < count; ++k) {
      args.expert_gradients[number++] =
          wanted[i] ? gradient->data() + k * numbered.batch * numbered.width : nullptr;
    }
  }
  args.output_gradient = output_gradient.data();
  args.batch = numbered.batch;
  args.width = numbered.width;
  issue(
      "mix_experts_gradient",
      reads(experts, by_gate, output_gradient),
      written,
      [args](auto stream) { kernels::mix_experts_gradient(stream, args); },
      {},
      issued_at);
  return gradients;
}

}  // namespace msstream::ops::detail
