// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/mechanism.hpp>
#include <msstream/base/text.hpp>
#include <msstream/base/unheard_failure.hpp>
#include <msstream/order/position_set.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/runtime/home_process.hpp>
#include <msstream/runtime/observing.hpp>
#include <msstream/stream/inside_work.hpp>
#include <msstream/stream/stream_slot.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
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
  Slot& attach(typename R::native_stream native,
               std::shared_ptr<EventPool<R>> events,
               // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved
               StreamIdentity identity = {},
               CaptureState* capture = nullptr) {
    home_.require_here();
    std::lock_guard const guard(slots_mutex_);
    Slot& slot = vacant_slot();
    std::lock_guard const slot_guard(slot.lock);
    slot.native = native;
    slot.events = std::move(events);
    slot.identity = std::move(identity);
    slot.capture.store(capture, std::memory_order_release);
    if (capture != nullptr) {
      slot.recent.keep_all();
    }
    if constexpr (OrderObservingRuntime<R>) {
      slot.events->runtime().stream_named(
          native, slot.identity.name.empty() ? text("stream ", slot.index) : slot.identity.name);
    }
    return slot;
  }

  /// Ends the tracking of a stream whose native handle is about to be destroyed; work may be in
  /// flight. Does not block, unless the runtime can no longer record an event for that work.
  void detach(Slot& slot) {
    if (home_.is_left()) {
      return;
    }
    std::uint64_t const tail = slot.reserved.load();
    slot.await_launched(tail);
    if (slot.capture.load() != nullptr) [[unlikely]] {
      end_capture(slot);
    }
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
  /// By index; of a stream that is gone, too.
  [[nodiscard]] std::vector<std::string> stream_names() const {
    std::vector<std::string> names;
    for (order::StreamIndex i = 0; i < slot_count(); ++i) {
      names.push_back(identity_of(i).name);
    }
    return names;
  }
  [[nodiscard]] StreamIdentity identity_of(order::StreamIndex index) const {
    std::lock_guard const guard(slot(index).lock);
    return slot(index).identity;
  }

  /// An event for the position: the earliest there is, else one recorded now, which may cover later
  /// work too. Blocks the host until the operation has been launched.
  [[nodiscard]] EventHandle event_at(order::Position position) {
    home_.require_here();
    Slot& source = slot(position.stream);
    if (source.launched.load(std::memory_order_acquire) < position.number) {
      InsideWork::refuse("a wait for an operation that is not launched");
      source.await_launched(position.number);
    }
    return event_of_launched(position);
  }

  /// Somebody is likely to wait for the position: its stream is to record an event before it goes
  /// on, which will stand for no later work. Asks nobody.
  void want_event(order::Position position) noexcept {
    if (!is_known_complete(position)) {
      slot(position.stream).event_wanted.store(true, std::memory_order_relaxed);
    }
  }

  /// Whether the host has seen the position's work complete; asks nobody.
  [[nodiscard]] bool is_known_complete(order::Position position) const noexcept {
    return slot(position.stream).completed.load(std::memory_order_acquire) >= position.number;
  }
  /// Whether the position's work is complete; asks the runtime, does not block on the device.
  [[nodiscard]] bool is_complete(order::Position position) {
    if (slot(position.stream).completed.load(std::memory_order_acquire) >= position.number) {
      return true;
    }
    if (slot(position.stream).launched.load(std::memory_order_acquire) < position.number ||
        is_captured(position)) {
      return false;
    }
    // What is behind an event that is not complete needs no event of its own to be asked about.
    if (!newest_event_is_over(slot(position.stream), position.number)) {
      return false;
    }
    auto const event = event_at(position);
    observe::OnTrackersAccount<R> const account;
    if (event == nullptr || event->pool->runtime().query(event->native)) {
      if (event != nullptr) {
        note_complete(*event);
      }
      return true;
    }
    return false;
  }

  /// Whether all work that the slot has been given is complete. A stream that failed never is idle,
  /// so its slot is not taken again.
  [[nodiscard]] bool is_idle(Slot const& slot) noexcept {
    UnheardFailure const dropped;
    try {
      return is_complete({slot.index, slot.reserved.load()});
    } catch (...) {
      return false;
    }
  }

  /// Whether the position's work is being captured, and so does not run.
  [[nodiscard]] bool is_captured(order::Position position) const noexcept {
    return slot(position.stream).capture.load(std::memory_order_acquire) != nullptr &&
           !is_known_complete(position);  // else of a stream whose slot the captured one has got
  }
  /// Throws std::logic_error if it is: the host cannot wait for it, nor ask about it.
  void refuse_captured(order::Position position, char const* what) const {
    if (is_captured(position)) [[unlikely]] {
      throw std::logic_error(text(what,
                                  ": the host cannot wait for ",
                                  identity_of(position.stream).name,
                                  ", which is being captured"));
    }
  }

  /// Blocks the host until the position's work is complete.
  void synchronize(order::Position position) {
    if (position.number == 0) {
      return;
    }
    if (slot(position.stream).completed.load(std::memory_order_acquire) >= position.number) {
      note_host_follows(position);
      return;
    }
    InsideWork::refuse_wait("synchronize");
    refuse_captured(position, "synchronize");
    wait_for(position);
    note_host_follows(position);
  }
  /// The program relies on the position's being complete.
  void note_host_follows(order::Position position) {
    if constexpr (OrderObservingRuntime<R>) {
      if (auto const events = events_of(slot(position.stream))) {
        events->runtime().host_follows(this, position);
      }
    }
  }

  /// The same for those who cannot report a failure, and then rely on the work being over: tries
  /// again, without a new event. What fails twice has failed for good, and is over.
  void finish(order::Position position) noexcept {
    if (is_known_complete(position) || home_.is_left()) {
      return;
    }
    if (auto* const capture = slot(position.stream).capture.load()) [[unlikely]] {
      capture->spoilt.store(true);  // whoever relies on it would run without it
      return;
    }
    UnheardFailure const dropped;
    observe::OnTrackersAccount<R> const account;
    try {
      wait_for(position);
      note_host_follows(position);
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

  /// How long ago the host issued work on the stream that the device is known to have still to do;
  /// 0: it is not known to have any. May record an event, to know it at a later call.
  [[nodiscard]] std::chrono::nanoseconds lag(Slot& slot) {
    constexpr std::uint64_t kOperationsBetweenEvents = 32;
    if (slot.capture.load(std::memory_order_acquire) != nullptr) {
      return {};
    }
    look_what_is_complete(slot);
    auto const completed = slot.completed.load(std::memory_order_acquire);
    std::lock_guard const guard(slot.lock);
    if (auto const* const oldest = slot.recent.earliest_from(completed + 1)) {
      return std::chrono::steady_clock::now() - oldest->recorded_at;
    }
    auto const launched = slot.launched.load(std::memory_order_acquire);
    if (completed + kOperationsBetweenEvents <= launched) {
      event_from(slot, launched);
    }
    return {};
  }
  /// Asks the runtime how far the stream has come, and remembers it.
  void look_what_is_complete(Slot& slot) {
    if (newest_event_is_over(slot)) {
      return;
    }
    for (;;) {
      EventHandle oldest;
      {
        std::lock_guard const guard(slot.lock);
        oldest =
            slot.recent.share_earliest_from(slot.completed.load(std::memory_order_acquire) + 1);
        if (oldest == slot.recent.newest()) {
          return;  // it has just been asked about, or just been recorded
        }
      }
      observe::OnTrackersAccount<R> const account;
      if (oldest == nullptr || !oldest->pool->runtime().query(oldest->native)) {
        return;
      }
      note_complete(*oldest);
    }
  }
  /// The same of all streams.
  void look_what_is_complete() {
    for (order::StreamIndex i = 0; i < slot_count(); ++i) {
      look_what_is_complete(slot(i));
    }
  }
  /// How many of the slot's operations are not known to be complete; asks the runtime about the
  /// newest event only. A stream that failed has more than any other.
  [[nodiscard]] std::uint64_t outstanding(Slot& slot) noexcept {
    UnheardFailure const dropped;
    try {
      static_cast<void>(newest_event_is_over(slot));
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

  [[nodiscard]] HomeProcess const& home() const noexcept { return home_; }

  [[nodiscard]] order::StreamIndex slot_count() const noexcept {
    return slot_count_.load(std::memory_order_acquire);
  }

  /// By the launching thread, before it launches anything. What is captured has an event for every
  /// operation, which costs a graph nothing: one that is recorded when somebody asks would stand
  /// for later operations, too, and hold up in every replay who need not follow them.
  void record_if_wanted(Slot& self) {
    if (self.event_wanted.load(std::memory_order_relaxed) ||
        self.capture.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
      self.event_wanted.store(false, std::memory_order_relaxed);
      std::lock_guard const guard(self.lock);
      event_from(self, self.launched.load(std::memory_order_relaxed));
    }
  }

  /// The same where the operation has been launched.
  [[nodiscard]] EventHandle event_of_launched(order::Position position) {
    Slot& source = slot(position.stream);
    std::lock_guard const guard(source.lock);
    event_from(source, position.number);
    return source.recent.share_earliest_from(position.number);
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
    auto event = source.recent.take_for_recording(source.events,
                                                  source.completed.load(std::memory_order_acquire));
    // The position is read before the event is recorded: the event may stand for more, never for
    // less.
    event->position = {source.index,
                       source.launched.load(std::memory_order_acquire) +
                           (works(Mechanism::event_position) ? 0 : 1)};
    {
      std::lock_guard const clock_guard(source.clock_lock);
      event->clock = source.clock;
    }
    event->clock.raise(event->position);
    event->recorded_at = std::chrono::steady_clock::now();
    source.events->runtime().record(event->native, source.native);
    auto* const recorded = event.get();
    source.recent.add(std::move(event));
    return recorded;
  }

 private:
  HomeProcess home_{life_of<R>};

  void wait_for(order::Position position) {
    observe::OnTrackersAccount<R> const account;
    if (auto const event = event_at(position)) {
      event->pool->runtime().synchronize(event->native);
      note_complete(*event);
    }
  }

  [[nodiscard]] static std::shared_ptr<EventPool<R>> events_of(Slot& slot) {
    std::lock_guard const guard(slot.lock);
    return slot.events;
  }
  /// The capture of the slot's stream is over. What was captured has not run, and runs when others
  /// say: its positions count as complete.
  void end_capture(Slot& slot) noexcept {
    std::lock_guard const guard(slot.lock);
    slot.raise_completed(slot.reserved.load());
    slot.recent.clear();
    slot.capture.store(nullptr, std::memory_order_release);
  }

  /// Whether the newest event is complete, or there is none, or it does not precede `number`.
  bool newest_event_is_over(Slot& slot,
                            std::uint64_t number = std::numeric_limits<std::uint64_t>::max()) {
    EventHandle newest;
    {
      std::lock_guard const guard(slot.lock);
      newest = slot.capture.load() == nullptr ? slot.recent.newest() : nullptr;
    }
    if (newest == nullptr || newest->position.number >= number ||
        newest->position.number <= slot.completed.load(std::memory_order_acquire)) {
      return true;
    }
    observe::OnTrackersAccount<R> const account;
    if (newest->pool->runtime().query(newest->native)) {
      note_complete(*newest);
      return true;
    }
    return false;
  }

  Slot& vacant_slot() {
    for (auto found = vacated_.begin(); found != vacated_.end(); ++found) {
      Slot& slot = **found;
      if (is_idle(slot) || !works(Mechanism::stream_slot_reuse)) {
        std::lock_guard const guard(slot.lock);
        std::lock_guard const clock_guard(slot.clock_lock);
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

MSSTREAM_COMPILED_ONCE(class StreamRegistry<DefaultRuntime>);

}  // namespace msstream
