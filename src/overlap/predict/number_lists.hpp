// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// Lists of numbers, one for each of a fixed count of places, in the order in which they were
/// put.
class NumberLists {
 public:
  explicit NumberLists(std::size_t places) : ends_(places, {kNone, kNone}) {}

  void put(std::size_t place, Index number) {
    auto const link = static_cast<Index>(links_.size());
    links_.push_back({number, kNone});
    auto& [first, last] = ends_[place];
    (first == kNone ? first : links_[last].second) = link;
    last = link;
  }
  /// Calls `take` with each number of a list, which must not get more meanwhile.
  template <class Take>
  void for_each(std::size_t place, Take take) const {
    for (auto link = ends_[place].first; link != kNone; link = links_[link].second) {
      take(links_[link].first);
    }
  }

 private:
  std::vector<std::pair<Index, Index>> links_;  ///< numbers, and the next link of each
  std::vector<std::pair<Index, Index>> ends_;   ///< the first link and the last one
};

}  // namespace msstream::overlap
