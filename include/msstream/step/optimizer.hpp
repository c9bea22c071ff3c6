// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/optimizer.hpp>
#include <msstream/ops/optimizer_rule.hpp>
#include <msstream/step/by_memory.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/step/owned_parameters.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/trace/name_scope.hpp>

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
  /// Updates the tables whose gradients were computed on one group in one operation of that group,
  /// named `update_rows`. If false, each table has its own operation, `<name>/update_rows`. The
  /// results are the same.
  bool tables_together = false;
  /// Calls check() in the first step. For programs in which this optimizer has all parameters and
  /// tables, and in which the first step looks up all tables.
  bool check_first_step = false;
};

/// Updates parameters by the gradients of a tape: all dense parameters in one launch, and tables
/// row by row on the groups on which their gradients were computed. Not synchronised. Does not
/// block the host.
///
/// No element is updated twice in a step: a parameter or table that shares elements with another
/// one is rejected, and so is a second use of a name, because checkpoints identify parameters by
/// name. Two optimizers cannot update an element between two calls of backward() either, because
/// gradients of several backward() calls add up until the tape's clear().
template <Runtime R = DefaultRuntime>
class Optimizer {
 public:
  /// Throws std::invalid_argument for a rule that ops::require_rule() rejects.
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

  /// Adds a parameter whose elements are all updated in each step. Gradients of lookups in it count
  /// like those of other operations. Throws std::invalid_argument for a name that is in use, for a
  /// tensor that shares elements with an earlier one, and for a frozen tensor.
  void add(std::string name,
           Tensor<float, R> const& weight,
           std::source_location issued_at = std::source_location::current()) {
    require_new(name, weight);
    auto state = ops::make_state(device_, ops::dense_kind(rule_.kind), weight.shape(), issued_at);
    dense_.push_back({name, weight, std::move(state)});
    owned_->add({std::move(name), weight.shape(), detail::MemoryRange::of(weight), false});
  }
  /// Adds a table [rows, width] of floats of any precision with row-sparse gradients. Each step
  /// updates the rows that were looked up, in the table or in views of its rows. Throws
  /// std::invalid_argument in the cases in which add() does, and for other shapes.
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

  /// Applies one step with the tape's gradients. A table without gradients does not change.
  ///
  /// Throws std::logic_error, without any update, if dense parameters have no gradient (the message
  /// names all of them and says for each whether it is frozen, excluded or not used by the loss),
  /// if operations other than lookups contributed to a table's gradient, and if another optimizer
  /// has updated the same elements since the last backward(). After any other exception some
  /// parameters and their state may have been updated and others not: restart from a checkpoint.
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

  /// Checks, after backward(), that the step would update everything that the model trains. Throws
  /// std::logic_error with a list of parameters and tables without a gradient, of views of them
  /// whose lookups did not affect the loss, and of tables that were looked up but belong, wholly or
  /// in part, neither to this optimizer nor to `others`. The tape does not know which other tensors
  /// are parameters. Does not block the host.
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

  /// Passes to `visit` everything that a saved run needs besides the parameters. `visit(name,
  /// tensor)` receives float32 tensors, and the step counter as uint8; pass a reader or a writer of
  /// tensors, and call once.
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
  /// Tables that are updated in one operation.
  struct Bunch {
    std::shared_ptr<detail::StreamGroup> group;  ///< null for the caller's group
    std::vector<ops::TableParameter<R>> tables = {};
  };
  /// Returns an open scope of the group, or null if the group is null.
  static std::optional<detail::AnyStreamScope> scope_of(
      std::shared_ptr<detail::StreamGroup> const& group, std::source_location issued_at) {
    return group == nullptr ? std::nullopt
                            : std::optional<detail::AnyStreamScope>(
                                  std::in_place, group, StreamScopeOptions{}, issued_at);
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
  /// Appends a message for a view whose lookups did not affect the loss, although the parameter or
  /// table of which it is a part has a gradient.
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
  /// Throws std::logic_error if another optimizer has already applied the same gradients to
  /// elements of this one.
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
  /// Throws std::logic_error unless step() can update all parameters and tables.
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
  /// Updates the table, or adds it to the tables that are updated together on its group.
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
  /// All parameters and tables; shared with the tapes whose gradients were applied.
  std::shared_ptr<detail::OwnedParameters> owned_ = std::make_shared<detail::OwnedParameters>();
  bool checked_ = false;
};

}  // namespace msstream
