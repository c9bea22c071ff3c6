// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "order/vector_clock.hpp"

#include <msstream/base/detail/inline_vector.hpp>
#include <msstream/order/position.hpp>

#include <cstddef>
#include <span>

namespace msstream::order {

/// Sorts `needed`, the positions that a stream must wait for, so that waiting in this order issues
/// the fewest waits if every wait that earlier waits cover is skipped. `brought[i]` is the vector
/// clock that the stream gets from a wait for needed[i]; a position that the clock of another one
/// covers moves behind it.
///
/// The order is optimal if each event was recorded right after its position. If two events were
/// recorded later and cover each other's positions, one of the two stays in front.
inline void put_uncovered_first(std::span<Position> needed, std::span<VectorClock const> brought) {
  detail::InlineVector<Position, 16> covered;
  detail::InlineVector<std::size_t, 16> uncovered;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    bool is_covered = false;
    for (std::size_t const kept : uncovered) {
      is_covered = is_covered || brought[kept].covers(needed[i]);
    }
    for (std::size_t later = i + 1; later < needed.size() && !is_covered; ++later) {
      is_covered = brought[later].covers(needed[i]);
    }
    if (is_covered) {
      covered.push_back(needed[i]);
    } else {
      uncovered.push_back(i);
    }
  }
  std::size_t place = 0;
  for (std::size_t const kept : uncovered) {
    needed[place++] = needed[kept];
  }
  for (auto const& position : covered) {
    needed[place++] = position;
  }
}

}  // namespace msstream::order
