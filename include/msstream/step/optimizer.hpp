// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/optimizer.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream {

/// Moves parameters by the gradients of a tape: dense ones all in one launch, tables row by row on
/// the groups where their gradients were made. Not synchronised; the host does not block.
template <Runtime R = DefaultRuntime>
class Optimizer {
 public:
  Optimizer(Device<R> device, ops::OptimizerRule const& rule)
      : device_(std::move(device)), rule_(rule), step_(device_) {}
  Optimizer(Optimizer const&) = delete;
  Optimizer& operator=(Optimizer const&) = delete;

  void add(std::string name, Tensor<float, R> const& weight) {
    auto state = ops::make_state(device_, rule_.kind, weight.shape());
    dense_.push_back({std::move(name), weight, std::move(state)});
  }
  /// A table [rows, width] whose gradients are row-sparse.
  template <Element T>
  void add_table(std::string name, Tensor<T, R> const& table) {
    auto state = ops::make_state(device_, rule_.kind, table.shape());
    tables_.push_back({name, state, [this, name, table, state](GradientTape<R> const& tape) {
                         update_table(name, table, state, tape);
                       }});
  }

  /// One step with the tape's gradients; a table without any stays. Throws std::logic_error when a
  /// dense parameter has none; then nothing moved. After any other exception some parameters and
  /// their state may have moved and others not: start from a checkpoint.
  void step(GradientTape<R> const& tape) {
    std::vector<ops::DenseParameter<R>> parameters;
    parameters.reserve(dense_.size());
    for (auto const& parameter : dense_) {
      parameters.push_back({parameter.weight, tape.gradient(parameter.weight), parameter.state});
    }
    step_.advance(rule_);
    for (auto const& table : tables_) {
      table.update(tape);
    }
    ops::update_dense(rule_, step_, parameters);
  }

  [[nodiscard]] ops::OptimizerRule const& rule() const noexcept { return rule_; }

  /// Everything beyond the parameters that a saved run needs, by name: call once with a reader or a
  /// writer of tensors. `visit(name, tensor)` gets float32 tensors, and the step counter as uint8.
  template <class Visit>
  void visit_state(Visit&& visit) const {
    visit("optimizer/step", step_.tensor());
    auto const visit_pair = [&](std::string const& name, ops::OptimizerState<R> const& state) {
      if (state.first) {
        visit("optimizer/" + name + "/state0", *state.first);
      }
      if (state.second) {
        visit("optimizer/" + name + "/state1", *state.second);
      }
    };
    for (auto const& parameter : dense_) {
      visit_pair(parameter.name, parameter.state);
    }
    for (auto const& table : tables_) {
      visit_pair(table.name, table.state);
    }
  }

 private:
  struct Dense {
    std::string name;
    Tensor<float, R> weight;
    ops::OptimizerState<R> state;
  };
  struct Table {
    std::string name;
    ops::OptimizerState<R> state;
    std::function<void(GradientTape<R> const&)> update;
  };

  template <Element T>
  void update_table(std::string const& name,
                    Tensor<T, R> const& table,
                    ops::OptimizerState<R> const& state,
                    GradientTape<R> const& tape) {
    auto const& parts = tape.row_gradients(table);
    if (parts.empty()) {
      return;
    }
    std::optional<StreamScope<R>> scope;
    if (parts.front().group != nullptr) {
      scope.emplace(*parts.front().group);
    }
    NameScope const named(name);
    if (parts.size() == 1) {
      ops::update_rows(rule_, step_, table, parts.front().rows, state);
    } else {
      std::vector<ops::RowGradients<R>> rows;
      rows.reserve(parts.size());
      for (auto const& part : parts) {
        rows.push_back(part.rows);
      }
      ops::update_rows(
          rule_, step_, table, ops::merge_row_gradients(rows, table.shape()[0]), state);
    }
  }

  Device<R> device_;
  ops::OptimizerRule rule_;
  ops::StepCounter<R> step_;
  std::vector<Dense> dense_;
  std::vector<Table> tables_;
};

}  // namespace msstream
