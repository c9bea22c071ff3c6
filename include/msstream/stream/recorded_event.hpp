// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/mechanism.hpp>
#include <msstream/order/position.hpp>
#include <msstream/order/vector_clock.hpp>
#include <msstream/stream/event_pool.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace msstream {

/// A native event together with what it stands for: a position, and all that precedes it.
///
/// Ownership: shared by its stream's recent events and whoever looked it up. It is recorded again
/// only when the stream is its single owner, so that nobody holds an event whose meaning changes.
/// The clock includes `position`.
template <Runtime R>
struct RecordedEvent {
  explicit RecordedEvent(std::shared_ptr<EventPool<R>> from)
      : pool(std::move(from)), native(pool->acquire()) {}
  RecordedEvent(RecordedEvent const&) = delete;
  RecordedEvent& operator=(RecordedEvent const&) = delete;
  ~RecordedEvent() { pool->release(native); }

  std::shared_ptr<EventPool<R>> pool;
  typename R::native_event native;
  order::Position position;
  order::VectorClock clock;
};

/// The newest events of one stream, oldest first, at most sixteen. Not synchronised.
template <Runtime R>
class RecentEvents {
 public:
  using Handle = std::shared_ptr<RecordedEvent<R>>;

  /// The earliest event at or after `number`, which is the one that covers the least beyond it;
  /// null if there is none.
  [[nodiscard]] RecordedEvent<R>* earliest_from(std::uint64_t number) const noexcept {
    Handle const* const found = find(number);
    return found == nullptr ? nullptr : found->get();
  }
  [[nodiscard]] Handle share_earliest_from(std::uint64_t number) const {
    Handle const* const found = find(number);
    return found == nullptr ? nullptr : *found;
  }

  [[nodiscard]] Handle newest() const {
    return count_ == 0 ? nullptr : ring_[(first_ + count_ - 1) % kCapacity];
  }

  /// An event to record and add() next: the oldest one when it is not shared, else a new one.
  [[nodiscard]] Handle take_for_recording(std::shared_ptr<EventPool<R>> const& pool) {
    if (count_ == kCapacity) {
      Handle oldest = std::move(ring_[first_]);
      first_ = (first_ + 1) % kCapacity;
      --count_;
      // use_count() orders nothing; taking and dropping a reference comes after what the last other
      // owner did.
      Handle(oldest).reset();
      if (oldest.use_count() == 1) {
        return oldest;
      }
      if (!works(Mechanism::event_recycling)) {
        auto taken_back = std::make_shared<RecordedEvent<R>>(pool);
        std::swap(taken_back->native, oldest->native);
        return taken_back;
      }
    }
    return std::make_shared<RecordedEvent<R>>(pool);
  }
  void add(Handle event) {
    ring_[(first_ + count_) % kCapacity] = std::move(event);
    ++count_;
  }
  void clear() noexcept {
    ring_.fill(nullptr);
    count_ = 0;
  }

 private:
  static constexpr std::size_t kCapacity = 16;

  [[nodiscard]] Handle const* find(std::uint64_t number) const noexcept {
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
};

}  // namespace msstream
