// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/inline_vector.hpp>
#include <msstream/order/position.hpp>
#include <msstream/order/vector_clock.hpp>

#include <cstddef>
#include <span>

namespace msstream::order {

/// Orders `needed` so that waiting front to back, and skipping what the waits so far already cover,
/// issues the fewest waits: a position that another one's clock covers comes after it.
///
/// `brought[i]` is the clock that waiting for needed[i] brings. Two late events may cover each
/// other's positions; then one of the two stays in front. Returns how many positions stand in
/// front, that is, are covered by no other.
inline std::size_t put_uncovered_first(std::span<Position> needed,
                                       std::span<VectorClock const> brought) {
  InlineVector<Position, 16> front;
  InlineVector<Position, 16> back;
  InlineVector<bool, 16> dropped;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    dropped.push_back(false);
  }
  for (std::size_t i = 0; i < needed.size(); ++i) {
    for (std::size_t j = 0; j < needed.size() && !dropped[i]; ++j) {
      dropped[i] = i != j && !dropped[j] && brought[j].covers(needed[i]);
    }
    (dropped[i] ? back : front).push_back(needed[i]);
  }
  std::size_t place = 0;
  for (auto const& position : front) {
    needed[place++] = position;
  }
  for (auto const& position : back) {
    needed[place++] = position;
  }
  return front.size();
}

}  // namespace msstream::order
