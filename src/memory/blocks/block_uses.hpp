// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/block.hpp"

#include <msstream/order/position.hpp>

namespace msstream::memory {

/// Calls `visit(position)` for each use that the next owner of a free block must follow.
template <class Visit>
void for_each_use(Block const& block, Visit&& visit) {
  for (auto const& write : block.record.log.writes()) {
    visit(write);
  }
  for (auto const& read : block.record.log.reads()) {
    visit(read);
  }
}

/// Implements all_uses() for a block that has uses.
template <class Predicate>
[[gnu::noinline]] bool all_of_some_uses(Block const& block, Predicate const& holds) {
  bool all = true;
  for_each_use(block, [&](order::Position use) { all = all && holds(use); });
  return all;
}
/// Returns whether `holds(position)` is true for all uses of the block; often there are none.
template <class Predicate>
[[nodiscard]] bool all_uses(Block const& block, Predicate const& holds) {
  return block.record.log.empty() || all_of_some_uses(block, holds);
}

/// Returns whether joining two free blocks makes hardly any stream wait: either the uses of both
/// blocks make the same streams wait, or one block, not the larger one, can be used by every stream
/// without a wait. `over(position)` returns whether a use needs no wait.
template <class Over>
[[nodiscard]] bool is_joined_cheaply(Block const& one, Block const& other, Over&& over) {
  auto const is_used_by = [&](Block const& block, auto&& is_stream) {
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
  auto const are_all_users_of = [&](Block const& some, Block const& others) {
    return all_uses(some, [&](order::Position use) {
      return over(use) ||
             is_used_by(others, [&](order::StreamIndex stream) { return stream == use.stream; });
    });
  };
  return are_all_users_of(one, other) && are_all_users_of(other, one);
}

}  // namespace msstream::memory
