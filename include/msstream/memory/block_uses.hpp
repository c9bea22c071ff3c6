// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/block.hpp>

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

}  // namespace msstream::memory
