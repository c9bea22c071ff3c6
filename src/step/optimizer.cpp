// SPDX-License-Identifier: Apache-2.0
#include "step/cut_off.hpp"
#include "step/owned_parameters.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <stdexcept>

namespace msstream {
namespace {

using detail::AnyRuntime;
using detail::AnyTensor;
using detail::OwnedParameters;
using Range = detail::MemoryRange;
using Tape = GradientTape<AnyRuntime>;

/// Embedding tables that one operation updates together.
struct Bunch {
  std::shared_ptr<detail::StreamGroup> group;  ///< null for the caller's group
  std::vector<ops::TableParameter<AnyRuntime>> tables = {};
};

/// Opens a StreamScope of the group. Returns an empty optional if the group is null.
[[nodiscard]] std::optional<detail::AnyStreamScope> scope_of(
    std::shared_ptr<detail::StreamGroup> const& group, std::source_location issued_at) {
  return group == nullptr ? std::nullopt
                          : std::optional<detail::AnyStreamScope>(
                                std::in_place, group, StreamScopeOptions{}, issued_at);
}

void add_if_without_gradient(std::string& found,
                             char const* what,
                             std::string const& name,
                             AnyTensor const& tensor,
                             Tape const& tape) {
  if (!tape.has_gradient(tensor)) {
    found += fmt::format("\n  {} \"{}\" of shape {} has no gradient: {}",
                         what,
                         name,
                         tensor.shape(),
                         tape.why_no_gradient(tensor));
  }
}

void add_moved(std::string& found,
               OwnedParameters::Parameter const& mine,
               OwnedParameters::Parameter const& others) {
  found += fmt::format(
      "\n  {} \"{}\" of shape {} is in two optimizers: another one, which has it as \"{}\" of "
      "shape {}, has moved it since the last backward()",
      mine.is_table ? "table" : "parameter",
      mine.name,
      mine.shape,
      others.name,
      others.shape);
}

}  // namespace

class Optimizer<AnyRuntime>::State {
  struct Dense {
    std::string name;
    detail::Floats weight;
    ops::OptimizerState<AnyRuntime> state;
  };
  struct Table {
    std::string name;
    AnyTensor table;
    ops::OptimizerState<AnyRuntime> state;
  };

 public:
  State(detail::AnyDevice device,
        ops::OptimizerRule const& rule,
        OptimizerOptions const& options,
        std::source_location issued_at)
      : device_(std::move(device)),
        rule_((ops::require_rule("Optimizer", rule), rule)),
        options_(options),
        step_(device_.state(), issued_at) {}

  void add(std::string name, detail::Floats const& weight, std::source_location issued_at) {
    require_new(name, weight.any());
    auto state = ops::detail::make_state(
        device_.state(), ops::dense_kind(rule_.kind), weight.shape(), issued_at);
    dense_.push_back({name, weight, std::move(state)});
    owned_->add({std::move(name), weight.shape(), Range::of(weight.any()), false});
  }
  void add_table(std::string name, AnyTensor const& table, std::source_location issued_at) {
    require(table.shape().rank() == 2,
            "Optimizer: table \"{}\" of shape {}; expected [rows, width]: add() is for parameters "
            "that are not looked up",
            name,
            table.shape());
    require_new(name, table);
    auto state = ops::detail::make_state(device_.state(), rule_.kind, table.shape(), issued_at);
    tables_.push_back({name, table, std::move(state)});
    owned_->add({std::move(name), table.shape(), Range::of(table), true});
  }

  void add(Parameters<AnyRuntime> const& parameters, std::source_location issued_at) {
    using Kind = Parameters<AnyRuntime>::Kind;
    auto const for_each_new = [&](auto const& function) {
      parameters.for_each([&](std::string const& name, AnyTensor const& tensor, Kind kind) {
        if (kind != Kind::buffer && !tensor.immutable() && !owns(name, tensor)) {
          function(name, tensor, kind == Kind::table);
        }
      });
    };
    for_each_new([&](auto const& name, auto const& tensor, bool) { require_new(name, tensor); });
    for_each_new([&](auto const& name, auto const& tensor, bool is_table) {
      is_table ? add_table(name, tensor, issued_at)
               : add(name, detail::Floats(detail::OfKnownType(), tensor), issued_at);
    });
  }

  /// Calls check() at the first step, if the options request it.
  void check_first_step(Optimizer const& optimizer, Tape const& tape) {
    if (options_.check_first_step && !checked_) {
      optimizer.check(tape, {});
      checked_ = true;
    }
  }
  void step(Tape const& tape, std::source_location issued_at) {
    require_gradients(tape);
    require_moved_by_no_other(tape);
    std::vector<ops::DenseParameter<AnyRuntime>> parameters;
    parameters.reserve(dense_.size());
    for (auto const& parameter : dense_) {
      parameters.push_back(
          {parameter.weight, tape.gradient(parameter.weight, issued_at), parameter.state});
    }
    tape.note_step(owned_);
    step_.advance(rule_, issued_at);
    update_tables(tape, issued_at);
    ops::detail::update_dense(rule_, step_, parameters, issued_at);
  }

  /// Appends a message to `found` for each parameter and each table without a gradient.
  void add_without_gradient(std::string& found, Tape const& tape) const {
    for (auto const& parameter : dense_) {
      add_if_without_gradient(found, "parameter", parameter.name, parameter.weight.any(), tape);
    }
    for (auto const& table : tables_) {
      add_if_without_gradient(found, "table", table.name, table.table, tape);
    }
  }
  /// Appends a message to `found` for a view in which rows were looked up without effect on the
  /// loss, although its parameter or table has a gradient.
  void add_if_unreached_rows(std::string& found,
                             Range const& range,
                             Shape const& shape,
                             Tape const& tape) const {
    owned_->for_each_overlap(range, [&](auto const& owned) {
      if (tape.has_gradient(owned.elements)) {
        found += fmt::format(
            "\n  rows of \"{}\" of shape {} have no gradient: a view of shape {} was looked up, "
            "but {}",
            owned.name,
            owned.shape,
            shape,
            detail::kCutOff);
      }
    });
  }
  [[nodiscard]] OwnedParameters const& owned() const noexcept { return *owned_; }
  [[nodiscard]] ops::OptimizerRule const& rule() const noexcept { return rule_; }

  void visit(std::function<void(std::string const&, AnyTensor const&)> const& visit) const {
    visit("optimizer/step", step_.tensor().any());
    auto const visit_pair = [&](std::string const& name,
                                ops::OptimizerState<AnyRuntime> const& state) {
      if (state.first) {
        visit("optimizer/" + name + "/state0", state.first->any());
      }
      if (state.second) {
        visit("optimizer/" + name + "/state1", state.second->any());
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
  /// Returns whether the optimizer has the elements of a tensor, exactly, under this name.
  [[nodiscard]] bool owns(std::string const& name, AnyTensor const& tensor) const {
    bool is_owned = false;
    auto const elements = Range::of(tensor);
    owned_->for_each_overlap(elements, [&](auto const& owner) {
      is_owned = is_owned || (owner.name == name && owner.elements.begin == elements.begin &&
                              owner.elements.end == elements.end);
    });
    return is_owned;
  }
  void require_new(std::string const& name, AnyTensor const& tensor) const {
    owned_->for_each([&](auto const& owner) {
      require(owner.name != name, "Optimizer: two parameters named \"{}\"", name);
    });
    owned_->for_each_overlap(Range::of(tensor), [&](auto const& owner) {
      throw std::invalid_argument(
          fmt::format("Optimizer: \"{}\" of shape {} shares elements with \"{}\" of shape {}: a "
                      "step would move them twice",
                      name,
                      tensor.shape(),
                      owner.name,
                      owner.shape));
    });
    require(!tensor.immutable(),
            "Optimizer: \"{}\" of shape {} is frozen: no step may move it",
            name,
            tensor.shape());
  }
  /// Throws std::logic_error if another optimizer has already updated elements of this optimizer's
  /// parameters or tables with the gradients on the tape.
  void require_moved_by_no_other(Tape const& tape) const {
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
      throw std::logic_error(fmt::format(
          "Optimizer::step:{}\nThis step would move them twice by the same gradient. Add each to "
          "one optimizer only, or call clear() and backward() before each optimizer's step.",
          found));
    }
  }
  /// Throws std::logic_error if step() cannot update all parameters and tables, for example because
  /// a parameter has no gradient.
  void require_gradients(Tape const& tape) const {
    std::string missing;
    for (auto const& parameter : dense_) {
      add_if_without_gradient(missing, "parameter", parameter.name, parameter.weight.any(), tape);
    }
    if (!missing.empty()) {
      throw std::logic_error("Optimizer::step:" + missing);
    }
    for (auto const& table : tables_) {
      if (tape.has_dense_gradient(table.table)) {
        throw std::logic_error(fmt::format(
            "Optimizer::step: table \"{}\" of shape {} has a gradient of an operation that is no "
            "lookup, which moves all rows: add() takes such parameters, add_table() does not",
            table.name,
            table.table.shape()));
      }
      tape.require_row_gradients(table.table);
    }
  }

  void update_tables(Tape const& tape, std::source_location issued_at) {
    std::vector<Bunch> bunches;
    for (auto const& table : tables_) {
      update_table(table, tape, bunches, issued_at);
    }
    for (auto const& bunch : bunches) {
      auto const scope = scope_of(bunch.group, issued_at);
      ops::detail::update_rows(rule_, step_, bunch.tables, issued_at);
    }
  }
  /// Updates the table, or adds it to the tables that are to be updated together on its stream
  /// group.
  void update_table(Table const& table,
                    Tape const& tape,
                    std::vector<Bunch>& bunches,
                    std::source_location issued_at) {
    NameScope const named(table.name);
    auto const sum = tape.row_gradient_sum(table.table, issued_at);
    if (!sum) {
      return;
    }
    auto const& [gradients, group] = *sum;
    if (!options_.tables_together) {
      auto const scope = scope_of(group, issued_at);
      ops::detail::update_rows(rule_, step_, table.table, gradients, table.state, issued_at);
      return;
    }
    auto bunch = std::ranges::find(bunches, group, &Bunch::group);
    if (bunch == bunches.end()) {
      bunch = bunches.insert(bunch, {group});
    }
    bunch->tables.push_back({table.table, gradients, table.state});
  }

  detail::AnyDevice device_;
  ops::OptimizerRule rule_;
  OptimizerOptions options_;
  ops::StepCounter<AnyRuntime> step_;
  std::vector<Dense> dense_;
  std::vector<Table> tables_;
  /// The optimizer's parameters and tables. Shared with the tapes whose gradients were applied.
  std::shared_ptr<OwnedParameters> owned_ = std::make_shared<OwnedParameters>();
  bool checked_ = false;
};

Optimizer<AnyRuntime>::Optimizer(detail::AnyDevice const& device,
                                 ops::OptimizerRule const& rule,
                                 OptimizerOptions const& options,
                                 std::source_location issued_at)
    : state_(std::make_unique<State>(device, rule, options, issued_at)) {}

Optimizer<AnyRuntime>::~Optimizer() = default;

void Optimizer<AnyRuntime>::add(std::string name,
                                detail::Floats const& weight,
                                std::source_location issued_at) {
  state_->add(std::move(name), weight, issued_at);
}

void Optimizer<AnyRuntime>::add_table(std::string name,
                                      AnyTensor const& table,
                                      std::source_location issued_at) {
  state_->add_table(std::move(name), table, issued_at);
}

void Optimizer<AnyRuntime>::add(Parameters<AnyRuntime> const& parameters,
                                std::source_location issued_at) {
  state_->add(parameters, issued_at);
}

void Optimizer<AnyRuntime>::step(Tape const& tape, std::source_location issued_at) {
  state_->check_first_step(*this, tape);
  state_->step(tape, issued_at);
}

void Optimizer<AnyRuntime>::check(Tape const& tape,
                                  std::vector<Optimizer const*> const& others) const {
  std::string found;
  state_->add_without_gradient(found, tape);
  auto const add_if_not_owned = [&](Range const& range, Shape const& shape) {
    auto ranges = owned_ranges(range);
    for (auto const* const other : others) {
      std::ranges::copy(other->owned_ranges(range), std::back_inserter(ranges));
    }
    auto const owned = detail::bytes_of_union(std::move(ranges));
    if (owned < range.end - range.begin) {
      found += fmt::format("\n  a table of shape {} was looked up: no optimizer has {}",
                           shape,
                           owned == 0 ? "it" : "all of its rows");
    }
    return owned < range.end - range.begin;
  };
  tape.for_each_table(add_if_not_owned);
  tape.for_each_unreached_table([&](Range const& range, Shape const& shape) {
    state_->add_if_unreached_rows(found, range, shape, tape);
    if (add_if_not_owned(range, shape)) {
      found += fmt::format(", and it has no gradient: {}", detail::kCutOff);
    }
  });
  if (!found.empty()) {
    throw std::logic_error("what the optimizer does not train:" + found);
  }
}

std::vector<Range> Optimizer<AnyRuntime>::owned_ranges(Range const& range) const {
  std::vector<Range> ranges;
  state_->owned().for_each_overlap(
      range, [&](auto const& owner) { ranges.push_back(range.common(owner.elements)); });
  return ranges;
}

ops::OptimizerRule const& Optimizer<AnyRuntime>::rule() const noexcept {
  return state_->rule();
}

void Optimizer<AnyRuntime>::visit_state(
    std::function<void(std::string const&, AnyTensor const&)> const& visit) const {
  state_->visit(visit);
}

}  // namespace msstream
