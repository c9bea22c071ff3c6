// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/text.hpp>
#include <msstream/order/minimal_waits.hpp>
#include <msstream/order/position_set.hpp>
#include <msstream/stream/access.hpp>
#include <msstream/stream/stream_slot.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream {

struct TrackerOptions {
  /// Skip waits that are known to hold already. Off: every hazard between streams waits (to
  /// measure, or to test a doubt).
  bool reduce_waits = true;
  /// Called with a sentence for every elided wait, saying which earlier wait covers it. For
  /// debugging: it is slow.
  std::function<void(std::string const&)> explain;
};

/// Knows the order of all work on all streams of a program, and issues the waits that are missing
/// and no others.
///
/// A wait is elided exactly when the stream's vector clock, or the host, already covers it. Among
/// several needed waits those that another one implies are dropped. Thread-safe; no lock is shared
/// between streams.
template <Runtime R>
class DependencyTracker {
 public:
  using Slot = StreamSlot<R>;
  using EventHandle = std::shared_ptr<RecordedEvent<R>>;

  static constexpr order::StreamIndex kMaxStreams = 4096;

  explicit DependencyTracker(TrackerOptions options = {}) : options_(std::move(options)) {}
  DependencyTracker(DependencyTracker const&) = delete;
  DependencyTracker& operator=(DependencyTracker const&) = delete;

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
    await_launched(slot, tail);
    try {
      (void)event_at({slot.index, tail});
    } catch (...) {
      finish(slot, tail);
    }
    {
      std::lock_guard const guard(slot.lock);
      slot.native = {};
    }
    std::lock_guard const guard(slots_mutex_);
    vacated_.push_back(&slot);
  }

  [[nodiscard]] Slot& slot(order::StreamIndex index) const noexcept { return *slots_[index]; }

  /// Gives the operation its number and notes its accesses; `needed` gets what it must follow.
  /// The caller holds `slot.issuing`, and must launch or abandon the number before others on the
  /// slot.
  std::uint64_t reserve(Slot& slot, AccessSet& accesses, order::PositionSet& needed) {
    accesses.normalise();
    for (auto const& access : accesses) {
      access.record->lock.lock();
    }
    order::Position const position{slot.index, slot.reserved.load(std::memory_order_relaxed) + 1};
    slot.reserved.store(position.number, std::memory_order_release);
    for (auto const& access : accesses) {
      if (access.mode == AccessMode::write) {
        access.record->log.add_hazards_of_write(needed);
        access.record->log.note_write(position);
      } else {
        access.record->log.add_hazards_of_read(needed);
        access.record->log.note_read(position);
      }
      access.record->lock.unlock();
    }
    return position.number;
  }

  /// Makes the slot's stream wait for `needed`, runs `work`, and marks the number launched, also
  /// when one of them throws.
  template <class Work>
  void launch(Slot& slot, std::uint64_t number, order::PositionSet& needed, Work&& work) {
    struct Launched {
      Slot& slot;
      std::uint64_t number;
      ~Launched() {
        slot.launched.store(number, std::memory_order_release);
        slot.launched.notify_all();
      }
    } const launched{slot, number};
    try {
      order_after(slot, needed);
    } catch (...) {
      settle(needed);
      throw;
    }
    std::forward<Work>(work)();
  }

  /// Gives up a reserved number whose operation will never be launched; blocks the host until what
  /// it needed is complete.
  void abandon(Slot& slot, std::uint64_t number, order::PositionSet const& needed) noexcept {
    await_launched(slot, number - 1);
    settle(needed);
    slot.launched.store(number, std::memory_order_release);
    slot.launched.notify_all();
  }

  /// Runs `work` while nothing is being launched on the slot, by whatever thread.
  template <class Work>
  void while_idle(Slot& slot, Work&& work) {
    std::lock_guard const guard(slot.issuing);
    await_launched(slot, slot.reserved.load(std::memory_order_acquire));
    std::forward<Work>(work)();
  }

  /// Whether launch() would have to wait for another thread to launch what this needs.
  [[nodiscard]] bool launchable(order::PositionSet const& needed) const noexcept {
    for (auto const& position : needed) {
      if (slot(position.stream).launched.load(std::memory_order_acquire) < position.number) {
        return false;
      }
    }
    return true;
  }

  /// Makes the stream's next work wait for `needed`. One thread at a time a slot.
  void order_after(Slot& self, order::PositionSet& needed) {
    needed.remove_if([&](auto const& position) { return position.stream == self.index; });
    if (needed.empty()) {
      return;
    }
    add_to(self.waits_needed, needed.size());
    std::size_t elided = 0;
    if (options_.reduce_waits) {
      elided = needed.size();
      needed.remove_if([&](auto const& position) { return holds_already(self, position); });
      elided -= needed.size();
    }
    InlineVector<order::Position, 8> waits;
    for (auto const& position : needed) {
      await_launched(slot(position.stream), position.number);
      waits.push_back(position);
    }
    if (options_.reduce_waits && waits.size() > 1) {
      sort_by_coverage(self, {waits.begin(), waits.size()});
    }
    for (auto const& position : waits) {
      if ((options_.reduce_waits && holds_already(self, position)) || !issue_wait(self, position)) {
        ++elided;
      } else {
        add_to(self.waits_issued, 1);
      }
    }
    add_to(self.waits_elided, elided);
  }

  /// An event for the position: the earliest there is, else one recorded now, which may cover later
  /// work too. Blocks the host until the operation has been launched.
  [[nodiscard]] EventHandle event_at(order::Position position) {
    Slot& source = slot(position.stream);
    await_launched(source, position.number);
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

  /// The host has seen the event complete: nobody needs to wait any more for what it covers.
  void note_complete(RecordedEvent<R> const& event) {
    for (order::StreamIndex i = 0; i < event.clock.streams(); ++i) {
      raise_completed(slot(i), event.clock[i]);
    }
  }

  /// Whether a stream's future work is already ordered after the position, without any new wait.
  [[nodiscard]] bool covers(Slot& self, order::Position position) {
    return position.stream == self.index || holds_already(self, position);
  }

  /// How many of the slot's operations are not known to be complete; asks the runtime about the
  /// newest event only.
  [[nodiscard]] std::uint64_t outstanding(Slot& slot) {
    EventHandle newest;
    {
      std::lock_guard const guard(slot.lock);
      newest = slot.recent.newest();
    }
    if (newest != nullptr &&
        newest->position.number > slot.completed.load(std::memory_order_acquire) &&
        newest->pool->runtime().query(newest->native)) {
      note_complete(*newest);
    }
    auto const completed = slot.completed.load(std::memory_order_acquire);
    auto const reserved = slot.reserved.load(std::memory_order_acquire);
    return reserved - std::min(reserved, completed);
  }

  [[nodiscard]] WaitCounts wait_counts() const {
    WaitCounts total;
    for (order::StreamIndex i = 0; i < slot_count_.load(std::memory_order_acquire); ++i) {
      total += {slots_[i]->waits_needed.load(),
                slots_[i]->waits_issued.load(),
                slots_[i]->waits_elided.load()};
    }
    return total;
  }
  /// How many operations all streams have been given.
  [[nodiscard]] std::uint64_t operation_count() const {
    std::uint64_t total = 0;
    for (order::StreamIndex i = 0; i < slot_count_.load(std::memory_order_acquire); ++i) {
      total += slots_[i]->reserved.load();
    }
    return total;
  }
  /// The newest operation of each stream that has work which is not known to be complete: together
  /// they stand for all that has been issued.
  [[nodiscard]] order::PositionSet newest_positions() const {
    order::PositionSet newest;
    for (order::StreamIndex i = 0; i < slot_count_.load(std::memory_order_acquire); ++i) {
      auto const reserved = slots_[i]->reserved.load(std::memory_order_acquire);
      if (slots_[i]->completed.load(std::memory_order_acquire) < reserved) {
        newest.add({i, reserved});
      }
    }
    return newest;
  }
  [[nodiscard]] bool reduces_waits() const noexcept { return options_.reduce_waits; }

 private:
  static void add_to(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  static void raise_completed(Slot& slot, std::uint64_t number) noexcept {
    auto known = slot.completed.load(std::memory_order_relaxed);
    while (known < number &&
           !slot.completed.compare_exchange_weak(known, number, std::memory_order_acq_rel)) {
    }
  }

  static void await_launched(Slot& slot, std::uint64_t number) noexcept {
    for (auto seen = slot.launched.load(std::memory_order_acquire); seen < number;
         seen = slot.launched.load(std::memory_order_acquire)) {
      slot.launched.wait(seen, std::memory_order_acquire);
    }
  }

  /// The accesses of an operation that could not wait for `needed` are noted already, in place of
  /// those before: whoever waits for that operation believes to be after `needed`, so make it true.
  void settle(order::PositionSet const& needed) noexcept {
    for (auto const& position : needed) {
      try {
        synchronize(position);
      } catch (...) {  // NOLINT(bugprone-empty-catch): failed work is over too
      }
    }
  }

  /// Waits for the stream's work by the host; on a failed device there is nothing to wait for.
  static void finish(Slot& slot, std::uint64_t tail) noexcept {
    try {
      slot.events->runtime().synchronize_stream(slot.native);
    } catch (...) {  // NOLINT(bugprone-empty-catch): failed work is over too
    }
    raise_completed(slot, tail);
  }

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
      if (is_vacant(slot)) {
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
      throw std::length_error(
          text("dependency tracker: more than ", kMaxStreams, " streams at once"));
    }
    slots_[index] = std::make_unique<Slot>(index);
    slot_count_.store(index + 1, std::memory_order_release);
    return *slots_[index];
  }

  bool holds_already(Slot& self, order::Position position) {
    if (slot(position.stream).completed.load(std::memory_order_acquire) >= position.number) {
      if (options_.explain) {
        options_.explain(
            text("no wait of stream ", self.index, " for ", position, ": known to be complete"));
      }
      return true;
    }
    bool covered = false;
    {
      std::lock_guard const guard(self.lock);
      covered = self.clock.covers(position);
    }
    if (covered && options_.explain) {
      options_.explain(text("no wait of stream ",
                            self.index,
                            " for ",
                            position,
                            ": covered by its wait for ",
                            self.reasons[position.stream]));
    }
    return covered;
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
    event->position = {source.index, source.launched.load(std::memory_order_acquire)};
    event->clock = source.clock;
    event->clock.raise(event->position);
    source.events->runtime().record(event->native, source.native);
    auto* const recorded = event.get();
    source.recent.add(std::move(event));
    return recorded;
  }

  /// False when there is nothing left to wait for.
  bool issue_wait(Slot& self, order::Position position) {
    Slot& source = slot(position.stream);
    if (self.scratch.empty()) {
      self.scratch.emplace_back();
    }
    auto& brought = self.scratch.front();
    order::Position waited_for;
    {
      std::lock_guard const guard(source.lock);
      auto const* const event = event_from(source, position.number);
      if (event == nullptr) {
        return false;
      }
      self.events->runtime().wait(self.native, event->native);
      brought = event->clock;
      waited_for = event->position;
    }
    std::lock_guard const guard(self.lock);
    if (options_.explain) {
      note_reasons(self, brought, waited_for);
    }
    self.clock.merge(brought);
    return true;
  }

  void sort_by_coverage(Slot& self, std::span<order::Position> waits) {
    if (self.scratch.size() < waits.size()) {
      self.scratch.resize(waits.size());
    }
    for (std::size_t i = 0; i < waits.size(); ++i) {
      Slot& source = slot(waits[i].stream);
      std::lock_guard const guard(source.lock);
      auto const* const event = source.recent.earliest_from(waits[i].number);
      self.scratch[i] = event != nullptr ? event->clock : source.clock;
      self.scratch[i].raise(waits[i]);
    }
    order::put_uncovered_first(waits, {self.scratch.data(), waits.size()});
  }

  static void note_reasons(Slot& self,
                           order::VectorClock const& brought,
                           order::Position waited_for) {
    if (self.reasons.size() < brought.streams()) {
      self.reasons.resize(brought.streams());
    }
    for (order::StreamIndex i = 0; i < brought.streams(); ++i) {
      if (brought[i] > self.clock[i]) {
        self.reasons[i] = waited_for;
      }
    }
  }

  TrackerOptions options_;
  std::mutex slots_mutex_;
  std::atomic<order::StreamIndex> slot_count_{0};
  std::array<std::unique_ptr<Slot>, kMaxStreams> slots_;
  std::vector<Slot*> vacated_;
};

}  // namespace msstream
