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

/// Decides which stream may reuse a free block, and at which cost. Device memory may be reused by a
/// stream that follows its last uses, pinned memory once the host knows them to be complete.
/// Thread-safe.
class ReuseRules {
 public:
  ReuseRules(std::shared_ptr<detail::DependencyTracker> tracker, Space space)
      : tracker_(std::move(tracker)), space_(space) {}

  /// Whether all uses of the block are known to be complete. Does not ask the runtime.
  [[nodiscard]] bool is_known_to_be_over(Block const& block) const {
    return all_uses(block,
                    [this](order::Position use) { return tracker_->is_known_complete(use); });
  }
  /// Whether the next use on `stream` needs no wait on the device.
  [[nodiscard]] bool is_followed(Block const& block, detail::StreamSlot& stream) const {
    return all_uses(block, [&](order::Position use) { return tracker_->covers(stream, use); });
  }
  [[nodiscard]] bool is_ready(Block const& block, detail::StreamSlot& stream) const {
    return space_ == Space::device ? is_followed(block, stream) : is_known_to_be_over(block);
  }
  /// Asks the runtime how far the stream of the use has come.
  void look_how_far(order::Position use) const {
    tracker_->look_what_is_complete(tracker_->slot(use.stream));
  }
  /// Asks the runtime whether the use is complete, by the event that a wait for it would record.
  void ask_whether_over(order::Position use) const {
    static_cast<void>(tracker_->is_complete(use));
  }
  /// Returns how long ago the oldest work was issued that the device has still to do on the stream.
  [[nodiscard]] std::chrono::nanoseconds lag(detail::StreamSlot& stream) const {
    return tracker_->lag(stream);
  }
  /// Whether the stream does not follow the use yet, as far as the host knows.
  [[nodiscard]] bool would_wait(detail::StreamSlot& stream, order::Position use) const {
    return !tracker_->covers(stream, use);
  }
  /// Returns the lag of the stream of the use, or 0 if `stream` need not wait for the use.
  [[nodiscard]] std::chrono::nanoseconds lag_behind(detail::StreamSlot& stream,
                                                    order::Position use) const {
    return would_wait(stream, use) ? lag(tracker_->slot(use.stream)) : std::chrono::nanoseconds{};
  }
  /// Returns the cost of a free block for the stream: higher the fewer operations the streams that
  /// it would wait for have launched since they used the block. 0 if it need not wait, or after
  /// kLongAgo operations. Pinned memory costs 1 unless its uses are known to be complete.
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

  /// Returns is_known_to_be_over() as a function of the block.
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
