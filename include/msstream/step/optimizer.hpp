// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/optimizer.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace msstream {

struct OptimizerOptions {
  /// The tables whose gradients were made on one group move in one operation of that group, which
  /// is `update_rows`; else each table has its own, `<name>/update_rows`. The results are the same.
  bool tables_together = false;
};

/// Moves parameters by the gradients of a tape: dense ones all in one launch, tables row by row on
/// the groups where their gradients were made. Not synchronised; the host does not block.
template <Runtime R = DefaultRuntime>
class Optimizer {
 public:
  Optimizer(Device<R> device, ops::OptimizerRule const& rule, OptimizerOptions const& options = {})
      : device_(std::move(device)), rule_(rule), options_(options), step_(device_) {}
  Optimizer(Optimizer const&) = delete;
  Optimizer& operator=(Optimizer const&) = delete;

  void add(std::string name, Tensor<float, R> const& weight) {
    auto state = ops::make_state(device_, ops::dense_kind(rule_.kind), weight.shape());
    dense_.push_back({std::move(name), weight, std::move(state)});
  }
  /// A table [rows, width] of floats of any precision, whose gradients are row-sparse.
  template <Element T>
  void add_table(std::string name, Tensor<T, R> const& table) {
    auto state = ops::make_state(device_, rule_.kind, table.shape());
    tables_.push_back({std::move(name), table, std::move(state)});
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
    update_tables(tape);
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
    ops::AnyTable<R> table;
    ops::OptimizerState<R> state;
  };
  /// Tables that move in one operation.
  struct Bunch {
    std::shared_ptr<StreamGroup<R>> group;  ///< null: that of the caller
    std::vector<ops::TableParameter<R>> tables = {};
  };
  using Parts = std::vector<typename GradientTape<R>::RowGradientPart>;

  /// A scope of the group, if there is one.
  static std::optional<StreamScope<R>> scope_of(std::shared_ptr<StreamGroup<R>> const& group) {
    return group == nullptr ? std::nullopt : std::optional<StreamScope<R>>(std::in_place, *group);
  }

  static ops::RowGradients<R> sum_of(Parts const& parts, std::int64_t table_rows) {
    if (parts.size() == 1) {
      return parts.front().rows;
    }
    std::vector<ops::RowGradients<R>> rows;
    rows.reserve(parts.size());
    for (auto const& part : parts) {
      rows.push_back(part.rows);
    }
    return ops::merge_row_gradients(rows, table_rows);
  }

  void update_tables(GradientTape<R> const& tape) {
    std::vector<Bunch> bunches;
    for (auto const& table : tables_) {
      std::visit([&](auto const& weights) { update_table(table, weights, tape, bunches); },
                 table.table);
    }
    for (auto const& bunch : bunches) {
      auto const scope = scope_of(bunch.group);
      ops::update_rows(rule_, step_, bunch.tables);
    }
  }
  /// Moves the table, or adds it to the bunch of its group.
  template <Element T>
  void update_table(Table const& table,
                    Tensor<T, R> const& weights,
                    GradientTape<R> const& tape,
                    std::vector<Bunch>& bunches) {
    auto const& parts = tape.row_gradients(weights);
    if (parts.empty()) {
      return;
    }
    auto const& group = parts.front().group;
    auto const scope = scope_of(group);
    NameScope const named(table.name);
    auto const gradients = sum_of(parts, weights.shape()[0]);
    if (!options_.tables_together) {
      ops::update_rows(rule_, step_, weights, gradients, table.state);
      return;
    }
    auto bunch = std::ranges::find(bunches, group, &Bunch::group);
    if (bunch == bunches.end()) {
      bunch = bunches.insert(bunch, {group});
    }
    bunch->tables.push_back({weights, gradients, table.state});
  }

  Device<R> device_;
  ops::OptimizerRule rule_;
  OptimizerOptions options_;
  ops::StepCounter<R> step_;
  std::vector<Dense> dense_;
  std::vector<Table> tables_;
};

}  // namespace msstream
