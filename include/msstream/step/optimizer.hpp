// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/optimizer.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/step/by_memory.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/owned_parameters.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <source_location>
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
  /// The first step calls check(): for a program whose parameters and tables are all in this
  /// optimizer, and all of whose tables are looked up in the first step.
  bool check_first_step = false;
};

/// Moves parameters by the gradients of a tape: dense ones all in one launch, tables row by row on
/// the groups where their gradients were made. Not synchronised; the host does not block.
///
/// No element is moved twice in a step: parameters and tables that share some are refused, and so
/// is a second use of a name, by which checkpoints tell them apart. Nor do two optimizers move it
/// between two calls of backward(), which adds to the gradients until the tape's clear().
template <Runtime R = DefaultRuntime>
class Optimizer {
 public:
  /// Throws std::invalid_argument for a rule that ops::require_rule() refuses.
  Optimizer(Device<R> device,
            ops::OptimizerRule const& rule,
            OptimizerOptions const& options = {},
            std::source_location issued_at = std::source_location::current())
      : device_(std::move(device)),
        rule_((ops::require_rule("Optimizer", rule), rule)),
        options_(options),
        step_(device_, issued_at) {}
  Optimizer(Optimizer const&) = delete;
  Optimizer& operator=(Optimizer const&) = delete;

  /// A parameter of which each step moves every element. Lookups in it count as much as other
  /// operations. Throws std::invalid_argument for a name that the optimizer has, a tensor that
  /// shares elements with one that it has, and a frozen one.
  void add(std::string name,
           Tensor<float, R> const& weight,
           std::source_location issued_at = std::source_location::current()) {
    require_new(name, weight);
    auto state = ops::make_state(device_, ops::dense_kind(rule_.kind), weight.shape(), issued_at);
    dense_.push_back({name, weight, std::move(state)});
    owned_->add({std::move(name), weight.shape(), detail::MemoryRange::of(weight), false});
  }
  /// A table [rows, width] of floats of any precision, whose gradients are row-sparse: each step
  /// moves the rows that were looked up, in the table or in views of its rows. Throws
  /// std::invalid_argument as add(), and for other shapes.
  template <Element T>
  void add_table(std::string name,
                 Tensor<T, R> const& table,
                 std::source_location issued_at = std::source_location::current()) {
    require(table.shape().rank() == 2,
            "Optimizer: table \"",
            name,
            "\" of shape ",
            table.shape(),
            "; expected [rows, width]: add() is for parameters that are not looked up");
    require_new(name, table);
    auto state = ops::make_state(device_, rule_.kind, table.shape(), issued_at);
    tables_.push_back({name, table, std::move(state)});
    owned_->add({std::move(name), table.shape(), detail::MemoryRange::of(table), true});
  }

  /// One step with the tape's gradients; a table without any stays. Throws std::logic_error that
  /// names them all when dense parameters have no gradient, says whether they are frozen, excluded
  /// or not used by the loss, and throws it for a table of which the gradient is not, or not only,
  /// one of lookups, and for what another optimizer has moved since the last backward(); then
  /// nothing moved. After any other exception some parameters and their state may have moved and
  /// others not: start from a checkpoint.
  void step(GradientTape<R> const& tape,
            std::source_location issued_at = std::source_location::current()) {
    if (options_.check_first_step && !checked_) {
      check(tape);
      checked_ = true;
    }
    require_gradients(tape);
    require_moved_by_no_other(tape);
    std::vector<ops::DenseParameter<R>> parameters;
    parameters.reserve(dense_.size());
    for (auto const& parameter : dense_) {
      parameters.push_back(
          {parameter.weight, tape.gradient(parameter.weight, issued_at), parameter.state});
    }
    tape.note_step(owned_);
    step_.advance(rule_, issued_at);
    update_tables(tape, issued_at);
    ops::update_dense(rule_, step_, parameters, issued_at);
  }

  /// For after backward(): whether the step would move all that the model trains. Throws
  /// std::logic_error that lists the parameters and tables without a gradient, views of them that
  /// were looked up in vain, and the tables that were looked up, in vain or not, and that this
  /// optimizer and `others` do not have, or not whole. The tape does not know which other tensors
  /// are parameters. The host does not block.
  template <class... Others>
  void check(GradientTape<R> const& tape, Others const&... others) const {
    std::string found;
    for (auto const& parameter : dense_) {
      add_if_without_gradient(found, "parameter", parameter.name, parameter.weight, tape);
    }
    for (auto const& table : tables_) {
      std::visit(
          [&](auto const& weights) {
            add_if_without_gradient(found, "table", table.name, weights, tape);
          },
          table.table);
    }
    auto const add_if_not_owned = [&](detail::MemoryRange const& range, Shape const& shape) {
      auto ranges = owned_ranges(range);
      (std::ranges::copy(others.owned_ranges(range), std::back_inserter(ranges)), ...);
      auto const owned = detail::bytes_of_union(std::move(ranges));
      if (owned < range.end - range.begin) {
        found += text("\n  a table of shape ",
                      shape,
                      " was looked up: no optimizer has ",
                      owned == 0 ? "it" : "all of its rows");
      }
      return owned < range.end - range.begin;
    };
    tape.for_each_table(add_if_not_owned);
    tape.for_each_unreached_table([&](detail::MemoryRange const& range, Shape const& shape) {
      add_if_unreached_rows(found, range, shape, tape);
      if (add_if_not_owned(range, shape)) {
        found += text(", and it has no gradient: ", detail::kCutOff);
      }
    });
    if (!found.empty()) {
      throw std::logic_error("what the optimizer does not train:" + found);
    }
  }
  /// Returns the parts of the range that belong to parameters and tables of this optimizer.
  [[nodiscard]] std::vector<detail::MemoryRange> owned_ranges(
      detail::MemoryRange const& range) const {
    std::vector<detail::MemoryRange> ranges;
    owned_->for_each_overlap(
        range, [&](auto const& owner) { ranges.push_back(range.common(owner.elements)); });
    return ranges;
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
  /// A scope of the group, if there is one.
  static std::optional<StreamScope<R>> scope_of(std::shared_ptr<StreamGroup<R>> const& group,
                                                std::source_location issued_at) {
    return group == nullptr ? std::nullopt
                            : std::optional<StreamScope<R>>(
                                  std::in_place, *group, StreamScopeOptions{}, issued_at);
  }

  template <Element T>
  void require_new(std::string const& name, Tensor<T, R> const& tensor) const {
    owned_->for_each([&](auto const& owner) {
      require(owner.name != name, "Optimizer: two parameters named \"", name, "\"");
    });
    owned_->for_each_overlap(detail::MemoryRange::of(tensor), [&](auto const& owner) {
      throw std::invalid_argument(text("Optimizer: \"",
                                       name,
                                       "\" of shape ",
                                       tensor.shape(),
                                       " shares elements with \"",
                                       owner.name,
                                       "\" of shape ",
                                       owner.shape,
                                       ": a step would move them twice"));
    });
    require(!tensor.immutable(),
            "Optimizer: \"",
            name,
            "\" of shape ",
            tensor.shape(),
            " is frozen: no step may move it");
  }
  template <Element T>
  static void add_if_without_gradient(std::string& found,
                                      char const* what,
                                      std::string const& name,
                                      Tensor<T, R> const& tensor,
                                      GradientTape<R> const& tape) {
    if (!tape.has_gradient(tensor)) {
      found += text("\n  ",
                    what,
                    " \"",
                    name,
                    "\" of shape ",
                    tensor.shape(),
                    " has no gradient: ",
                    tape.why_no_gradient(tensor));
    }
  }
  /// For a view that was looked up in vain, of what has a gradient elsewhere.
  void add_if_unreached_rows(std::string& found,
                             detail::MemoryRange const& range,
                             Shape const& shape,
                             GradientTape<R> const& tape) const {
    owned_->for_each_overlap(range, [&](auto const& owned) {
      if (tape.has_gradient(owned.elements)) {
        found += text("\n  rows of \"",
                      owned.name,
                      "\" of shape ",
                      owned.shape,
                      " have no gradient: a view of shape ",
                      shape,
                      " was looked up, but ",
                      detail::kCutOff);
      }
    });
  }
  /// Throws for elements that another optimizer has moved by the gradients that this one would.
  void require_moved_by_no_other(GradientTape<R> const& tape) const {
    std::string found;
    for (auto const& other : tape.stepped()) {
      if (other != owned_) {
        owned_->for_each_shared(*other, [&](auto const& mine, auto const& others) {
          bool const move_all = !mine.is_table && !others.is_table;
          if (move_all || tape.has_gradient(mine.elements.common(others.elements))) {
            add_moved(found, mine, others);
          }
        });
      }
    }
    if (!found.empty()) {
      throw std::logic_error(text("Optimizer::step:",
                                  found,
                                  "\nThis step would move them twice by the same gradient. Add "
                                  "each to one optimizer only, or call clear() and backward() "
                                  "before each optimizer's step."));
    }
  }
  static void add_moved(std::string& found,
                        detail::OwnedParameters::Parameter const& mine,
                        detail::OwnedParameters::Parameter const& others) {
    found += text("\n  ",
                  mine.is_table ? "table" : "parameter",
                  " \"",
                  mine.name,
                  "\" of shape ",
                  mine.shape,
                  " is in two optimizers: another one, which has it as \"",
                  others.name,
                  "\" of shape ",
                  others.shape,
                  ", has moved it since the last backward()");
  }
  /// Throws unless step() can move all.
  void require_gradients(GradientTape<R> const& tape) const {
    std::string missing;
    for (auto const& parameter : dense_) {
      add_if_without_gradient(missing, "parameter", parameter.name, parameter.weight, tape);
    }
    if (!missing.empty()) {
      throw std::logic_error("Optimizer::step:" + missing);
    }
    for (auto const& table : tables_) {
      std::visit(
          [&](auto const& weights) {
            if (tape.has_dense_gradient(weights)) {
              throw std::logic_error(
                  text("Optimizer::step: table \"",
                       table.name,
                       "\" of shape ",
                       weights.shape(),
                       " has a gradient of an operation that is no lookup, which moves all rows: "
                       "add() takes such parameters, add_table() does not"));
            }
            tape.require_row_gradients(weights);
          },
          table.table);
    }
  }

  void update_tables(GradientTape<R> const& tape, std::source_location issued_at) {
    std::vector<Bunch> bunches;
    for (auto const& table : tables_) {
      std::visit(
          [&](auto const& weights) { update_table(table, weights, tape, bunches, issued_at); },
          table.table);
    }
    for (auto const& bunch : bunches) {
      auto const scope = scope_of(bunch.group, issued_at);
      ops::update_rows(rule_, step_, bunch.tables, issued_at);
    }
  }
  /// Moves the table, or adds it to the bunch of its group.
  template <Element T>
  void update_table(Table const& table,
                    Tensor<T, R> const& weights,
                    GradientTape<R> const& tape,
                    std::vector<Bunch>& bunches,
                    std::source_location issued_at) {
    NameScope const named(table.name);
    auto const sum = tape.row_gradient_sum(weights, issued_at);
    if (!sum) {
      return;
    }
    auto const& [gradients, group] = *sum;
    if (!options_.tables_together) {
      auto const scope = scope_of(group, issued_at);
      ops::update_rows(rule_, step_, weights, gradients, table.state, issued_at);
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
  /// All of them; shared with tapes by which they have moved.
  std::shared_ptr<detail::OwnedParameters> owned_ = std::make_shared<detail::OwnedParameters>();
  bool checked_ = false;
};

MSSTREAM_COMPILED_ONCE(class Optimizer<DefaultRuntime>);

}  // namespace msstream
