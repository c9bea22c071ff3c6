// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/kernels/optimizer.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/ops/optimizer_rule.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>

#include <cmath>
#include <cstdint>
#include <optional>
#include <source_location>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::ops::detail {
namespace {

void require_state(char const* operation,
                   OptimizerKind kind,
                   OptimizerState<AnyRuntime> const& state,
                   Shape const& parameter) {
  require(state.first.has_value() == (states_of(kind) >= 1) &&
              state.second.has_value() == (states_of(kind) >= 2),
          operation,
          ": state that is not of the rule's; make_state() makes it");
  for (auto const* const tensor : {&state.first, &state.second}) {
    require(!*tensor || (*tensor)->shape() == state_shape(kind, parameter),
            operation,
            ": state ",
            *tensor ? (*tensor)->shape() : Shape{},
            " for a parameter ",
            parameter);
  }
}

}  // namespace

OptimizerState<AnyRuntime> make_state(Device<AnyRuntime> const& device,
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
            "update_dense: weight ",
            parameter.weight.shape(),
            ", gradient ",
            parameter.gradient.shape());
    require_state("update_dense", dense_kind(rule.kind), parameter.state, parameter.weight.shape());
    kernels::DenseUpdate update{parameter.weight.data(),
                                parameter.gradient.data(),
                                nullptr,
                                nullptr,
                                parameter.weight.count()};
    read.add(parameter.gradient);
    written.add(parameter.weight);
    if (parameter.state.first) {
      update.state0 = parameter.state.first->data();
      written.add(*parameter.state.first);
    }
    if (parameter.state.second) {
      update.state1 = parameter.state.second->data();
      written.add(*parameter.state.second);
    }
    updates.push_back(update);
  }
  issue(
      "update_dense",
      read,
      written,
      [rule, counter = step.data(), updates = std::move(updates)](auto stream) {
        kernels::update_dense(stream, rule, counter, updates);
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
  msstream::detail::Uses<R, AccessMode::write> written;
  for (auto const& parameter : tables) {
    updates.push_back(std::visit(
        [&](auto const& table) {
          return row_update(rule, table, parameter.gradients, parameter.state, read, written);
        },
        parameter.table));
  }
  issue(
      "update_rows",
      read,
      written,
      [rule, counter = step.data(), updates = std::move(updates)](auto stream) {
        kernels::update_rows(stream, rule, counter, updates);
      },
      {},
      issued_at);
}

}  // namespace msstream::ops::detail
