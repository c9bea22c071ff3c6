// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/block.hpp>
#include <msstream/order/position.hpp>

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

/// See all_uses().
template <Runtime R, class Predicate>
[[gnu::noinline]] bool all_of_some_uses(Block<R> const& block, Predicate const& holds) {
  bool all = true;
  for_each_use(block, [&](order::Position use) { all = all && holds(use); });
  return all;
}
/// Whether `holds(position)` is true for all of them; often there are none.
template <Runtime R, class Predicate>
[[nodiscard]] bool all_uses(Block<R> const& block, Predicate const& holds) {
  return block.record.log.empty() || all_of_some_uses(block, holds);
}

/// Whether joining the two takes little from anybody: who may use the one without a wait may use
/// the other so, too, or else anybody could use the one that is not larger. `over(position)` tells
/// which uses nobody waits for.
template <Runtime R, class Over>
[[nodiscard]] bool is_joined_cheaply(Block<R> const& one, Block<R> const& other, Over&& over) {
  auto const is_used_by = [&](Block<R> const& block, auto&& is_stream) {
    return !all_uses(block,
                     [&](order::Position use) { return !is_stream(use.stream) || over(use); });
  };
  auto const anybody = [](order::StreamIndex) { return true; };
  bool const one_is_used = is_used_by(one, anybody);
  if (one_is_used != is_used_by(other, anybody)) {
    return one_is_used ? other.bytes <= one.bytes : one.bytes <= other.bytes;
  }
  if (!one_is_used) {
    return true;
  }
  auto const are_all_users_of = [&](Block<R> const& some, Block<R> const& others) {
    return all_uses(some, [&](order::Position use) {
      return over(use) ||
             is_used_by(others, [&](order::StreamIndex stream) { return stream == use.stream; });
    });
  };
  return are_all_users_of(one, other) && are_all_users_of(other, one);
}

}  // namespace msstream::memory
