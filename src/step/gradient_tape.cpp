// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/columns.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "ops/embedding_gradient/merged_gradients.hpp"
#include "step/engine_queries.hpp"
#include "step/gradient_scopes.hpp"
#include "step/tape_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>
#include <msstream/trace/detail/stack_range.hpp>
#include <msstream/trace/name_scope.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace msstream {
namespace detail {

void TapeState::record(std::string_view name,
                       AnyTensor output,
                       LookedUpTables looked_up,
                       PlayBack backward,
                       std::source_location issued_at) {
  auto const scope = current_scope(*device);
  auto const range = MemoryRange::of(output);
  if (recorded.find(range) == nullptr) {
    recorded.emplace(range, output.shape());
  }
  nodes.push_back({NameScope::qualify(name),
                   NameScope::kept(),
                   std::move(output),
                   scope.includes_grad ? scope.group() : nullptr,
                   std::move(looked_up),
                   std::move(backward),
                   issued_at,
                   std::exchange(recorded_reads, reads.size())});
  if (searches != nullptr) {
    auto const& node = nodes.back();
    searches->search_operation(nodes.size() - 1, node.name, node.output, issued_at);
  }
}

void TapeState::search_gradient(AnyTensor const& of,
                                AnyTensor const& gradient,
                                std::optional<TensorOf<std::int64_t>> const& row_count,
                                std::source_location issued_at) {
  if (searches != nullptr) {
    std::optional<FiniteSearches::PlayedBack> by;
    if (playing != nullptr) {
      by = {nodes.size(), playing->name, playing->issued_at};
    }
    searches->search_gradient(of, gradient, row_count, by, issued_at);
  }
}

void TapeState::keep_unreached(LookedUpTables looked_up) {
  auto const keep = [&](LookedUp one) {
    if (!recorded.overlaps(one.range) && unreached.find(one.range) == nullptr) {
      unreached.emplace(one.range, std::move(one.table));
    }
  };
  if (auto* const one = std::get_if<LookedUp>(&looked_up)) {
    keep(std::move(*one));
  } else if (auto const* const many = std::get_if<LookedUpMany>(&looked_up)) {
    for (std::int64_t t = 0; t < many->tables.tables(); ++t) {
      keep(looked_up_in(ops::detail::weights_of(many->tables.table(t))));
    }
  }
}

void TapeState::add_rows(AnyTensor const& table, ops::detail::TableGradient rows) {
  auto const range = MemoryRange::of(table);
  if (watch != nullptr) {
    watch->before_gradient(range);
  }
  auto* lookups = row_gradients.find(range);
  if (lookups == nullptr) {
    lookups = &row_gradients.emplace(range, {table.block(), {}});
  }
  lookups->value.push_back({table.shape(), {std::move(rows), current_scope(*device).group()}});
}

void TapeState::refuse_results_within(MemoryRange const& range, Shape const& shape) const {
  if (recorded.contains(range)) {
    return;
  }
  recorded.for_each_overlap(range, [&](auto const& result) {
    throw std::logic_error(fmt::format(
        "gradient for a tensor of shape {} of which a recorded result of shape {} is a part: put "
        "results together by a recorded operation, such as concat; Tensor::rows() needs no record",
        shape,
        result.value));
  });
}

}  // namespace detail

GradientTape<detail::AnyRuntime>::GradientTape(std::shared_ptr<detail::DeviceState> device)
    : state_(std::make_unique<detail::TapeState>(std::move(device))) {}

GradientTape<detail::AnyRuntime>::~GradientTape() = default;

void detail::AnyTape::note_input(detail::AnyTensor const& input) {
  if (!paused_) {
    state_->reads.push_back(detail::MemoryRange::of(input));
  }
  if (state_->searches != nullptr && !paused_) {
    state_->searches->note_input(input, state_->recorded.overlaps(detail::MemoryRange::of(input)));
  }
}

void detail::AnyTape::note_part(std::string_view name,
                                detail::AnyTensor const& part,
                                std::source_location issued_at) {
  if (state_->searches != nullptr && !paused_) {
    state_->searches->search_part(NameScope::qualify(name), part, issued_at);
  }
}

void detail::AnyTape::record(std::string_view name,
                             detail::Floats output,
                             Backward backward,
                             std::source_location issued_at) {
  if (!paused_) {
    state_->record(name, output.any(), {}, std::move(backward), issued_at);
  }
}

void detail::AnyTape::record_any(std::string_view name,
                                 detail::AnyTensor output,
                                 AnyBackward backward,
                                 std::source_location issued_at) {
  if (!paused_) {
    state_->record(name, std::move(output), {}, std::move(backward), issued_at);
  }
}

void detail::AnyTape::record_lookup(std::string_view name,
                                    detail::AnyTensor const& table,
                                    detail::Floats output,
                                    Backward backward,
                                    std::source_location issued_at) {
  if (!paused_) {
    state_->record(
        name, output.any(), detail::TapeState::looked_up_in(table), std::move(backward), issued_at);
  }
}

void detail::AnyTape::record_lookup(std::string_view name,
                                    detail::AnyTensor const& table,
                                    ops::Bags<detail::AnyRuntime> const& bags,
                                    ops::Pooling pooling,
                                    detail::Floats output,
                                    Backward backward,
                                    std::source_location issued_at) {
  if (!paused_) {
    auto looked_up = detail::TapeState::looked_up_in(table);
    looked_up.ids.emplace(detail::TapeState::LookedUpIds{bags, pooling});
    state_->record(name, output.any(), std::move(looked_up), std::move(backward), issued_at);
  }
}

void detail::AnyTape::record_lookup(std::string_view name,
                                    ops::EmbeddingTables<detail::AnyRuntime> const& tables,
                                    ops::TableBags<detail::AnyRuntime> const* bags,
                                    detail::AnyTensor output,
                                    AnyBackward backward,
                                    std::source_location issued_at) {
  if (!paused_) {
    detail::TapeState::LookedUpMany looked_up{tables, std::nullopt};
    if (bags != nullptr) {
      looked_up.bags = *bags;
    }
    state_->record(name, std::move(output), std::move(looked_up), std::move(backward), issued_at);
  }
}

void detail::AnyTape::without_gradient(detail::AnyTensor const& tensor) {
  auto const range = detail::MemoryRange::of(tensor);
  if (!paused_ && state_->excluded.find(range) == nullptr) {
    state_->excluded.emplace(range, tensor.block());
  }
}

bool detail::AnyTape::is_result(detail::AnyTensor const& tensor) const {
  return state_->is_result(tensor);
}

bool detail::AnyTape::wants_gradient(detail::AnyTensor const& tensor) const {
  return !tensor.immutable() && !state_->excluded.contains(detail::MemoryRange::of(tensor));
}

void detail::AnyTape::backward(detail::Floats const& loss, std::source_location issued_at) {
  auto& state = *state_;
  require(loss.count() == 1, "backward from a tensor of shape {}; expected a scalar", loss.shape());
  if (!state.recorded.contains(detail::MemoryRange::of(loss.any()))) {
    throw std::logic_error(
        "backward from a tensor that this tape did not record, or has dropped since, as an earlier "
        "backward() and clear() do");
  }
  if (state.is_reduced) {
    throw std::logic_error(
        "backward after a DataParallel has averaged the gradients of this tape; call clear()");
  }
  bool const is_first = state.backward_count == 0;
  auto const* const scale_before = std::exchange(state.loss_scale, nullptr);
  ++state.backward_count;
  state.stepped.clear();
  detail::GradientScopes scopes;
  {
    NameScope const names(scopes.of(nullptr));
    add_gradient(loss, state.seed.one(state.device, issued_at), issued_at);
  }
  while (!state.nodes.empty()) {
    auto node = std::move(state.nodes.back());
    state.nodes.pop_back();
    auto const range = detail::MemoryRange::of(node.output);
    // Removes the gradients of the operation's output and of views of the output. If the output is
    // itself a view of a larger tensor, the gradient of the larger tensor stays for the operation
    // that computed that tensor.
    state.gradients.take_within(range, state.taken);
    if (state.taken.empty()) {
      state.keep_unreached(std::move(node.looked_up));
    } else {
      std::optional<detail::AnyStreamScope> scope;
      if (node.group != nullptr) {
        scope.emplace(node.group, StreamScopeOptions{.include_grad = true}, node.issued_at);
      }
      NameScope const names(scopes.of(node.scope));
      detail::StackRange const stack_range(node.name.c_str());
      auto const gradient =
          detail::total_of(state.taken, range, node.issued_at).reshaped(node.output.shape());
      state.taken.clear();
      state.playing = &node;
      if (auto const* const of_floats = std::get_if<Backward>(&node.play_back)) {
        (*of_floats)(*this, detail::Floats(detail::OfKnownType(), gradient));
      } else {
        std::get<AnyBackward>(node.play_back)(*this, gradient);
      }
      state.playing = nullptr;
    }
    if (state.watch != nullptr) {
      state.watch->after_operation(state.nodes.size());
    }
  }
  state.has_mixed_scales |= !is_first && state.loss_scale != scale_before;
  state.reads.clear();
  state.recorded_reads = 0;
  state.unique_rows.clear();
  state.recorded.clear();
  if (state.searches != nullptr) {
    state.searches->forget_results();
  }
  state.draws.play_back();
}

void detail::AnyTape::add_gradient(detail::AnyTensor const& tensor,
                                   detail::AnyTensor gradient,
                                   std::source_location issued_at) {
  require(gradient.count() == tensor.count() && gradient.dtype() == tensor.dtype(),
          "gradient of {} and shape {} for a tensor of {} and shape {}",
          name_of(gradient.dtype()),
          gradient.shape(),
          name_of(tensor.dtype()),
          tensor.shape());
  if (!wants_gradient(tensor)) {
    return;
  }
  auto const range = detail::MemoryRange::of(tensor);
  state_->refuse_results_within(range, tensor.shape());
  if (state_->watch != nullptr) {
    state_->watch->before_gradient(range);
  }
  state_->search_gradient(tensor, gradient, {}, issued_at);
  if (auto* const found = state_->gradients.find(range)) {
    found->value.add(gradient, issued_at);
  } else {
    state_->gradients.emplace(
        range, {tensor.block(), detail::GradientSum(std::move(gradient), issued_at)});
  }
}

void detail::AnyTape::add_row_gradient(detail::AnyTensor const& table,
                                       ops::RowGradients<detail::AnyRuntime> gradient,
                                       std::source_location issued_at) {
  if (!wants_gradient(table)) {
    return;
  }
  if (state_->is_result(table)) {
    auto const dense = detail::dense_of(gradient, table.shape()[0], issued_at).any();
    add_gradient(table, ops::detail::cast(dense, table.dtype(), issued_at), issued_at);
  } else {
    state_->search_gradient(table, gradient.values.any(), gradient.count, issued_at);
    state_->add_rows(table, std::move(gradient));
  }
}

bool detail::AnyTape::take_pooled_gradient(detail::AnyTensor const& table,
                                           detail::Floats const& gradient) const {
  return state_->watch != nullptr &&
         state_->watch->takes_pooled(detail::MemoryRange::of(table), gradient);
}

bool detail::AnyTape::take_pooled_gradient(ops::EmbeddingTables<detail::AnyRuntime> const& tables,
                                           detail::AnyTensor const& gradient,
                                           std::source_location issued_at) const {
  if (state_->watch == nullptr || !state_->watch->wants_pooled(tables)) {
    return false;
  }
  auto const columns_before = gradient.shape()[1] - tables.width();
  auto const pooled =
      columns_before == 0
          ? gradient
          : ops::detail::copy_of_columns(gradient, columns_before, tables.width(), issued_at);
  return state_->watch->takes_pooled(
      tables,
      detail::Floats(detail::OfKnownType(), ops::detail::cast(pooled, DType::float32, issued_at)));
}

void detail::AnyTape::add_table_part(detail::AnyTensor const& table,
                                     ops::detail::TablePart gradient,
                                     std::source_location issued_at) {
  if (!wants_gradient(table)) {
    return;
  }
  // A search for NaN reads whole tensors, in which those of many tables have gaps.
  if (state_->searches != nullptr || state_->is_result(table)) {
    add_row_gradient(
        table, ops::detail::own_rows(gradient, table.shape()[1], issued_at), issued_at);
  } else {
    state_->add_rows(table, std::move(gradient));
  }
}

ops::UniqueRows<detail::AnyRuntime> const& detail::AnyTape::unique_rows(
    ops::Bags<detail::AnyRuntime> const& bags,
    std::int64_t rows,
    ops::Pooling pooling,
    std::source_location issued_at) {
  return state_->unique_rows.of(bags, rows, pooling, issued_at);
}

std::int64_t detail::AnyTape::backward_count() const noexcept {
  return state_->backward_count;
}

void detail::AnyTape::note_step(
    std::shared_ptr<detail::OwnedParameters const> const& parameters) const {
  auto& stepped = state_->stepped;
  if (std::ranges::find(stepped, parameters) == stepped.end()) {
    stepped.push_back(parameters);
  }
}

std::vector<std::shared_ptr<detail::OwnedParameters const>> const& detail::AnyTape::stepped()
    const noexcept {
  return state_->stepped;
}

void detail::AnyTape::clear() {
  state_->nodes.clear();
  state_->draws.drop();
  state_->reads.clear();
  state_->recorded_reads = 0;
  state_->is_reduced = false;
  state_->loss_scale = nullptr;
  state_->has_mixed_scales = false;
  state_->kept.reset();
  state_->gradients.clear();
  state_->taken.clear();
  state_->row_gradients.clear();
  state_->unique_rows.clear();
  state_->excluded.clear();
  state_->recorded.clear();
  state_->unreached.clear();
  state_->stepped.clear();
  state_->backward_count = 0;
  state_->playing = nullptr;
  if (state_->searches != nullptr) {
    state_->searches->begin_step();
  }
}

}  // namespace msstream
