// SPDX-License-Identifier: Apache-2.0
#include "optimizer/optimizer.hpp"

#include "ops/embedding/embedding.hpp"
#include "ops/optimizer/optimizer_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <cmath>
#include <cstdint>
#include <memory>
#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops {

Shape state_shape(OptimizerKind kind, Shape const& parameter) {
  return kind == OptimizerKind::rowwise_adagrad && parameter.rank() == 2 ? Shape{parameter[0]}
                                                                         : parameter;
}

void require_rule(char const* operation, OptimizerRule const& rule) {
  auto const require_within = [&](char const* member, float value, bool within, char const* range) {
    require(within, "{}: {} of {}; expected a number in {}", operation, member, value, range);
  };
  auto const is_finite = [](float value) { return value >= 0.0F && std::isfinite(value); };
  auto const is_fraction = [](float value) { return value >= 0.0F && value < 1.0F; };
  require(rule.kind >= OptimizerKind::sgd && rule.kind <= OptimizerKind::adam,
          "{}: no optimizer kind has the number {}",
          operation,
          static_cast<int>(static_cast<OptimizerKind>(rule.kind)));
  require_within(
      "learning_rate", rule.learning_rate, is_finite(rule.learning_rate), "[0, infinity)");
  require_within("beta1", rule.beta1, is_fraction(rule.beta1), "[0, 1)");
  require_within("beta2", rule.beta2, is_fraction(rule.beta2), "[0, 1)");
  require_within("epsilon", rule.epsilon, is_finite(rule.epsilon), "[0, infinity)");
}

namespace detail {
namespace {

template <Element T>
[[nodiscard]] TensorOf<T> zeros(std::shared_ptr<DeviceState> const& device,
                                Shape const& shape,
                                std::source_location issued_at) {
  TensorOf<T> tensor(device, shape);
  msstream::detail::fill_any(tensor.any(), 0, issued_at);
  return tensor;
}

/// Returns the arguments of an optimizer's kernel for one table. Adds the tensors that the kernel
/// uses to `read` and `written`.
[[nodiscard]] kernels::RowUpdate row_update(OptimizerRule const& rule,
                                            AnyTensor const& table,
                                            RowGradients<AnyRuntime> const& gradients,
                                            OptimizerState<AnyRuntime> const& state,
                                            Reads& read,
                                            Writes& written) {
  auto const& values = gradients.values.shape();
  require(table.shape().rank() == 2 && values.rank() == 2 && table.shape()[1] == values[1] &&
              gradients.ids.count() == values[0],
          "update_rows: table {}, row gradients {} for ids {}",
          table.shape(),
          values,
          gradients.ids.shape());
  require_weights("update_rows", table.dtype());
  require_state("update_rows", rule.kind, state, table.shape());
  read.add(gradients.ids);
  read.add(gradients.count);
  read.add(gradients.values);
  written.add(table);
  add_state(state, written);
  return {.table = table.data(),
          .dtype = table.dtype(),
          .width = table.shape()[1],
          .row_ids = gradients.ids.data(),
          .row_count = gradients.count.data(),
          .capacity = values[0],
          .gradients = gradients.values.data(),
          .state0 = data_of(state.first),
          .state1 = data_of(state.second)};
}

}  // namespace

void require_state(char const* operation,
                   OptimizerKind kind,
                   OptimizerState<AnyRuntime> const& state,
                   Shape const& parameter) {
  require(state.first.has_value() == (states_of(kind) >= 1) &&
              state.second.has_value() == (states_of(kind) >= 2),
          "{}: state that is not of the rule's; make_state() makes it",
          operation);
  for (auto const* const tensor : {&state.first, &state.second}) {
    require(!*tensor || (*tensor)->shape() == state_shape(kind, parameter),
            "{}: state {} for a parameter {}",
            operation,
            *tensor ? (*tensor)->shape() : Shape{},
            parameter);
  }
}

void add_state(OptimizerState<AnyRuntime> const& state, Writes& written) {
  for (auto const* const tensor : {&state.first, &state.second}) {
    if (*tensor) {
      written.add(**tensor);
    }
  }
}

OptimizerState<AnyRuntime> make_state(std::shared_ptr<DeviceState> const& device,
                                      OptimizerKind kind,
                                      Shape const& shape,
                                      std::source_location issued_at) {
  OptimizerState<AnyRuntime> state;
  if (states_of(kind) >= 1) {
    state.first.emplace(zeros<float>(device, state_shape(kind, shape), issued_at));
  }
  if (states_of(kind) >= 2) {
    state.second.emplace(zeros<float>(device, state_shape(kind, shape), issued_at));
  }
  return state;
}

void update_dense(OptimizerRule const& rule,
                  StepCounter<AnyRuntime> const& step,
                  std::vector<DenseParameter<AnyRuntime>> const& parameters,
                  std::source_location issued_at) {
  require_rule("update_dense", rule);
  if (parameters.empty()) {
    return;
  }
  std::vector<kernels::DenseUpdate> updates;
  auto read = reads(step.tensor());
  auto written = writes(parameters.front().weight);
  for (auto const& parameter : parameters) {
    require(parameter.weight.shape() == parameter.gradient.shape(),
            "update_dense: weight {}, gradient {}",
            parameter.weight.shape(),
            parameter.gradient.shape());
    require_state("update_dense", dense_kind(rule.kind), parameter.state, parameter.weight.shape());
    read.add(parameter.gradient);
    written.add(parameter.weight);
    add_state(parameter.state, written);
    updates.push_back({parameter.weight.data(),
                       parameter.gradient.data(),
                       data_of(parameter.state.first),
                       data_of(parameter.state.second),
                       parameter.weight.count()});
  }
  issue(
      "update_dense",
      read,
      written,
      [rule, counter = data_of(step), updates = std::move(updates)](auto stream) {
        kernels::update_dense(stream, rule, counter, updates);
      },
      {},
      issued_at);
}

void update_rows(OptimizerRule const& rule,
                 StepCounter<AnyRuntime> const& step,
                 AnyTensor const& table,
                 RowGradients<AnyRuntime> const& gradients,
                 OptimizerState<AnyRuntime> const& state,
                 std::source_location issued_at) {
  require_rule("update_rows", rule);
  auto read = reads(step.tensor());
  Writes written;
  auto const update = row_update(rule, table, gradients, state, read, written);
  issue(
      "update_rows",
      read,
      written,
      [rule, counter = data_of(step), update](auto stream) {
        kernels::update_rows(stream, rule, counter, {&update, 1});
      },
      {},
      issued_at);
}

void update_rows(OptimizerRule const& rule,
                 StepCounter<AnyRuntime> const& step,
                 std::vector<TableParameter<AnyRuntime>> const& tables,
                 std::source_location issued_at) {
  require_rule("update_rows", rule);
  if (tables.empty()) {
    return;
  }
  std::vector<kernels::RowUpdate> updates;
  updates.reserve(tables.size());
  auto read = reads(step.tensor());
  Writes written;
  for (auto const& parameter : tables) {
    updates.push_back(
        row_update(rule, parameter.table, parameter.gradients, parameter.state, read, written));
  }
  issue(
      "update_rows",
      read,
      written,
      [rule, counter = data_of(step), updates = std::move(updates)](auto stream) {
        kernels::update_rows(stream, rule, counter, updates);
      },
      {},
      issued_at);
}

}  // namespace detail

StepCounter<detail::AnyRuntime>::StepCounter(std::shared_ptr<detail::DeviceState> const& device,
                                             std::source_location issued_at)
    : state_(detail::zeros<std::uint8_t>(device, {sizeof(kernels::StepState)}, issued_at)) {}

void StepCounter<detail::AnyRuntime>::advance(OptimizerRule const& rule,
                                              std::source_location issued_at) {
  require_rule("advance_step", rule);
  issue(
      "advance_step",
      writes(state_),
      [rule, state = detail::data_of(*this)](auto stream) {
        kernels::advance_step(stream, rule, state);
      },
      {},
      issued_at);
}

}  // namespace msstream::ops
