// SPDX-License-Identifier: Apache-2.0
#include "optimizer/optimizer.hpp"

#include "ops/common/workspace.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "ops/embedding/table_gradient.hpp"
#include "ops/optimizer/dense_update.hpp"
#include "ops/optimizer/optimizer_state.hpp"
#include "ops/optimizer/table_update.hpp"

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

namespace {

void require_within(
    char const* operation, char const* member, float value, bool within, char const* range) {
  require(within, "{}: {} of {}; expected a number in {}", operation, member, value, range);
}
void require_finite(char const* operation, char const* member, float value) {
  require_within(operation, member, value, value >= 0.0F && std::isfinite(value), "[0, infinity)");
}
void require_fraction(char const* operation, char const* member, float value) {
  require_within(operation, member, value, value >= 0.0F && value < 1.0F, "[0, 1)");
}
void require_clip_value(char const* operation, float value) {
  require_within(operation, "clip_value", value, value > 0.0F, "(0, infinity]");
}

}  // namespace

char const* name_of(OptimizerKind kind) noexcept {
  switch (kind) {
    case OptimizerKind::sgd:
      return "sgd";
    case OptimizerKind::momentum:
      return "momentum";
    case OptimizerKind::adagrad:
      return "adagrad";
    case OptimizerKind::rowwise_adagrad:
      return "rowwise_adagrad";
    case OptimizerKind::adam:
      return "adam";
    case OptimizerKind::adamw:
      return "adamw";
    case OptimizerKind::lamb:
      return "lamb";
    case OptimizerKind::ftrl:
      return "ftrl";
    case OptimizerKind::rmsprop:
      return "rmsprop";
    case OptimizerKind::lion:
      return "lion";
    case OptimizerKind::partial_rowwise_adam:
      return "partial_rowwise_adam";
  }
  return "unknown";
}

Shape state_shape(OptimizerKind kind, Shape const& parameter, int state) {
  auto const kind_of_rows =
      state == 0 ? OptimizerKind::rowwise_adagrad : OptimizerKind::partial_rowwise_adam;
  return kind == kind_of_rows && parameter.rank() == 2 ? Shape{parameter[0]} : parameter;
}

void require_rule(char const* operation, OptimizerRule const& rule) {
  OptimizerKind const kind = rule.kind;
  require(kind >= OptimizerKind::sgd && kind <= OptimizerKind::partial_rowwise_adam,
          "{}: no optimizer kind has the number {}",
          operation,
          static_cast<int>(kind));
  require_finite(operation, "learning_rate", rule.learning_rate);
  require_fraction(operation, "beta1", rule.beta1);
  require_fraction(operation, "beta2", rule.beta2);
  require_finite(operation, "epsilon", rule.epsilon);
  require_finite(operation, "weight_decay", rule.weight_decay);
  require_clip_value(operation, rule.clip_value);
  require_finite(operation, "l1", rule.l1);
  require_finite(operation, "ftrl_beta", rule.ftrl_beta);
  require(rule.l1 == 0.0F || kind == OptimizerKind::ftrl,
          "{}: l1 of {} with the optimizer kind {}; only ftrl has an l1",
          operation,
          rule.l1,
          name_of(kind));
  OptimizerRule const defaults{.kind = kind, .learning_rate = 0.0F};
  auto const require_unused = [&](char const* name, float value, float unused, bool is_used) {
    require(is_used || value == unused,
            "{}: {} of {} with the optimizer kind {}, which has none",
            operation,
            name,
            value,
            name_of(kind));
  };
  bool const has_moments = dense_kind(kind) == OptimizerKind::adam ||
                           kind == OptimizerKind::adamw || kind == OptimizerKind::lamb ||
                           kind == OptimizerKind::lion;
  require_unused(
      "beta1", rule.beta1, defaults.beta1, has_moments || kind == OptimizerKind::momentum);
  require_unused(
      "beta2", rule.beta2, defaults.beta2, has_moments || kind == OptimizerKind::rmsprop);
  bool const divides_by_root =
      has_moments ? kind != OptimizerKind::lion
                  : kind == OptimizerKind::rmsprop || dense_kind(kind) == OptimizerKind::adagrad;
  require_unused("epsilon", rule.epsilon, defaults.epsilon, divides_by_root);
  require_unused("ftrl_beta", rule.ftrl_beta, defaults.ftrl_beta, kind == OptimizerKind::ftrl);
}

void require_group(char const* operation, ParameterGroup const& group) {
  require_finite(operation, "learning_rate of a group", group.learning_rate);
  if (group.weight_decay) {
    require_finite(operation, "weight_decay of a group", *group.weight_decay);
  }
  if (group.clip_value) {
    require_clip_value(operation, *group.clip_value);
  }
}

namespace detail {

kernels::GroupNumbers numbers_of(OptimizerRule const& rule, ParameterGroup const& group) noexcept {
  return {.rate = group.learning_rate,
          .weight_decay = group.weight_decay.value_or(rule.weight_decay),
          .clip_value = group.clip_value.value_or(rule.clip_value)};
}

namespace {

template <Element T>
[[nodiscard]] TensorOf<T> zeros(std::shared_ptr<DeviceState> const& device,
                                Shape const& shape,
                                std::source_location issued_at) {
  TensorOf<T> tensor(device, shape);
  msstream::detail::fill_any(tensor.any(), 0, issued_at);
  return tensor;
}

/// Throws std::invalid_argument unless the gradient fits the table.
void require_gradient(AnyTensor const& table, TableGradient const& gradient) {
  if (auto const* const own = std::get_if<RowGradients<AnyRuntime>>(&gradient)) {
    auto const& values = own->values.shape();
    require(table.shape().rank() == 2 && values.rank() == 2 && table.shape()[1] == values[1] &&
                own->ids.count() == values[0],
            "update_rows: table {}, row gradients {} for ids {}",
            table.shape(),
            values,
            own->ids.shape());
  } else {
    auto const& values = std::get<TablePart>(gradient).all->rows().values.shape();
    require(table.shape().rank() == 2 && values.rank() == 2 && table.shape()[1] <= values[1],
            "update_rows: table {}, row gradients of many tables {}",
            table.shape(),
            values);
  }
}

/// Returns the arguments of an optimizer's kernel for one table, and adds the table and its state
/// to `written`.
[[nodiscard]] kernels::RowUpdate row_update(OptimizerRule const& rule,
                                            TableUpdate const& update,
                                            Writes& written) {
  auto const& [table, gradient, state, group, rounding] = update;
  require_gradient(table, gradient);
  require_weights("update_rows", table.dtype());
  require_state("update_rows", rule.kind, state, table.shape());
  require_group("update_rows", group);
  written.add(table);
  add_state(state, written);
  auto const view = view_of(gradient);
  return {.table = table.data(),
          .dtype = table.dtype(),
          .numbers = numbers_of(rule, group),
          .width = table.shape()[1],
          .row_ids = view.ids,
          .row_count = view.end,
          .capacity = view.capacity,
          .gradients = view.values,
          .state0 = data_of(state.first),
          .state1 = data_of(state.second),
          .is_part = view.begin != nullptr,
          .first_row = -view.first_row,
          .stride = view.stride,
          .rounding = rounding};
}

/// Adds the tensors of the gradient to those that an operation reads, unless it has those of the
/// gradient before, because both are of the same many tables.
void add_gradient_once(TableGradient const& gradient, TablesGradient const*& before, Reads& read) {
  auto const* const part = std::get_if<TablePart>(&gradient);
  if (part == nullptr || part->all.get() != before) {
    add_gradient(gradient, read);
  }
  before = part == nullptr ? nullptr : part->all.get();
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
  auto const require_shape = [&](std::optional<Floats> const& tensor, int number) {
    require(!tensor || tensor->shape() == state_shape(kind, parameter, number),
            "{}: state {} for a parameter {}",
            operation,
            tensor ? tensor->shape() : Shape{},
            parameter);
  };
  require_shape(state.first, 0);
  require_shape(state.second, 1);
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
    state.second.emplace(zeros<float>(device, state_shape(kind, shape, 1), issued_at));
  }
  return state;
}

void update_dense(OptimizerRule const& rule,
                  StepCounter<AnyRuntime> const& step,
                  std::vector<DenseParameter<AnyRuntime>> const& parameters,
                  std::source_location issued_at) {
  update_dense(rule, step, parameters, {}, issued_at);
}

void update_dense(OptimizerRule const& rule,
                  StepCounter<AnyRuntime> const& step,
                  std::vector<DenseParameter<AnyRuntime>> const& parameters,
                  std::vector<std::shared_ptr<HalfCopy>> const& copies,
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
    require_group("update_dense", parameter.group);
    read.add(parameter.gradient);
    written.add(parameter.weight);
    add_state(parameter.state, written);
    updates.push_back({parameter.weight.data(),
                       parameter.gradient.data(),
                       data_of(parameter.state.first),
                       data_of(parameter.state.second),
                       parameter.weight.count(),
                       numbers_of(rule, parameter.group)});
    if (updates.size() <= copies.size() && copies[updates.size() - 1] != nullptr) {
      auto const& copy = copies[updates.size() - 1]->tensor();
      updates.back().copy_dtype = copy.dtype();
      updates.back().copy = copy.data();
      written.add(copy);
    }
  }
  CopyWrites copy_writes(copies);
  Workspace const workspace(parameters.front().weight.device(),
                            kernels::dense_workspace_bytes(rule.kind, updates));
  issue(
      "update_dense",
      read,
      workspace.with(written),
      [rule, counter = data_of(step), updates = std::move(updates), memory = workspace.data()](
          auto stream) { kernels::update_dense(stream, rule, counter, updates, memory); },
      {},
      issued_at);
  copy_writes.issued();
}

void update_rows(OptimizerRule const& rule,
                 StepCounter<AnyRuntime> const& step,
                 AnyTensor const& table,
                 RowGradients<AnyRuntime> const& gradients,
                 OptimizerState<AnyRuntime> const& state,
                 std::source_location issued_at) {
  update_rows(rule, step, std::vector<TableUpdate>{{table, gradients, state}}, issued_at);
}

void update_rows(OptimizerRule const& rule,
                 StepCounter<AnyRuntime> const& step,
                 std::vector<TableParameter<AnyRuntime>> const& tables,
                 std::source_location issued_at) {
  std::vector<TableUpdate> updates;
  updates.reserve(tables.size());
  for (auto const& [table, gradients, state, group] : tables) {
    updates.push_back({table, gradients, state, group});
  }
  update_rows(rule, step, updates, issued_at);
}

void update_rows(OptimizerRule const& rule,
                 StepCounter<AnyRuntime> const& step,
                 EmbeddingTables<AnyRuntime> const& tables,
                 std::vector<OptimizerState<AnyRuntime>> const& states,
                 TablesRowGradients<AnyRuntime> const& gradients,
                 std::source_location issued_at) {
  require(std::ssize(states) == tables.tables() &&
              gradients.table_starts.count() == tables.tables() + 1 &&
              gradients.rows.count() == gradients.values.shape()[0],
          "update_rows: {} tables, {} states, and row gradients {} for rows {} of {} tables",
          tables.tables(),
          states.size(),
          gradients.values.shape(),
          gradients.rows.shape(),
          gradients.table_starts.count() - 1);
  auto const all = std::make_shared<TablesGradient const>(gradients);
  std::vector<TableUpdate> updates;
  std::vector<std::pair<std::byte const*, std::byte const*>> elements;
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    auto const& table = weights_of(tables.table(t));
    auto const capacity = std::min(table.shape()[0], gradients.rows.count());
    updates.push_back({table,
                       TablePart{all, t, tables.first_row(t), capacity},
                       states[static_cast<std::size_t>(t)]});
    auto const* const data = static_cast<std::byte const*>(table.data());
    elements.emplace_back(
        data, data + static_cast<std::size_t>(table.shape().count()) * bytes_of(table.dtype()));
  }
  std::ranges::sort(elements);
  for (std::size_t i = 1; i < elements.size(); ++i) {
    require(elements[i].first >= elements[i - 1].second,
            "update_rows: two of the {} tables share elements, which would be updated twice",
            tables.tables());
  }
  update_rows(rule, step, updates, issued_at);
}

void update_rows(OptimizerRule const& rule,
                 StepCounter<AnyRuntime> const& step,
                 std::vector<TableUpdate> const& all_tables,
                 std::source_location issued_at) {
  require_rule("update_rows", rule);
  auto const tables = update_by_sums(rule, step, all_tables, issued_at);
  if (tables.empty()) {
    return;
  }
  std::vector<kernels::RowUpdate> updates;
  updates.reserve(tables.size());
  auto read = reads(step.tensor());
  Writes written;
  TablesGradient const* before = nullptr;
  for (auto const& update : tables) {
    updates.push_back(row_update(rule, update, written));
    add_gradient_once(update.gradient, before, read);
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

}  // namespace msstream::ops
