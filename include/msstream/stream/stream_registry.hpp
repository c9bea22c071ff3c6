// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/mechanism.hpp>
#include <msstream/base/text.hpp>
#include <msstream/order/position_set.hpp>
#include <msstream/stream/inside_work.hpp>
#include <msstream/stream/stream_slot.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

namespace msstream {

/// The streams of a program: how far each has come, and an event for any of its positions.
///
/// Thread-safe; the one lock that streams share is for making and destroying them.
template <Runtime R>
class StreamRegistry {
 public:
  using Slot = StreamSlot<R>;
  using EventHandle = std::shared_ptr<RecordedEvent<R>>;

  static constexpr order::StreamIndex kMaxStreams = 4096;

  StreamRegistry() = default;
  StreamRegistry(StreamRegistry const&) = delete;
  StreamRegistry& operator=(StreamRegistry const&) = delete;

  /// Starts to track a stream. The slot stays valid as long as the tracker.
  Slot& attach(typename R::native_stream native, std::shared_ptr<EventPool<R>> events) {
    std::lock_guard const guard(slots_mutex_);
    Slot& slot = vacant_slot();
    std::lock_guard const slot_guard(slot.lock);
    slot.native = native;
    slot.events = std::move(events);
    return slot;
  }

  /// Ends the tracking of a stream whose native handle is about to be destroyed; work may be in
  /// flight. Does not block, unless the runtime can no longer record an event for that work.
  void detach(Slot& slot) {
    std::uint64_t const tail = slot.reserved.load();
    slot.await_launched(tail);
    try {
      (void)event_at({slot.index, tail});
    } catch (...) {
      finish({slot.index, tail});
      slot.raise_completed(tail);
    }
    {
      std::lock_guard const guard(slot.lock);
      slot.native = {};
    }
    std::lock_guard const guard(slots_mutex_);
    vacated_.push_back(&slot);
  }

  [[nodiscard]] Slot& slot(order::StreamIndex index) const noexcept { return *slots_[index]; }

  /// An event for the position: the earliest there is, else one recorded now, which may cover later
  /// work too. Blocks the host until the operation has been launched.
  [[nodiscard]] EventHandle event_at(order::Position position) {
    Slot& source = slot(position.stream);
    if (source.launched.load(std::memory_order_acquire) < position.number) {
      InsideWork::refuse("a wait for an operation that is not launched");
      source.await_launched(position.number);
    }
    std::lock_guard const guard(source.lock);
    event_from(source, position.number);
    return source.recent.share_earliest_from(position.number);
  }

  /// Whether the position's work is known to be complete; asks the runtime, does not block on the
  /// device.
  [[nodiscard]] bool is_complete(order::Position position) {
    if (slot(position.stream).completed.load(std::memory_order_acquire) >= position.number) {
      return true;
    }
    if (slot(position.stream).launched.load(std::memory_order_acquire) < position.number) {
      return false;
    }
    auto const event = event_at(position);
    if (event == nullptr || event->pool->runtime().query(event->native)) {
      if (event != nullptr) {
        note_complete(*event);
      }
      return true;
    }
    return false;
  }

  /// Blocks the host until the position's work is complete.
  void synchronize(order::Position position) {
    if (position.number == 0 ||
        slot(position.stream).completed.load(std::memory_order_acquire) >= position.number) {
      return;
    }
    if (auto const event = event_at(position)) {
      event->pool->runtime().synchronize(event->native);
      note_complete(*event);
    }
  }

  /// The same for those who cannot report a failure, and then rely on the work being over: tries
  /// again, without a new event. What fails twice has failed for good, and is over.
  void finish(order::Position position) noexcept {
    try {
      synchronize(position);
      return;
    } catch (...) {  // NOLINT(bugprone-empty-catch): see below
    }
    Slot& source = slot(position.stream);
    try {
      EventHandle event;
      {
        std::lock_guard const guard(source.lock);
        event = source.recent.share_earliest_from(position.number);
        // Without an event the stream is still there: detach() leaves one.
        if (event == nullptr && source.completed.load() < position.number) {
          source.events->runtime().synchronize_stream(source.native);
        }
      }
      if (event != nullptr) {
        event->pool->runtime().synchronize(event->native);
      }
    } catch (...) {  // NOLINT(bugprone-empty-catch): failed work is over
    }
  }

  /// The host has seen the event complete: nobody needs to wait any more for what it covers.
  void note_complete(RecordedEvent<R> const& event) {
    for (order::StreamIndex i = 0; i < event.clock.streams(); ++i) {
      slot(i).raise_completed(event.clock[i]);
    }
  }

  /// How many of the slot's operations are not known to be complete; asks the runtime about the
  /// newest event only. A stream that failed has more than any other.
  [[nodiscard]] std::uint64_t outstanding(Slot& slot) noexcept {
    EventHandle newest;
    {
      std::lock_guard const guard(slot.lock);
      newest = slot.recent.newest();
    }
    try {
      if (newest != nullptr &&
          newest->position.number > slot.completed.load(std::memory_order_acquire) &&
          newest->pool->runtime().query(newest->native)) {
        note_complete(*newest);
      }
    } catch (...) {
      return std::numeric_limits<std::uint64_t>::max();
    }
    auto const completed = slot.completed.load(std::memory_order_acquire);
    auto const reserved = slot.reserved.load(std::memory_order_acquire);
    return reserved - std::min(reserved, completed);
  }

  /// How many operations all streams have been given, Stream::mark() and record() included.
  [[nodiscard]] std::uint64_t operation_count() const {
    std::uint64_t total = 0;
    for (order::StreamIndex i = 0; i < slot_count(); ++i) {
      total += slots_[i]->reserved.load();
    }
    return total;
  }
  /// The newest operation of each stream that has work which is not known to be complete: together
  /// they stand for all that has been issued.
  [[nodiscard]] order::PositionSet newest_positions() const {
    order::PositionSet newest;
    for (order::StreamIndex i = 0; i < slot_count(); ++i) {
      auto const reserved = slots_[i]->reserved.load(std::memory_order_acquire);
      if (slots_[i]->completed.load(std::memory_order_acquire) < reserved) {
        newest.add({i, reserved});
      }
    }
    return newest;
  }

 protected:
  ~StreamRegistry() = default;

  [[nodiscard]] order::StreamIndex slot_count() const noexcept {
    return slot_count_.load(std::memory_order_acquire);
  }

  /// Caller holds source.lock, and `number` is launched. Null when the stream is gone and its work
  /// complete.
  RecordedEvent<R>* event_from(Slot& source, std::uint64_t number) {
    if (auto* const existing = source.recent.earliest_from(number)) {
      return existing;
    }
    if (source.completed.load(std::memory_order_acquire) >= number) {
      return nullptr;
    }
    auto event = source.recent.take_for_recording(source.events);
    // The position is read before the event is recorded: the event may stand for more, never for
    // less.
    event->position = {source.index,
                       source.launched.load(std::memory_order_acquire) +
                           (works(Mechanism::event_position) ? 0 : 1)};
    event->clock = source.clock;
    event->clock.raise(event->position);
    source.events->runtime().record(event->native, source.native);
    auto* const recorded = event.get();
    source.recent.add(std::move(event));
    return recorded;
  }

 private:
  /// A stream that failed is never known to be complete, so its slot is not taken again.
  [[nodiscard]] bool is_vacant(Slot const& slot) {
    try {
      return is_complete({slot.index, slot.reserved.load()});
    } catch (...) {
      return false;
    }
  }

  Slot& vacant_slot() {
    for (auto found = vacated_.begin(); found != vacated_.end(); ++found) {
      Slot& slot = **found;
      if (is_vacant(slot) || !works(Mechanism::stream_slot_reuse)) {
        std::lock_guard const guard(slot.lock);
        slot.recent.clear();
        slot.clock.clear();
        slot.events = nullptr;
        vacated_.erase(found);
        return slot;
      }
    }
    order::StreamIndex const index = slot_count_.load();
    if (index == kMaxStreams) {
      throw std::length_error(text("more than ", kMaxStreams, " streams at once"));
    }
    vacated_.reserve(index + std::size_t{1});  // detach() runs in destructors
    slots_[index] = std::make_unique<Slot>(index);
    slot_count_.store(index + 1, std::memory_order_release);
    return *slots_[index];
  }

  std::mutex slots_mutex_;
  std::atomic<order::StreamIndex> slot_count_{0};
  std::array<std::unique_ptr<Slot>, kMaxStreams> slots_;
  std::vector<Slot*> vacated_;
};

}  // namespace msstream
