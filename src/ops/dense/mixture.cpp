// SPDX-License-Identifier: Apache-2.0
#include "dense/mixture.hpp"

#include "ops/dense/any_mixture.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/mixture.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {
namespace {

/// The outputs of all experts, which may be spread over several tensors, numbered consecutively.
struct Experts {
  std::int64_t batch;
  std::int64_t width;
  std::vector<void const*> outputs;  ///< each [batch, width]

  explicit Experts(std::vector<AnyTensor> const& tensors) {
    require(!tensors.empty(), "mix_experts: no experts");
    auto const& first = tensors.front().shape();
    auto const rank = first.rank();
    require(rank == 2 || rank == 3, "mix_experts: experts of shape {}", first);
    batch = first[rank - 2];
    width = first[rank - 1];
    for (auto const& tensor : tensors) {
      auto const& shape = tensor.shape();
      require(tensor.dtype() == tensors.front().dtype(),
              "mix_experts: experts of {} beside {}; expected one type",
              name_of(tensor.dtype()),
              name_of(tensors.front().dtype()));
      require((shape.rank() == 2 && shape == Shape{batch, width}) ||
                  (shape.rank() == 3 && shape == Shape{shape[0], batch, width}),
              "mix_experts: experts of shape {} beside {}; expected [batch, width] or [experts, "
              "batch, width]",
              shape,
              first);
      auto const count = shape.rank() == 3 ? shape[0] : 1;
      for (std::int64_t i = 0; i < count; ++i) {
        outputs.push_back(static_cast<std::byte const*>(tensor.data()) +
                          i * batch * width * static_cast<std::int64_t>(bytes_of(tensor.dtype())));
      }
    }
    require(outputs.size() <= kernels::GateTable::kMostExperts,
            "mix_experts: {} experts; expected at most {}",
            outputs.size(),
            kernels::GateTable::kMostExperts);
  }
};

/// All gates of a mixture, whose logits may be spread over several tensors, numbered consecutively.
struct NumberedGates {
  kernels::GateTable table;
  std::int64_t row_stride[kernels::GateTable::kMostGates] = {};
  /// For each gate, the number of the tensor that holds its logits. `place` is the index of the
  /// gate's first logit in that tensor.
  std::size_t tensor[kernels::GateTable::kMostGates] = {};
  std::int64_t place[kernels::GateTable::kMostGates] = {};

  NumberedGates(std::vector<GateLogits<AnyRuntime>> const& all,
                std::size_t experts,
                std::int64_t batch) {
    require(!all.empty(), "mix_experts: no gates");
    for (std::size_t i = 0; i < all.size(); ++i) {
      int const first = table.gates;
      for (auto const& gate : all[i].gates) {
        add(gate, experts);
      }
      locate(first, i, all[i].logits.shape(), batch);
    }
  }

  /// Sets `numbers.first[gate]` to the address of each gate's first element, in tensors that have
  /// the layout of the tensors of logits. `data(i)` returns the address of tensor i.
  template <class Pointer, class Data>
  void find(kernels::GateNumbers<Pointer>& numbers, Data const& data) const {
    for (int gate = 0; gate < table.gates; ++gate) {
      numbers.first[gate] = data(tensor[gate]) + place[gate];
    }
  }

 private:
  void add(std::vector<int> const& gate, std::size_t experts) {
    require(table.gates < kernels::GateTable::kMostGates,
            "mix_experts: more than {} gates",
            kernels::GateTable::kMostGates);
    require(!gate.empty(), "mix_experts: gate {} mixes no experts", table.gates);
    auto next = table.first_choice[table.gates];
    for (int const expert : gate) {
      require(expert >= 0 && static_cast<std::size_t>(expert) < experts,
              "mix_experts: gate {} mixes expert {} of {}",
              table.gates,
              expert,
              experts);
      require(next < kernels::GateTable::kMostChoices,
              "mix_experts: more than {} choices of all gates",
              kernels::GateTable::kMostChoices);
      table.expert[next++] = static_cast<std::uint8_t>(expert);
    }
    table.first_choice[++table.gates] = next;
  }

  void locate(int first, std::size_t number, Shape const& logits, std::int64_t batch) {
    int const gates = table.gates - first;
    require(gates > 0, "mix_experts: no gates for logits of shape {}", logits);
    std::int64_t const before = table.first_choice[first];
    std::int64_t const of_first = table.first_choice[first + 1] - before;
    std::int64_t const of_all = table.first_choice[table.gates] - before;
    bool const stacked = logits.rank() == 3;
    bool fits = logits == Shape{batch, of_all};
    if (stacked) {
      fits = logits == Shape{gates, batch, of_first};
    }
    for (int gate = first; gate < table.gates; ++gate) {
      auto const choices = table.first_choice[gate + 1] - table.first_choice[gate];
      fits = fits && (!stacked || choices == of_first);
      row_stride[gate] = stacked ? of_first : of_all;
      tensor[gate] = number;
      place[gate] = stacked ? (gate - first) * batch * of_first : table.first_choice[gate] - before;
    }
    require(fits,
            "mix_experts: logits of shape {} for {} gates with {} choices of all and a batch of "
            "{}; expected [batch, choices of all], or [gates, batch, choices of each]",
            logits,
            gates,
            of_all,
            batch);
  }
};

[[nodiscard]] std::vector<AnyTensor> any_of(std::vector<Floats> const& tensors) {
  std::vector<AnyTensor> result;
  for (auto const& tensor : tensors) {
    result.push_back(tensor.any());
  }
  return result;
}

}  // namespace

AnyMixture mix_experts(std::vector<AnyTensor> const& experts,
                       std::vector<GateLogits<AnyRuntime>> const& gates,
                       std::source_location issued_at) {
  Experts const numbered(experts);
  NumberedGates const all(gates, numbered.outputs.size(), numbered.batch);
  auto const& first = experts.front();
  AnyMixture mixture{
      {first.device(), first.dtype(), Shape{all.table.gates, numbered.batch, numbered.width}}, {}};
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
  args.dtype = first.dtype();
  auto read = reads(logits);
  for (auto const& expert : experts) {
    read.add(expert);
  }
  issue(
      "mix_experts",
      read,
      writes(mixture.output, mixture.weights),
      [args](auto stream) { kernels::mix_experts(stream, args); },
      {},
      issued_at);
  return mixture;
}

Mixture<AnyRuntime> mix_experts(std::vector<Floats> const& experts,
                                std::vector<GateLogits<AnyRuntime>> const& gates,
                                std::source_location issued_at) {
  auto mixture = mix_experts(any_of(experts), gates, issued_at);
  return {Floats(std::move(mixture.output)), std::move(mixture.weights)};
}

Mixture<AnyRuntime> mix_experts(std::vector<Floats> const& experts,
                                Floats const& logits,
                                Gates const& gates,
                                std::source_location issued_at) {
  return mix_experts(experts, std::vector<GateLogits<AnyRuntime>>{{logits, gates}}, issued_at);
}

AnyMixtureGradients mix_experts_gradient(std::vector<AnyTensor> const& experts,
                                         std::vector<GateLogits<AnyRuntime>> const& weights,
                                         AnyTensor const& output_gradient,
                                         std::vector<bool> const& wanted,
                                         std::source_location issued_at) {
  Experts const numbered(experts);
  NumberedGates const all(weights, numbered.outputs.size(), numbered.batch);
  require(output_gradient.shape() == Shape{all.table.gates, numbered.batch, numbered.width} &&
              output_gradient.dtype() == experts.front().dtype() && wanted.size() == experts.size(),
          "mix_experts_gradient: output gradient of shape {}, {} of {} wanted",
          output_gradient.shape(),
          wanted.size(),
          experts.size());
  AnyMixtureGradients gradients;
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
  auto read = reads(by_gate);
  read.add(output_gradient);
  auto const of_expert = numbered.batch * numbered.width *
                         static_cast<std::int64_t>(bytes_of(output_gradient.dtype()));
  std::size_t number = 0;
  for (std::size_t i = 0; i < experts.size(); ++i) {
    read.add(experts[i]);
    auto& gradient = gradients.experts.emplace_back();
    if (wanted[i]) {
      written.add(gradient.emplace(experts[i].device(), experts[i].dtype(), experts[i].shape()));
    }
    auto const& shape = experts[i].shape();
    auto const count = shape.rank() == 3 ? shape[0] : 1;
    for (std::int64_t k = 0; k < count; ++k) {
      args.expert_gradients[number++] =
          wanted[i] ? static_cast<std::byte*>(gradient->data()) + k * of_expert : nullptr;
    }
  }
  args.output_gradient = output_gradient.data();
  args.batch = numbered.batch;
  args.width = numbered.width;
  args.dtype = output_gradient.dtype();
  issue(
      "mix_experts_gradient",
      read,
      written,
      [args](auto stream) { kernels::mix_experts_gradient(stream, args); },
      {},
      issued_at);
  return gradients;
}

MixtureGradients<AnyRuntime> mix_experts_gradient(
    std::vector<Floats> const& experts,
    std::vector<GateLogits<AnyRuntime>> const& weights,
    Floats const& output_gradient,
    std::vector<bool> const& wanted,
    std::source_location issued_at) {
  auto gradients =
      mix_experts_gradient(any_of(experts), weights, output_gradient.any(), wanted, issued_at);
  MixtureGradients<AnyRuntime> floats{{}, std::move(gradients.logits)};
  for (auto& gradient : gradients.experts) {
    auto& result = floats.experts.emplace_back();
    if (gradient) {
      result.emplace(*std::move(gradient));
    }
  }
  return floats;
}

}  // namespace msstream::ops::detail
