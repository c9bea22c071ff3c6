// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"
#include "base/sole_owner.hpp"
#include "order/vector_clock.hpp"
#include "stream/event_pool.hpp"

#include <msstream/order/position.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::detail {

/// A native event with the work that it covers: a position, and everything that precedes it.
///
/// Ownership: shared by its stream's recent events and the callers that looked it up. The event is
/// recorded again only if the stream is its single owner, so its meaning never changes for another
/// owner. The clock includes `position`.
struct RecordedEvent {
  explicit RecordedEvent(std::shared_ptr<EventPool> from)
      : pool(std::move(from)), native(pool->acquire()) {}
  RecordedEvent(RecordedEvent const&) = delete;
  RecordedEvent& operator=(RecordedEvent const&) = delete;
  ~RecordedEvent() { pool->release(native); }

  std::shared_ptr<EventPool> pool;
  NativeEvent native;
  order::Position position;
  order::VectorClock clock;
  std::chrono::steady_clock::time_point recorded_at;
};

/// The recorded events of one stream, oldest first. For a stream that runs, keeps at most sixteen:
/// the newest ones, the oldest one that is not known to be complete, and some between. For a
/// captured stream, keeps all events from keep_all() on. Not synchronised.
class RecentEvents {
 public:
  using Handle = std::shared_ptr<RecordedEvent>;

  /// Returns the earliest event at or after operation `number`, which covers the least later work;
  /// null if there is none.
  [[nodiscard]] RecordedEvent* earliest_from(std::uint64_t number) const noexcept {
    Handle const* const found = find(number);
    return found == nullptr ? nullptr : found->get();
  }
  [[nodiscard]] Handle share_earliest_from(std::uint64_t number) const {
    Handle const* const found = find(number);
    return found == nullptr ? nullptr : *found;
  }

  void keep_all() noexcept { keeps_all_ = true; }

  [[nodiscard]] Handle newest() const {
    if (keeps_all_) {
      return kept_.empty() ? nullptr : kept_.back();
    }
    return count_ == 0 ? nullptr : ring_[(first_ + count_ - 1) % kCapacity];
  }

  /// Returns an event to record and then pass to add(): an event removed from the list if no other
  /// owner shares it, otherwise a new one. Operations up to `completed` are known to be complete.
  [[nodiscard]] Handle take_for_recording(std::shared_ptr<EventPool> const& pool,
                                          std::uint64_t completed) {
    if (count_ == kCapacity) {
      Handle left_out = remove(at(0)->position.number <= completed ? 0 : most_crowded());
      if (is_sole_owner(left_out)) {
        return left_out;
      }
      if (!works(Mechanism::event_recycling)) {
        auto taken_back = std::make_shared<RecordedEvent>(pool);
        std::swap(taken_back->native, left_out->native);
        return taken_back;
      }
    }
    return std::make_shared<RecordedEvent>(pool);
  }
  void add(Handle event) {
    if (keeps_all_) {
      kept_.push_back(std::move(event));
      return;
    }
    at(count_) = std::move(event);
    ++count_;
  }
  void clear() noexcept {
    ring_.fill(nullptr);
    count_ = 0;
    kept_.clear();
    keeps_all_ = false;
  }

 private:
  static constexpr std::size_t kCapacity = 16;

  [[nodiscard]] Handle& at(std::size_t place) noexcept {
    return ring_[(first_ + place) % kCapacity];
  }
  [[nodiscard]] Handle remove(std::size_t place) noexcept {
    Handle removed = std::move(at(place));
    for (; place > 0; --place) {
      at(place) = std::move(at(place - 1));
    }
    first_ = (first_ + 1) % kCapacity;
    --count_;
    return removed;
  }
  /// Returns the index of the event whose two neighbours are closest to each other. The oldest and
  /// the newest event do not count.
  [[nodiscard]] std::size_t most_crowded() noexcept {
    auto const room = [this](std::size_t place) {
      return at(place + 1)->position.number - at(place - 1)->position.number;
    };
    std::size_t found = 1;
    for (std::size_t place = 2; place + 1 < kCapacity; ++place) {
      found = room(place) < room(found) ? place : found;
    }
    return found;
  }

  [[nodiscard]] Handle const* find(std::uint64_t number) const noexcept {
    if (keeps_all_) {
      auto const found = std::lower_bound(
          kept_.begin(), kept_.end(), number, [](Handle const& event, std::uint64_t wanted) {
            return event->position.number < wanted;
          });
      return found == kept_.end() ? nullptr : &*found;
    }
    Handle const* found = nullptr;
    for (std::size_t back = count_; back > 0; --back) {
      auto const& event = ring_[(first_ + back - 1) % kCapacity];
      if (event->position.number < number) {
        break;
      }
      found = &event;
    }
    return found;
  }

  std::array<Handle, kCapacity> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::vector<Handle> kept_;
  bool keeps_all_ = false;
};

}  // namespace msstream::detail
