// SPDX-License-Identifier: Apache-2.0
#include "step/optimizer/state.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

namespace msstream {

using detail::AnyRuntime;
using detail::AnyTensor;
using Range = detail::MemoryRange;
using Tape = GradientTape<AnyRuntime>;

Optimizer<AnyRuntime>::Optimizer(detail::AnyDevice const& device,
                                 ops::OptimizerRule const& rule,
                                 OptimizerOptions const& options,
                                 std::source_location issued_at)
    : state_(std::make_unique<State>(device, rule, options, issued_at)) {}

Optimizer<AnyRuntime>::~Optimizer() = default;

void Optimizer<AnyRuntime>::add(std::string name,
                                detail::Floats const& weight,
                                ops::ParameterGroup const& group,
                                std::source_location issued_at) {
  state_->add(std::move(name), weight, group, issued_at);
}

void Optimizer<AnyRuntime>::add_table(std::string name,
                                      AnyTensor const& table,
                                      ops::ParameterGroup const& group,
                                      std::source_location issued_at) {
  state_->add_table(std::move(name), table, group, std::nullopt, issued_at);
}

void Optimizer<AnyRuntime>::add(Parameters<AnyRuntime> const& parameters,
                                std::optional<std::string> const& names,
                                ops::ParameterGroup const& group,
                                std::source_location issued_at) {
  state_->add(parameters, names, group, issued_at);
}

bool Optimizer<AnyRuntime>::step(Tape const& tape, std::source_location issued_at) {
  state_->refuse_swapped();
  state_->refuse_unfrozen();
  auto& micro_batches = state_->micro_batches();
  if (!micro_batches.is_last(tape, state_->device())) {
    micro_batches.count_one(state_->device());
    return false;
  }
  state_->check_step(*this, tape);
  state_->step(tape, micro_batches.per_update(), issued_at);
  state_->note_update();
  return true;
}

bool Optimizer<AnyRuntime>::apply_micro_batches(Tape const& tape, std::source_location issued_at) {
  state_->refuse_swapped();
  state_->refuse_unfrozen();
  auto const pending = state_->micro_batches().pending_of(tape, state_->device());
  if (pending == 0) {
    return false;
  }
  state_->check_step(*this, tape);
  state_->step(tape, pending, issued_at);
  state_->note_update();
  return true;
}

void Optimizer<AnyRuntime>::discard_micro_batches() noexcept {
  state_->micro_batches().begin();
}

void Optimizer<AnyRuntime>::set_learning_rate(float learning_rate, std::source_location issued_at) {
  state_->set_learning_rate(learning_rate, issued_at);
}

Optimizer<AnyRuntime>::Status Optimizer<AnyRuntime>::status(std::source_location issued_at) const {
  return state_->status(issued_at);
}

void Optimizer<AnyRuntime>::check(Tape const& tape,
                                  std::vector<Optimizer const*> const& others) const {
  state_->require_matches();
  std::string found;
  state_->add_without_gradient(found, tape);
  auto const bytes_owned = [&](Range const& range) {
    std::vector<Range> ranges;
    auto const add = [&](detail::OwnedParameters const& owned) {
      owned.for_each_overlap(
          range, [&](auto const& owner) { ranges.push_back(range.common(owner.elements)); });
    };
    add(state_->owned());
    for (auto const* const other : others) {
      add(other->state_->owned());
    }
    state_->stores().for_each_optimizer(add);
    return detail::bytes_of_union(std::move(ranges));
  };
  auto const untrained =
      state_->stores().untrained([&](std::string const& name, AnyTensor const& tensor) {
        auto const elements = Range::of(tensor);
        return bytes_owned(elements) == elements.end - elements.begin ||
               (state_->may_lack_gradient(name) && !tape.has_gradient(tensor));
      });
  for (auto const& parameter : untrained) {
    found += parameter.message(tape);
  }
  if (state_->checks_owners()) {
    tape.for_each_dense([&](Range const& range, Shape const& shape) {
      auto const owned = bytes_owned(range);
      if (owned != range.end - range.begin &&
          std::ranges::none_of(untrained,
                               [&](auto const& named) { return named.elements == range; })) {
        found += fmt::format(
            "\n  a tensor of shape {} has a gradient, and no optimizer has {}: make it a "
            "parameter, or, if it is data, exclude it by the tape's without_gradient()",
            shape,
            owned == 0 ? "it" : "all of its elements");
      }
    });
  }
  auto const add_if_not_owned = [&](Range const& range, Shape const& shape) {
    auto const owned = bytes_owned(range);
    if (owned == range.end - range.begin || std::ranges::any_of(untrained, [&](auto const& named) {
          return named.elements == range;
        })) {
      return false;
    }
    found += fmt::format("\n  a table of shape {} was looked up: no optimizer has {}",
                         shape,
                         owned == 0 ? "it" : "all of its rows");
    return true;
  };
  tape.for_each_table(add_if_not_owned);
  tape.for_each_unreached_table([&](Range const& range, Shape const& shape) {
    detail::add_if_unreached_rows(found, state_->owned(), range, shape, tape);
    if (add_if_not_owned(range, shape)) {
      found += fmt::format(", and it has no gradient: {}", detail::kCutOff);
    }
  });
  if (!found.empty()) {
    throw std::logic_error("what the optimizer does not train:" + found);
  }
}

ops::OptimizerRule const& Optimizer<AnyRuntime>::rule() const noexcept {
  return state_->rule();
}

void Optimizer<AnyRuntime>::note_elsewhere(std::string name) {
  state_->note_elsewhere(std::move(name));
}

void Optimizer<AnyRuntime>::add_part(std::string name,
                                     AnyTensor const& part,
                                     std::int64_t first_row,
                                     std::int64_t first_column,
                                     ops::ParameterGroup const& group,
                                     std::source_location issued_at) {
  state_->add_table(
      std::move(name), part, group, detail::PartOfTable{first_row, first_column}, issued_at);
}

void Optimizer<AnyRuntime>::count_updates(std::shared_ptr<std::int64_t> number) {
  state_->count_updates(std::move(number));
}

void Optimizer<AnyRuntime>::add_ranks(comm::detail::AnyCommunicator const& communicator) {
  state_->norm().add_ranks(communicator);
}

std::shared_ptr<detail::HostState> Optimizer<AnyRuntime>::saved_rule() const {
  return state_->saved_rule();
}

detail::SourceCheck Optimizer<AnyRuntime>::check_of_list() const {
  return state_->check_of_list();
}

void Optimizer<AnyRuntime>::visit_state(
    std::function<void(std::string const&, AnyTensor const&)> const& visit) const {
  state_->visit(visit);
}

}  // namespace msstream
