// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace msstream::overlap {

/// The times in which something works: a union of intervals, ascending and disjoint.
class BusyTimes {
 public:
  /// Adds a time that begins no earlier than those before it.
  void add(Interval time) {
    if (!times_.empty() && time.begin <= times_.back().end) {
      times_.back().end = std::max(times_.back().end, time.end);
    } else {
      times_.push_back(time);
    }
  }

  [[nodiscard]] bool empty() const noexcept { return times_.empty(); }
  /// From the first begin to the last end; there must be a time.
  [[nodiscard]] Interval extent() const { return {times_.front().begin, times_.back().end}; }
  /// Returns the sum of all lengths.
  [[nodiscard]] Ns length() const {
    Ns sum = 0;
    for (auto const& time : times_) {
      sum += time.length();
    }
    return sum;
  }
  /// Returns the time in which another one works, too.
  [[nodiscard]] Ns shared_with(BusyTimes const& other) const {
    Ns sum = 0;
    for (std::size_t a = 0, b = 0; a < times_.size() && b < other.times_.size();) {
      auto const& first = times_[a];
      auto const& second = other.times_[b];
      sum += std::max<Ns>(std::min(first.end, second.end) - std::max(first.begin, second.begin), 0);
      ++(first.end < second.end ? a : b);
    }
    return sum;
  }
  [[nodiscard]] std::vector<Interval> take() && { return std::move(times_); }

 private:
  std::vector<Interval> times_;
};

}  // namespace msstream::overlap
