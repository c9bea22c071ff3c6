// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/optimizer_rule.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/copy.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::ops {

/// Returns the number of state tensors that a rule has for each parameter.
[[nodiscard]] constexpr int states_of(OptimizerKind kind) noexcept {
  switch (kind) {
    case OptimizerKind::sgd:
      return 0;
    case OptimizerKind::momentum:
    case OptimizerKind::adagrad:
    case OptimizerKind::rowwise_adagrad:
      return 1;
    case OptimizerKind::adam:
      return 2;
  }
  return 0;
}

/// Returns the shape of a parameter's state tensors: the parameter's shape, or [rows] for a rule
/// with one state per row of a table.
[[nodiscard]] inline Shape state_shape(OptimizerKind kind, Shape const& parameter) {
  return kind == OptimizerKind::rowwise_adagrad && parameter.rank() == 2 ? Shape{parameter[0]}
                                                                         : parameter;
}

/// Throws std::invalid_argument for an unknown kind, for a learning rate or epsilon that is
/// negative, infinite or NaN, and for a beta outside [0, 1). The message names the member and the
/// accepted range.
inline void require_rule(char const* operation, OptimizerRule const& rule) {
  auto const require_within = [&](char const* member, float value, bool within, char const* range) {
    require(within, operation, ": ", member, " of ", value, "; expected a number in ", range);
  };
  auto const is_finite = [](float value) { return value >= 0.0F && std::isfinite(value); };
  auto const is_fraction = [](float value) { return value >= 0.0F && value < 1.0F; };
  require(rule.kind >= OptimizerKind::sgd && rule.kind <= OptimizerKind::adam,
          operation,
          ": no optimizer kind has the number ",
          static_cast<int>(static_cast<OptimizerKind>(rule.kind)));
  require_within(
      "learning_rate", rule.learning_rate, is_finite(rule.learning_rate), "[0, infinity)");
  require_within("beta1", rule.beta1, is_fraction(rule.beta1), "[0, 1)");
  require_within("beta2", rule.beta2, is_fraction(rule.beta2), "[0, 1)");
  require_within("epsilon", rule.epsilon, is_finite(rule.epsilon), "[0, infinity)");
}

/// The state of an optimizer for one parameter, float32, of state_shape().
template <Runtime R = DefaultRuntime>
struct OptimizerState {
  std::optional<Tensor<float, R>> first = {};
  std::optional<Tensor<float, R>> second = {};
};

namespace detail {

// The bodies of the functions below.

[[nodiscard]] OptimizerState<AnyRuntime> make_state(Device<AnyRuntime> const& device,
                                                    OptimizerKind kind,
                                                    Shape const& shape,
                                                    std::source_location issued_at);

}  // namespace detail

/// Returns zeroed state for a parameter. For a dense parameter pass dense_kind() of the rule's
/// kind.
template <Runtime R>
[[nodiscard]] OptimizerState<R> make_state(
    Device<R> const& device,
    OptimizerKind kind,
    Shape const& shape,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::make_state(device, kind, shape, issued_at));
}

/// The step counter with Adam's corrections, in device memory, so that a replay of a captured step
/// advances it too.
template <Runtime R = DefaultRuntime>
class StepCounter {
 public:
  explicit StepCounter(Device<R> const& device,
                       std::source_location issued_at = std::source_location::current())
      : state_(zeros<std::uint8_t>(device, {sizeof(kernels::StepState)}, issued_at)) {}
  /// Counts one step. Call it before the updates of that step.
  void advance(OptimizerRule const& rule,
               std::source_location issued_at = std::source_location::current()) {
    require_rule("advance_step", rule);
    issue(
        "advance_step",
        writes(state_),
        [rule, state = data()](auto stream) { kernels::advance_step(stream, rule, state); },
        {},
        issued_at);
  }
  [[nodiscard]] kernels::StepState* data() const noexcept {
    return reinterpret_cast<kernels::StepState*>(state_.data());
  }
  [[nodiscard]] Tensor<std::uint8_t, R> const& tensor() const noexcept { return state_; }

 private:
  Tensor<std::uint8_t, R> state_;
};

template <Runtime R = DefaultRuntime>
struct DenseParameter {
  Tensor<float, R> weight;
  Tensor<float, R> gradient;
  OptimizerState<R> state;
};

namespace detail {

// The bodies of the functions below.

void update_dense(OptimizerRule const& rule,
                  StepCounter<AnyRuntime> const& step,
                  std::vector<DenseParameter<AnyRuntime>> const& parameters,
                  std::source_location issued_at);

}  // namespace detail

/// Applies one optimizer step to any number of dense parameters, up to 48 per launch.
/// Deterministic; asynchronous.
template <Runtime R>
void update_dense(OptimizerRule const& rule,
                  StepCounter<R> const& step,
                  std::vector<DenseParameter<R>> const& parameters,
                  std::source_location issued_at = std::source_location::current()) {
  detail::update_dense(rule, step, parameters, issued_at);
}

namespace detail {

/// Returns the kernel's arguments for one table. Adds the tensors that the kernel uses to `read`
/// and `written`.
template <Element T, Runtime R>
[[nodiscard]] kernels::RowUpdate row_update(OptimizerRule const& rule,
                                            Tensor<T, R> const& table,
                                            RowGradients<R> const& gradients,
                                            OptimizerState<R> const& state,
                                            msstream::detail::Uses<R, AccessMode::read>& read,
                                            msstream::detail::Uses<R, AccessMode::write>& written) {
  auto const& values = gradients.values.shape();
  require(table.shape().rank() == 2 && values.rank() == 2 && table.shape()[1] == values[1] &&
              gradients.ids.count() == values[0],
          "update_rows: table ",
          table.shape(),
          ", row gradients ",
          values,
          " for ids ",
          gradients.ids.shape());
  require_weights<T>("update_rows");
  require_state("update_rows", rule.kind, state, table.shape());
  read.add(gradients.ids);
  read.add(gradients.count);
  read.add(gradients.values);
  written.add(table);
  for (auto const* const tensor : {&state.first, &state.second}) {
    if (*tensor) {
      written.add(**tensor);
    }
  }
  return {.table = table.data(),
          .dtype = dtype_of<T>,
          .width = table.shape()[1],
          .row_ids = gradients.ids.data(),
          .row_count = gradients.count.data(),
          .capacity = values[0],
          .gradients = gradients.values.data(),
          .state0 = state.first ? state.first->data() : nullptr,
          .state1 = state.second ? state.second->data() : nullptr};
}

}  // namespace detail

/// Applies one optimizer step to the rows of a table [rows, width] that have a gradient. Other rows
/// and their state do not change. Deterministic; asynchronous.
template <Element T, Runtime R>
void update_rows(OptimizerRule const& rule,
                 StepCounter<R> const& step,
                 Tensor<T, R> const& table,
                 RowGradients<R> const& gradients,
                 OptimizerState<R> const& state,
                 std::source_location issued_at = std::source_location::current()) {
  require_rule("update_rows", rule);
  auto read = reads(step.tensor());
  msstream::detail::Uses<R, AccessMode::write> written;
  auto const update = detail::row_update(rule, table, gradients, state, read, written);
  issue(
      "update_rows",
      read,
      written,
      [rule, counter = step.data(), update](auto stream) {
        kernels::update_rows(stream, rule, counter, {&update, 1});
      },
      {},
      issued_at);
}

/// An embedding table of any type of weights.
template <Runtime R = DefaultRuntime>
using AnyTable = std::variant<Tensor<float, R>, Tensor<float16, R>, Tensor<bfloat16, R>>;

template <Runtime R = DefaultRuntime>
struct TableParameter {
  AnyTable<R> table;  ///< [rows, width]
  RowGradients<R> gradients;
  OptimizerState<R> state;
};

namespace detail {

// The bodies of the functions below.

void update_rows(OptimizerRule const& rule,
                 StepCounter<AnyRuntime> const& step,
                 std::vector<TableParameter<AnyRuntime>> const& tables,
                 std::source_location issued_at);

}  // namespace detail

/// Applies one optimizer step to the rows with a gradient of any number of distinct tables, in one
/// operation: one launch for up to 40 tables of one type. Gives the same bits as an update per
/// table. Deterministic; asynchronous.
template <Runtime R>
void update_rows(OptimizerRule const& rule,
                 StepCounter<R> const& step,
                 std::vector<TableParameter<R>> const& tables,
                 std::source_location issued_at = std::source_location::current()) {
  detail::update_rows(rule, step, tables, issued_at);
}

}  // namespace msstream::ops
