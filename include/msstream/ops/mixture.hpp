// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops {

/// For each gate, the numbers of the experts that it mixes, in the order of its logits. At most 16
/// gates and 128 choices of all gates together, among at most 64 experts.
using Gates = std::vector<std::vector<int>>;

/// Some gates and their logits: [batch, choices of all these gates], or [gates, batch, choices] if
/// each gate has the same number of choices.
template <Runtime R = DefaultRuntime>
struct GateLogits {
  Tensor<float, R> logits;
  Gates gates;
};

template <Runtime R = DefaultRuntime>
struct Mixture {
  Tensor<float, R> output;                ///< [gates, batch, width]
  std::vector<Tensor<float, R>> weights;  ///< softmax of the logits, in the logits' shapes
};

namespace detail {

/// The experts of several tensors, numbered consecutively.
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

/// The gates of several tensors of logits, numbered consecutively.
struct NumberedGates {
  kernels::GateTable table;
  std::int64_t row_stride[kernels::GateTable::kMostGates] = {};
  /// For each gate, the number of the tensor with its logits; `place` is the index of its first
  /// logit in that tensor.
  std::size_t tensor[kernels::GateTable::kMostGates] = {};
  std::int64_t place[kernels::GateTable::kMostGates] = {};

  template <Runtime R>
  NumberedGates(std::vector<GateLogits<R>> const& all, std::size_t experts, std::int64_t batch) {
    require(!all.empty(), "mix_experts: no gates");
    for (std::size_t i = 0; i < all.size(); ++i) {
      int const first = table.gates;
      for (auto const& gate : all[i].gates) {
        add(gate, experts);
      }
      locate(first, i, all[i].logits.shape(), batch);
    }
  }

  /// Sets numbers.first to the address of each gate's first number, in tensors that have the layout
  /// of the logits. `data(i)` returns the data of tensor i.
  template <class Pointer, class Data>
  void find(kernels::GateNumbers<Pointer>& numbers, Data const& data) const {
    for (int gate = 0; gate < table.gates; ++gate) {
      numbers.first[gate] = data(tensor[gate]) + place[gate];
    }
  }

 private:
  void add(std::vector<int> const& gate, std::size_t experts) {
    require(table.gates < kernels::GateTable::kMostGates,
            "mix_experts: more than ",
            kernels::GateTable::kMostGates,
            " gates");
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

  void locate(int first, std::size_t number, Shape const& logits, std::int64_t batch) {
    int const gates = table.gates - first;
    require(gates > 0, "mix_experts: no gates for logits of shape ", logits);
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
            "mix_experts: logits of shape ",
            logits,
            " for ",
            gates,
            " gates with ",
            of_all,
            " choices of all and a batch of ",
            batch,
            "; expected [batch, choices of all], or [gates, batch, choices of each]");
  }
};

}  // namespace detail

namespace detail {

// The bodies of the functions below.

[[nodiscard]] Mixture<AnyRuntime> mix_experts(std::vector<Floats> const& experts,
                                              std::vector<GateLogits<AnyRuntime>> const& gates,
                                              std::source_location issued_at);
[[nodiscard]] Mixture<AnyRuntime> mix_experts(std::vector<Floats> const& experts,
                                              Floats const& logits,
                                              Gates const& gates,
                                              std::source_location issued_at);

}  // namespace detail

/// Mixes the outputs of experts by gates, as in MMoE and PLE (Tang et al. 2020, section 4):
/// output[g] is the sum, over the experts that gate g mixes, of softmax(the gate's logits) times
/// the expert's output, row by row.
///
/// experts: tensors [batch, width] or [experts, batch, width]. Experts and gates are numbered
/// consecutively over their tensors. One launch; float32; deterministic; asynchronous;
/// capture-safe. Throws std::invalid_argument for shapes and numbers that do not fit.
template <Runtime R>
[[nodiscard]] Mixture<R> mix_experts(
    std::vector<Tensor<float, R>> const& experts,
    std::vector<GateLogits<R>> const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mix_experts(detail::untyped(experts), gates, issued_at));
}
/// Mixes the outputs of experts by gates whose logits are all in one tensor.
template <Runtime R>
[[nodiscard]] Mixture<R> mix_experts(
    std::vector<Tensor<float, R>> const& experts,
    Tensor<float, R> const& logits,
    Gates const& gates,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mix_experts(detail::untyped(experts), logits, gates, issued_at));
}

template <Runtime R = DefaultRuntime>
struct MixtureGradients {
  std::vector<std::optional<Tensor<float, R>>> experts;  ///< null where not wanted
  std::vector<Tensor<float, R>> logits;
};

namespace detail {

// The bodies of the functions below.

[[nodiscard]] MixtureGradients<AnyRuntime> mix_experts_gradient(
    std::vector<Floats> const& experts,
    std::vector<GateLogits<AnyRuntime>> const& weights,
    Floats const& output_gradient,
    std::vector<bool> const& wanted,
    std::source_location issued_at);

}  // namespace detail

/// Returns the gradients of mix_experts() with respect to the wanted experts and to all logits.
/// `weights` has the gates of the forward call with Mixture::weights instead of the logits. Throws
/// std::invalid_argument for shapes that do not fit.
template <Runtime R>
[[nodiscard]] MixtureGradients<R> mix_experts_gradient(
    std::vector<Tensor<float, R>> const& experts,
    std::vector<GateLogits<R>> const& weights,
    Tensor<float, R> const& output_gradient,
    std::vector<bool> const& wanted,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::mix_experts_gradient(
      detail::untyped(experts), weights, output_gradient, wanted, issued_at));
}

}  // namespace msstream::ops
