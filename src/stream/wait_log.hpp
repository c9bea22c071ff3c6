// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/position.hpp>
#include <msstream/trace/timeline.hpp>

#include <mutex>
#include <utility>
#include <vector>

namespace msstream::detail {

/// Stores the waits that streams get, while a timeline is recorded. Thread-safe.
class WaitLog {
 public:
  /// Adds a wait, which the work of `to.stream` has from operation `to.number` on, for all work up
  /// to `from`. Without memory, the wait is missing in the timeline.
  void add(order::Position from, order::Position to) noexcept {
    try {
      std::lock_guard const guard(mutex_);
      waits_.push_back({from.stream, from.number, to.stream, to.number});
    } catch (...) {  // NOLINT(bugprone-empty-catch): see above
    }
  }
  /// Returns the waits since the last call.
  [[nodiscard]] std::vector<trace::Timeline::Wait> take() {
    std::lock_guard const guard(mutex_);
    return std::exchange(waits_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<trace::Timeline::Wait> waits_;
};

}  // namespace msstream::detail
