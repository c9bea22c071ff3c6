// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/name_pattern.hpp"
#include "ops/optimizer/dense_update.hpp"
#include "ops/optimizer/optimizer_state.hpp"
#include "ops/optimizer/table_update.hpp"
#include "step/lookup_gradient.hpp"
#include "step/optimizer/copy_of_parameter.hpp"
#include "step/optimizer/gradient_norm.hpp"
#include "step/optimizer/micro_batches.hpp"
#include "step/optimizer/optimizer_parts.hpp"
#include "step/optimizer/parameter_stores.hpp"
#include "step/optimizer/require_options.hpp"
#include "step/optimizer/saved_rule.hpp"
#include "step/optimizer/swapped_weights.hpp"
#include "step/optimizer/table_rounding.hpp"
#include "step/optimizer/update_rules.hpp"
#include "step/owned_parameters.hpp"
#include "step/tape_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream {

/// The state of an Optimizer: its rule, its parameters with their moments, and its step.
class Optimizer<detail::AnyRuntime>::State {
  using AnyRuntime = detail::AnyRuntime;
  using AnyTensor = detail::AnyTensor;
  using Bunch = detail::Bunch;
  using OwnedParameters = detail::OwnedParameters;
  using Range = detail::MemoryRange;
  using Tape = GradientTape<AnyRuntime>;

  struct Dense {
    std::string name;
    detail::Floats weight;
    ops::OptimizerState<AnyRuntime> state;
    ops::ParameterGroup group;
    bool may_lack_gradient;
    std::shared_ptr<ops::detail::HalfCopy> copy;  ///< or null
  };
  struct Table {
    std::string name;
    AnyTensor table;
    ops::OptimizerState<AnyRuntime> state;
    ops::ParameterGroup group;
    bool may_lack_gradient;
    bool is_own;  ///< whether no other rank has this part of the table
    ops::kernels::RowRounding rounding;
  };

 public:
  State(detail::AnyDevice device,
        ops::OptimizerRule const& rule,
        OptimizerOptions const& options,
        std::source_location issued_at)
      : device_(std::move(device)),
        options_((detail::require_options(options), options)),
        rules_(rule, options.table_rule),
        step_(device_.state(), options_.schedule, rules_.base_rate(), issued_at) {}

  void add(std::string name,
           detail::Floats const& weight,
           ops::ParameterGroup const& group,
           std::source_location issued_at) {
    require_new(name, weight.any(), group);
    auto state = ops::detail::make_state(
        device_.state(), ops::dense_kind(rules_.dense().kind), weight.shape(), issued_at);
    auto copy = detail::copy_of_parameter(options_, weight);
    dense_.push_back(
        {name, weight, std::move(state), group, may_lack_gradient(name), std::move(copy)});
    owned_->add({std::move(name), weight.shape(), Range::of(weight.any()), false});
  }
  void add_table(std::string name,
                 AnyTensor const& table,
                 ops::ParameterGroup const& group,
                 std::optional<detail::PartOfTable> const& part,
                 std::source_location issued_at) {
    require(table.shape().rank() == 2,
            "Optimizer: table \"{}\" of shape {}; expected [rows, width]: add() is for parameters "
            "that are not looked up",
            name,
            table.shape());
    require_new(name, table, group);
    auto state =
        ops::detail::make_state(device_.state(), rules_.tables().kind, table.shape(), issued_at);
    auto const rounding = detail::rounding_of_table(options_, name, part);
    tables_.push_back({name,
                       table,
                       std::move(state),
                       group,
                       may_lack_gradient(name),
                       part.has_value(),
                       rounding});
    owned_->add({std::move(name), table.shape(), Range::of(table), true});
  }

  void add(Parameters<AnyRuntime> const& parameters,
           std::optional<std::string> const& names,
           ops::ParameterGroup const& group,
           std::source_location issued_at) {
    using Kind = Parameters<AnyRuntime>::Kind;
    bool has_any = false;
    parameters.for_each([&](std::string const&, AnyTensor const&, Kind kind) {
      has_any = has_any || kind != Kind::buffer;
    });
    require(has_any,
            "Optimizer::add: the Parameters have no dense parameters and no tables; make the model "
            "first, and add its Parameters then");
    bool has_match = false;
    auto const for_each_new = [&](auto const& function) {
      parameters.for_each([&](std::string const& name, AnyTensor const& tensor, Kind kind) {
        if (kind == Kind::buffer || tensor.immutable() ||
            (names && !detail::matches_pattern(*names, name))) {
          return;
        }
        has_match = true;
        if (!owns(name, tensor)) {
          function(name, tensor, kind == Kind::table);
        } else {
          require(!names || group_of(name) == group,
                  "Optimizer::add: the optimizer has \"{}\" already, with other numbers than those "
                  "of the group of \"{}\"; add the parameters of a group first",
                  name,
                  *names);
        }
      });
    };
    for_each_new(
        [&](auto const& name, auto const& tensor, bool) { require_new(name, tensor, group); });
    require(has_match || !names,
            "Optimizer::add: \"{}\" matches the whole name of no parameter to be updated",
            names.value_or(""));
    for_each_new([&](auto const& name, auto const& tensor, bool is_table) {
      is_table ? add_table(name, tensor, group, std::nullopt, issued_at)
               : add(name, detail::Floats(detail::OfKnownType(), tensor), group, issued_at);
    });
    stores_.add(parameters, names, owned_);
    note_frozen();
  }

  /// Throws std::logic_error if a parameter that was frozen when its store was added is frozen no
  /// more, and the optimizer does not have it.
  void refuse_unfrozen() const {
    for (auto const& [name, tensor] : left_out_) {
      detail::refuse_unfrozen(name, tensor);
    }
  }

  /// Throws std::logic_error if a parameter or table has the values of its average.
  void refuse_swapped() const {
    for (auto const& parameter : dense_) {
      detail::SwappedWeights::refuse("Optimizer::step", parameter.name, parameter.weight.any());
    }
    for (auto const& table : tables_) {
      detail::SwappedWeights::refuse("Optimizer::step", table.name, table.table);
    }
  }
  /// Calls check() if the options request it for this step.
  void check_step(Optimizer const& optimizer, Tape const& tape) {
    if (options_.check_every_step || (options_.check_first_step && !checked_)) {
      optimizer.check(tape, {});
      checked_ = true;
    }
  }
  [[nodiscard]] bool checks_owners() const noexcept { return options_.check_owners; }
  [[nodiscard]] detail::MicroBatches& micro_batches() const noexcept { return *micro_batches_; }
  [[nodiscard]] detail::StreamContext const& device() const noexcept { return *device_.context(); }

  /// Updates by the mean of the gradients of so many micro-batches.
  void step(Tape const& tape, std::int64_t micro_batches, std::source_location issued_at) {
    require_gradients(tape);
    require_moved_by_no_other(tape);
    norm_.require_scaled(tape);
    std::vector<ops::DenseParameter<AnyRuntime>> parameters;
    std::vector<std::shared_ptr<ops::detail::HalfCopy>> copies;
    parameters.reserve(dense_.size());
    detail::JudgedGradients judged;
    for (auto const& parameter : dense_) {
      if (!parameter.weight.immutable() &&
          (!parameter.may_lack_gradient || tape.has_gradient(parameter.weight.any()))) {
        parameters.push_back({parameter.weight,
                              tape.gradient(parameter.weight, issued_at),
                              parameter.state,
                              parameter.group});
        if (options_.copies != Precision::fp32) {
          copies.push_back(parameter.copy);
        }
        if (norm_.is_used()) {
          judged.shared.push_back(
              {parameters.back().gradient, 1, clip_value_of(rules_.dense(), parameter.group)});
        }
      }
    }
    tape.note_step(owned_);
    auto const bunches = bunches_of(tape, judged, issued_at);
    {
      // With the norm of all gradients, the counter waits for them anyway.
      auto const scope = detail::scope_of(
          norm_.is_used() ? nullptr : detail::group_moved_at_once(bunches), issued_at);
      norm_.advance(step_, rules_.of_counter(), micro_batches, judged, issued_at);
    }
    for (auto const& bunch : bunches) {
      std::optional<NameScope> named;
      if (!options_.tables_together && bunch.shared == nullptr) {
        named.emplace(bunch.name);
      }
      auto const scope = detail::scope_of(bunch.group, issued_at);
      ops::detail::update_rows(rules_.tables(), step_, bunch.tables, issued_at);
    }
    ops::detail::update_dense(rules_.dense(), step_, parameters, copies, issued_at);
    micro_batches_->begin();
    if (auto* const searches = tape.state().searches.get()) {
      search_updates(*searches, issued_at);
    }
  }

  void set_learning_rate(float learning_rate, std::source_location issued_at) {
    require(learning_rate >= 0.0F && std::isfinite(learning_rate),
            "set_learning_rate: learning_rate of {}; expected a number in [0, infinity)",
            learning_rate);
    step_.set_rate(learning_rate, issued_at);
  }
  [[nodiscard]] Status status(std::source_location issued_at) const {
    auto const state = ops::detail::read_step(step_, issued_at);
    auto const next = state.base_rate < 0.0F ? rules_.base_rate() : state.base_rate;
    return {state.step, state.step == 0 ? next : state.rate, state.norm, state.skipped};
  }

  /// Appends a message to `found` for each parameter and each table without a gradient that is not
  /// frozen and may not lack one.
  void add_without_gradient(std::string& found, Tape const& tape) const {
    add_dense_without_gradient(found, tape);
    for (auto const& table : tables_) {
      if (!table.table.immutable() && !table.may_lack_gradient) {
        detail::add_if_without_gradient(found, "table", table.name, table.table, tape);
      }
    }
  }
  /// Returns whether the options name a parameter as one that may lack a gradient.
  [[nodiscard]] bool may_lack_gradient(std::string const& name) const {
    return std::ranges::any_of(options_.may_lack_gradient, [&](std::string const& names) {
      return detail::matches_pattern(names, name);
    });
  }
  /// Throws std::logic_error if a pattern of parameters that may lack a gradient matches nothing of
  /// what the optimizer and its stores have.
  void require_matches() const {
    if (!patterns_match_) {
      detail::require_matches(options_.may_lack_gradient, [&](auto const& visit) {
        owned_->for_each([&](auto const& parameter) { visit(parameter.name); });
        stores_.for_each([&](auto const& name, AnyTensor const&, bool) { visit(name); });
        std::ranges::for_each(elsewhere_, visit);
      });
      patterns_match_ = true;
    }
  }
  void note_elsewhere(std::string name) { elsewhere_.push_back(std::move(name)); }
  void count_updates(std::shared_ptr<std::int64_t> number) {
    update_counts_.push_back(std::move(number));
  }
  void note_update() const noexcept {
    for (auto const& number : update_counts_) {
      ++*number;
    }
  }
  [[nodiscard]] detail::ParameterStores const& stores() const noexcept { return stores_; }
  [[nodiscard]] OwnedParameters const& owned() const noexcept { return *owned_; }
  [[nodiscard]] ops::OptimizerRule const& rule() const noexcept { return rules_.stated(); }
  [[nodiscard]] detail::GradientNorm& norm() noexcept { return norm_; }
  [[nodiscard]] std::shared_ptr<detail::HostState> saved_rule() const {
    return std::make_shared<detail::SavedRule>(rules_.name(), micro_batches_);
  }
  [[nodiscard]] detail::SourceCheck check_of_list() const {
    return [owned = owned_, micro_batches = micro_batches_, count = owned_->count()](
               char const* call, bool saves) {
      owned->require_count(call, count);
      if (saves) {
        micro_batches->require_none(call);
      }
    };
  }

  void visit(std::function<void(std::string const&, AnyTensor const&)> const& visit) const {
    constexpr auto kEnd = static_cast<std::int64_t>(sizeof(ops::kernels::StepState));
    visit("optimizer/step", step_.tensor().any().rows(0, ops::kernels::kSavedStepBytes));
    visit(kSkipped, step_.tensor().any().rows(ops::kernels::kSavedStepBytes, kEnd));
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
    if (norm_.scale()) {
      visit("optimizer/loss_scale", norm_.scale()->state().any());
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
  /// Returns the group of a parameter or table that the optimizer has.
  [[nodiscard]] ops::ParameterGroup const& group_of(std::string const& name) const {
    auto const table = std::ranges::find(tables_, name, &Table::name);
    return table != tables_.end() ? table->group
                                  : std::ranges::find(dense_, name, &Dense::name)->group;
  }
  void require_new(std::string const& name,
                   AnyTensor const& tensor,
                   ops::ParameterGroup const& group) const {
    ops::require_group(fmt::format("Optimizer: \"{}\"", name).c_str(), group);
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
    require(tensor.device() == device_.state(),
            "Optimizer: \"{}\" of shape {} is on another device than the optimizer",
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
          bool const move_all = !mine.is_table && !others.is_table &&
                                tape.has_gradient(mine.elements) &&
                                tape.has_gradient(others.elements);
          if (move_all || tape.has_gradient(mine.elements.common(others.elements))) {
            detail::add_moved(found, mine, others);
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
  void add_dense_without_gradient(std::string& found, Tape const& tape) const {
    for (auto const& parameter : dense_) {
      if (!parameter.weight.immutable() && !parameter.may_lack_gradient) {
        detail::add_if_without_gradient(
            found, "parameter", parameter.name, parameter.weight.any(), tape);
      }
    }
  }
  /// Notes the parameters of the stores that add() left out because they are frozen.
  void note_frozen() {
    left_out_.clear();
    stores_.for_each([&](auto const& name, AnyTensor const& tensor, bool is_chosen) {
      if (tensor.immutable() && is_chosen && !owns(name, tensor)) {
        left_out_.emplace_back(name, tensor);
      }
    });
  }
  /// Throws std::logic_error if step() cannot update all parameters and tables, for example because
  /// a parameter has no gradient.
  void require_gradients(Tape const& tape) const {
    require_matches();
    std::string missing;
    add_dense_without_gradient(missing, tape);
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

  /// Searches all parameters and tables for NaN and infinity.
  void search_updates(detail::FiniteSearches& searches, std::source_location issued_at) const {
    auto const search = [&](std::string const& name, AnyTensor const& tensor) {
      searches.search_update(name, tensor, issued_at);
    };
    for (auto const& parameter : dense_) {
      search(parameter.name, parameter.weight.any());
    }
    for (auto const& table : tables_) {
      search(table.name, table.table);
    }
  }
  [[nodiscard]] static float clip_value_of(ops::OptimizerRule const& rule,
                                           ops::ParameterGroup const& group) noexcept {
    return ops::detail::numbers_of(rule, group).clip_value;
  }
  /// Returns the tables with a gradient, and their gradients, by the operations that update them.
  /// Adds the gradients to `judged`, in an order that does not depend on stream groups.
  [[nodiscard]] std::vector<Bunch> bunches_of(Tape const& tape,
                                              detail::JudgedGradients& judged,
                                              std::source_location issued_at) const {
    std::vector<Bunch> bunches;
    for (auto const& table : tables_) {
      if (table.table.immutable()) {
        continue;
      }
      NameScope const named(table.name);
      auto const sum = tape.lookup_gradient(table.table, issued_at);
      if (!sum) {
        continue;
      }
      auto const* const part = std::get_if<ops::detail::TablePart>(&sum->rows);
      void const* const shared =
          part != nullptr && !options_.tables_together ? part->all.get() : nullptr;
      auto bunch = bunches.end();
      if (options_.tables_together || shared != nullptr) {
        bunch = std::ranges::find_if(bunches, [&](Bunch const& other) {
          return other.group == sum->group && other.shared == shared;
        });
      }
      if (bunch == bunches.end()) {
        bunch = bunches.insert(bunch, {sum->group, table.name, {}, shared});
      }
      bunch->tables.push_back({table.table, sum->rows, table.state, table.group, table.rounding});
      if (norm_.is_used()) {
        (table.is_own ? judged.own : judged.shared)
            .push_back(
                {sum->rows, table.table.shape()[1], clip_value_of(rules_.tables(), table.group)});
      }
    }
    return bunches;
  }

  detail::AnyDevice device_;
  OptimizerOptions options_;
  detail::GradientNorm norm_{options_};
  detail::UpdateRules rules_;
  ops::StepCounter<AnyRuntime> step_;
  std::vector<Dense> dense_;
  std::vector<Table> tables_;
  detail::ParameterStores stores_;
  std::vector<std::pair<std::string, AnyTensor>> left_out_;  ///< those that were frozen at add()
  /// The optimizer's parameters and tables. Shared with the tapes whose gradients were applied.
  std::shared_ptr<OwnedParameters> owned_ = std::make_shared<OwnedParameters>();
  bool checked_ = false;
  std::vector<std::string> elsewhere_;  ///< the names of tables that are on other ranks
  std::vector<std::shared_ptr<std::int64_t>> update_counts_;
  bool mutable patterns_match_ = false;  ///< whether all patterns have matched before
  /// The micro-batches since the last update. Shared with the lists of checkpoints.
  std::shared_ptr<detail::MicroBatches> micro_batches_ =
      std::make_shared<detail::MicroBatches>(options_.micro_batches);
};

}  // namespace msstream
