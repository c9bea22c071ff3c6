// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/blocks/block.hpp"
#include "memory/blocks/block_uses.hpp"
#include "stream/dependency_tracker.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

namespace msstream::memory {

/// Decides which stream may reuse a free block, and at which cost. A stream may reuse device memory
/// if its next work is ordered after the last uses; any stream may reuse pinned memory once the
/// host knows the last uses to be complete. Thread-safe.
class ReuseRules {
 public:
  ReuseRules(std::shared_ptr<detail::DependencyTracker> tracker, Space space)
      : tracker_(std::move(tracker)), space_(space) {}

  /// Returns whether all uses of the block are known to be complete. Does not query the runtime.
  [[nodiscard]] bool is_known_to_be_over(Block const& block) const {
    return all_uses(block,
                    [this](order::Position use) { return tracker_->is_known_complete(use); });
  }
  /// Returns whether the next use of the block on `stream` needs no wait on the device.
  [[nodiscard]] bool is_followed(Block const& block, detail::StreamSlot& stream) const {
    return all_uses(block, [&](order::Position use) { return tracker_->covers(stream, use); });
  }
  [[nodiscard]] bool is_ready(Block const& block, detail::StreamSlot& stream) const {
    return space_ == Space::device ? is_followed(block, stream) : is_known_to_be_over(block);
  }
  /// Queries the runtime for the progress of the stream of the use.
  void look_how_far(order::Position use) const {
    tracker_->look_what_is_complete(tracker_->slot(use.stream));
  }
  /// Queries the runtime whether the use is complete. Records an event if no recorded one covers
  /// the use.
  void ask_whether_over(order::Position use) const {
    static_cast<void>(tracker_->is_complete(use));
  }
  /// Returns how long ago the host issued the oldest work of the stream that is known to be
  /// incomplete.
  [[nodiscard]] std::chrono::nanoseconds lag(detail::StreamSlot& stream) const {
    return tracker_->lag(stream);
  }
  /// Returns whether the stream would have to wait for the use, as far as the host knows.
  [[nodiscard]] bool would_wait(detail::StreamSlot& stream, order::Position use) const {
    return !tracker_->covers(stream, use);
  }
  /// Returns the lag() of the stream of the use, or 0 if `stream` need not wait for the use.
  [[nodiscard]] std::chrono::nanoseconds lag_behind(detail::StreamSlot& stream,
                                                    order::Position use) const {
    return would_wait(stream, use) ? lag(tracker_->slot(use.stream)) : std::chrono::nanoseconds{};
  }
  /// Returns the cost of reusing a free block on the stream. The cost is 0 if the stream need not
  /// wait. Otherwise it is higher, the fewer operations the streams to wait for have launched since
  /// they used the block, and 0 after kLongAgo operations. Pinned memory costs 1 unless its uses
  /// are known to be complete.
  [[nodiscard]] std::uint64_t cost(Block const& block, detail::StreamSlot& stream) const {
    if (space_ == Space::pinned) {
      return is_known_to_be_over(block) ? 0 : 1;
    }
    std::uint64_t most = 0;
    for_each_use(block, [&](order::Position use) {
      if (!tracker_->covers(stream, use)) {
        auto const since =
            tracker_->slot(use.stream).launched.load(std::memory_order_relaxed) - use.number;
        most = std::max(most, kLongAgo - std::min(since, kLongAgo));
      }
    });
    return most;
  }

  /// Returns a function that calls is_known_to_be_over(block).
  [[nodiscard]] auto over() const {
    return [this](Block const& block) { return is_known_to_be_over(block); };
  }
  [[nodiscard]] auto followed_by(detail::StreamSlot& stream) const {
    return [this, &stream](Block const& block) { return is_followed(block, stream); };
  }
  [[nodiscard]] auto ready_for(detail::StreamSlot& stream) const {
    return [this, &stream](Block const& block) { return is_ready(block, stream); };
  }
  [[nodiscard]] auto costs(detail::StreamSlot& stream) const {
    return [this, &stream](Block const& block) { return cost(block, stream); };
  }

 private:
  static constexpr std::uint64_t kLongAgo = 64;  ///< in operations

  std::shared_ptr<detail::DependencyTracker> tracker_;
  Space space_;
};

}  // namespace msstream::memory
