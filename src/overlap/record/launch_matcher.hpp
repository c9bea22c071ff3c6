// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>

namespace msstream::overlap::record {

/// Finds work whose call is not recorded, by their correlations, which arrive in any order.
class LaunchMatcher {
 public:
  void work(std::uint32_t correlation) {
    if (calls_.erase(correlation) == 0) {
      work_.emplace(correlation, ticks_);
    }
  }
  void call(std::uint32_t correlation) {
    if (work_.erase(correlation) == 0) {
      calls_.insert(correlation);
    }
  }
  /// Returns how much work is without a call after two ticks: by then, the call has arrived if it
  /// is recorded. Called at each tick.
  [[nodiscard]] std::size_t tick() {
    ++ticks_;
    std::size_t without = 0;
    for (auto const& [correlation, tick] : work_) {
      without += ticks_ - tick > 2 ? 1 : 0;
    }
    // Some calls launch no work. They are few, and old ones are not needed.
    if (calls_.size() > kMostCalls) {
      calls_.clear();
    }
    return without;
  }

 private:
  static constexpr std::size_t kMostCalls = std::size_t{1} << 20U;

  int ticks_ = 0;
  std::unordered_map<std::uint32_t, int> work_;  ///< without calls, and when it arrived
  std::unordered_set<std::uint32_t> calls_;      ///< without work so far
};

}  // namespace msstream::overlap::record
