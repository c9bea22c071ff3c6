// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/block.hpp>
#include <msstream/order/position_set.hpp>

#include <algorithm>

namespace msstream::memory {

/// Calls `visit(position)` for each use that the block's next owner must follow. The block is free.
template <Runtime R, class Visit>
void for_each_use(Block<R> const& block, Visit&& visit) {
  for (auto const& write : block.record.log.writes()) {
    visit(write);
  }
  for (auto const& read : block.record.log.reads()) {
    visit(read);
  }
}

/// Whether `holds(position)` is true for all of them.
template <Runtime R, class Predicate>
[[nodiscard]] bool all_uses(Block<R> const& block, Predicate&& holds) {
  bool all = true;
  for_each_use(block, [&](order::Position use) { all = all && holds(use); });
  return all;
}

/// Whether joining the two takes little from anybody: who may use the one without a wait may use
/// the other so, too, or else anybody could use the one that is not larger. `over(position)` tells
/// which uses nobody waits for.
template <Runtime R, class Over>
[[nodiscard]] bool is_joined_cheaply(Block<R> const& one, Block<R> const& other, Over&& over) {
  auto const uses_of = [&](Block<R> const& block) {
    order::PositionSet uses;
    for_each_use(block, [&](order::Position use) {
      if (!over(use)) {
        uses.add(use);
      }
    });
    return uses;
  };
  auto const has = [](order::PositionSet const& uses, order::StreamIndex stream) {
    return std::any_of(
        uses.begin(), uses.end(), [&](order::Position use) { return use.stream == stream; });
  };
  auto const first = uses_of(one);
  auto const second = uses_of(other);
  if (first.empty() != second.empty()) {
    return first.empty() ? one.bytes <= other.bytes : other.bytes <= one.bytes;
  }
  return first.size() == second.size() &&
         std::all_of(first.begin(), first.end(), [&](order::Position use) {
           return has(second, use.stream);
         });
}

}  // namespace msstream::memory
