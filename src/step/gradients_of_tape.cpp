// SPDX-License-Identifier: Apache-2.0
// Defines the functions of GradientTape that return gradients after backward().
#include "ops/embedding_gradient/merged_gradients.hpp"
#include "step/cut_off.hpp"
#include "step/engine_queries.hpp"
#include "step/tape_state.hpp"

#include <msstream/base/format.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream {
namespace detail {

std::vector<TapeState::LookupOfTable> TapeState::lookups_of(AnyTensor const& table) const {
  std::vector<LookupOfTable> lookups;
  auto const range = MemoryRange::of(table);
  row_gradients.for_each_overlap(range, [&](auto const& entry) {
    for (auto const& lookup : entry.value.value) {
      auto const& shape = lookup.table;
      auto const offset = static_cast<std::int64_t>(entry.range.begin - range.begin);
      auto const row_bytes = shape[1] * static_cast<std::int64_t>(bytes_of(table.dtype()));
      bool const is_whole = entry.range == range && shape == table.shape();
      if (!is_whole && (table.shape().rank() != 2 || shape[1] != table.shape()[1] ||
                        row_bytes == 0 || offset % row_bytes != 0)) {
        throw std::logic_error(
            fmt::format("lookups in a tensor of shape {} that shares elements with a table of "
                        "shape {}: expected rows of the table",
                        shape,
                        table.shape()));
      }
      lookups.push_back({&lookup.part, is_whole ? 0 : offset / row_bytes, is_whole});
    }
  });
  return lookups;
}

}  // namespace detail

detail::AnyTensor detail::AnyTape::gradient(detail::AnyTensor const& tensor,
                                            std::source_location issued_at) const {
  auto const range = detail::MemoryRange::of(tensor);
  detail::GradientTerms terms(range);
  state_->gradients.for_each_overlap(
      range, [&](auto const& entry) { terms.add(entry.range, entry.value.value.sum()); });
  state_->row_gradients.for_each_overlap(range, [&](auto const& entry) {
    for (auto const& lookup : entry.value.value) {
      auto const rows = ops::detail::own_rows(lookup.part.rows, lookup.table[1], issued_at);
      auto const dense = detail::dense_of(rows, lookup.table[0], issued_at).any();
      terms.add(entry.range, ops::detail::cast(dense, tensor.dtype(), issued_at));
    }
  });
  if (terms.empty()) {
    throw std::logic_error(fmt::format(
        "no gradient for a tensor of shape {}: {}", tensor.shape(), why_no_gradient(tensor)));
  }
  return terms.total(issued_at).reshaped(tensor.shape());
}

bool detail::AnyTape::has_gradient(detail::AnyTensor const& tensor) const {
  return has_gradient(detail::MemoryRange::of(tensor));
}

bool detail::AnyTape::has_gradient(detail::MemoryRange const& elements) const {
  return state_->gradients.overlaps(elements) || state_->row_gradients.overlaps(elements);
}

bool detail::AnyTape::has_dense_gradient(detail::AnyTensor const& tensor) const {
  return state_->gradients.overlaps(detail::MemoryRange::of(tensor));
}

std::string detail::AnyTape::why_no_gradient(detail::AnyTensor const& tensor) const {
  return tensor.immutable()            ? "it is frozen"
         : !wants_gradient(tensor)     ? "it is excluded by without_gradient()"
         : state_->backward_count == 0 ? "backward() was not called"
         : state_->unreached.overlaps(detail::MemoryRange::of(tensor))
             ? fmt::format("it was looked up, but {}", detail::kCutOff)
             : detail::kCutOff;
}

std::vector<detail::AnyTape::RowGradientPart> detail::AnyTape::row_gradients(
    detail::AnyTensor const& table, std::source_location issued_at) const {
  std::vector<RowGradientPart> parts;
  for (auto const& [part, first_row, is_whole] : state_->lookups_of(table)) {
    auto rows = is_whole ? ops::detail::own_rows(part->rows, table.shape()[1], issued_at)
                         : ops::detail::merged_gradients(
                               std::vector{part->rows}, table.shape(), {first_row}, issued_at);
    parts.push_back({std::move(rows), part->group});
  }
  return parts;
}

std::optional<detail::AnyTape::RowGradientPart> detail::AnyTape::row_gradient_sum(
    detail::AnyTensor const& table, std::source_location issued_at) const {
  auto sum = lookup_gradient(table, issued_at);
  if (!sum) {
    return std::nullopt;
  }
  std::optional<detail::AnyStreamScope> scope;
  if (sum->group != nullptr) {
    scope.emplace(sum->group, StreamScopeOptions{}, issued_at);
  }
  return RowGradientPart{ops::detail::own_rows(sum->rows, table.shape()[1], issued_at),
                         std::move(sum->group)};
}

std::optional<detail::LookupGradient> detail::AnyTape::lookup_gradient(
    detail::AnyTensor const& table, std::source_location issued_at) const {
  auto const lookups = state_->lookups_of(table);
  if (lookups.empty()) {
    return std::nullopt;
  }
  auto const& group = lookups.front().part->group;
  if (lookups.size() == 1 && lookups.front().is_whole) {
    return *lookups.front().part;
  }
  std::vector<ops::detail::TableGradient> rows;
  std::vector<std::int64_t> first_rows;
  for (auto const& lookup : lookups) {
    rows.push_back(lookup.part->rows);
    first_rows.push_back(lookup.first_row);
  }
  std::optional<detail::AnyStreamScope> scope;
  if (group != nullptr) {
    scope.emplace(group, StreamScopeOptions{}, issued_at);
  }
  return detail::LookupGradient{
      ops::detail::merged_gradients(rows, table.shape(), first_rows, issued_at), group};
}

void detail::AnyTape::require_row_gradients(detail::AnyTensor const& table) const {
  (void)state_->lookups_of(table);
}

void detail::AnyTape::for_each_table(
    std::function<void(detail::MemoryRange const&, Shape const&)> const& function) const {
  state_->row_gradients.for_each(
      [&](auto const& entry) { function(entry.range, entry.value.value.front().table); });
}

void detail::AnyTape::for_each_dense(
    std::function<void(detail::MemoryRange const&, Shape const&)> const& function) const {
  state_->gradients.for_each(
      [&](auto const& entry) { function(entry.range, entry.value.value.shape()); });
}

void detail::AnyTape::for_each_unreached_table(
    std::function<void(detail::MemoryRange const&, Shape const&)> const& function) const {
  state_->unreached.for_each([&](auto const& entry) {
    if (!detail::is_immutable(entry.value.memory) && !state_->excluded.contains(entry.range) &&
        !has_gradient(entry.range)) {
      function(entry.range, entry.value.value);
    }
  });
}

}  // namespace msstream
