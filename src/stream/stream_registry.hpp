// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"
#include "base/unheard_failure.hpp"
#include "runtime/checker/observed_work.hpp"
#include "stream/host_call.hpp"
#include "stream/inside_work.hpp"
#include "stream/stream_slot.hpp"
#include "stream/wait_log.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/order/detail/position_set.hpp>
#include <msstream/runtime/detail/home_process.hpp>

#include <fmt/core.h>

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
#include <typeinfo>
#include <vector>

namespace msstream::detail {

/// The streams of a program: how far each has come, and an event for any position of a stream.
///
/// Thread-safe. The only lock that streams share is for attaching and detaching them.
class StreamRegistry {
 public:
  using Slot = StreamSlot;
  using EventHandle = std::shared_ptr<RecordedEvent>;

  static constexpr order::StreamIndex kMaxStreams = 4096;

  Hook<HostCallObserver> host_calls;  ///< on while the calls of the host are recorded
  Hook<WaitLog> wait_log;             ///< on while a timeline is recorded
  explicit StreamRegistry(RuntimeLife life) noexcept : life_(life), home_(life) {}
  StreamRegistry(StreamRegistry const&) = delete;
  StreamRegistry& operator=(StreamRegistry const&) = delete;

  /// Notes the runtime type of a device whose streams will be tracked. Throws std::invalid_argument
  /// if an earlier device has another type, for whose events the runtime could not wait.
  void serve(BackendTraits const& runtime) {
    std::type_info const* served = nullptr;
    bool const is_new = runtime_type_.compare_exchange_strong(served, runtime.own_type);
    require(is_new || *served == *runtime.own_type,
            "DeviceOptions::tracker: the tracker is of a device of another runtime type than {}{}",
            runtime.name,
            *runtime.type == *runtime.own_type ? "" : ", which MSSTREAM_CHECK checks");
  }

  /// Starts to track a stream. Returns its slot, which is valid as long as the tracker exists.
  Slot& attach(NativeStream native,
               std::shared_ptr<EventPool> events,
               // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved
               StreamIdentity identity = {},
               Slot::Capture* capture = nullptr) {
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
    if (slot.events->runtime().traits.observes_order) {
      observes_order_.store(true, std::memory_order_relaxed);
      slot.events->runtime().stream_named(
          native,
          slot.identity.name.empty() ? fmt::format("stream {}", slot.index) : slot.identity.name);
    }
    return slot;
  }

  /// Ends the tracking of a stream whose native handle is about to be destroyed. Its work may still
  /// be in flight. Does not block, unless the runtime can no longer record an event for that work.
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
    std::lock_guard const guard(slots_mutex_);
    std::lock_guard const slot_guard(slot.lock);
    slot.native = {};
    vacated_.push_back(&slot);
  }

  [[nodiscard]] Slot& slot(order::StreamIndex index) const noexcept { return *slots_[index]; }
  /// Returns whether the position, or a later one of its stream, has been reserved.
  [[nodiscard]] bool has(order::Position position) const noexcept {
    return position.stream < slot_count() &&
           position.number <= slot(position.stream).reserved.load(std::memory_order_acquire);
  }
  /// Returns the streams' names, by index, including the names of streams that no longer exist.
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

  /// Returns an event that covers the position: the earliest recorded one, otherwise one recorded
  /// now, which may cover later work too. Blocks the host until the position's operation has been
  /// launched.
  [[nodiscard]] EventHandle event_at(order::Position position) {
    home_.require_here();
    Slot& source = slot(position.stream);
    if (source.launched.load(std::memory_order_acquire) < position.number) {
      InsideWork::refuse("a wait for an operation that is not launched");
      source.await_launched(position.number);
    }
    return event_of_launched(position);
  }

  /// Requests that the position's stream records an event before its next operation, so that the
  /// event covers no later work. Useful if a wait for the position is likely. Does not query the
  /// runtime.
  void want_event(order::Position position) noexcept {
    if (!is_known_complete(position)) {
      slot(position.stream).event_wanted.store(true, std::memory_order_relaxed);
    }
  }

  /// Returns whether the host has seen the position's work complete. Does not query the runtime.
  [[nodiscard]] bool is_known_complete(order::Position position) const noexcept {
    return slot(position.stream).completed.load(std::memory_order_acquire) >= position.number;
  }
  /// Returns whether the position's work is complete. Queries the runtime if the host does not
  /// know, but does not block on the device.
  [[nodiscard]] bool is_complete(order::Position position) {
    if (slot(position.stream).completed.load(std::memory_order_acquire) >= position.number) {
      return true;
    }
    if (slot(position.stream).launched.load(std::memory_order_acquire) < position.number ||
        is_captured(position)) {
      return false;
    }
    // If an earlier event is not complete, the position is not complete either, and needs no event
    // of its own.
    if (!newest_event_is_over(slot(position.stream), position.number)) {
      return false;
    }
    auto const event = event_at(position);
    OnTrackersAccount const account(observes_order());
    if (event == nullptr || event->pool->runtime().query(event->native)) {
      if (event != nullptr) {
        note_complete(*event);
      }
      return true;
    }
    return false;
  }

  /// Returns whether all work issued to the slot's stream is complete. A stream that failed is
  /// never idle, so its slot is not reused.
  [[nodiscard]] bool is_idle(Slot const& slot) noexcept {
    UnheardFailure const dropped;
    try {
      return is_complete({slot.index, slot.reserved.load()});
    } catch (...) {
      return false;
    }
  }

  /// Returns whether the position's work is being captured, and therefore does not run.
  [[nodiscard]] bool is_captured(order::Position position) const noexcept {
    return slot(position.stream).capture.load(std::memory_order_acquire) != nullptr &&
           !is_known_complete(position);  // a complete position is of an earlier stream in the slot
  }
  /// Throws std::logic_error if the position is being captured, because the host can neither wait
  /// for captured work nor query it.
  void refuse_captured(order::Position position, char const* what) const {
    if (is_captured(position)) [[unlikely]] {
      throw std::logic_error(fmt::format("{}: the host cannot wait for {}, which is being captured",
                                         what,
                                         identity_of(position.stream).name));
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
    observe_call(host_calls, {HostCall::synchronize, position}, [&] { wait_for(position); });
    note_host_follows(position);
  }
  /// Tells a runtime that observes the order that the program relies on a complete position.
  void note_host_follows(order::Position position) {
    if (observes_order()) [[unlikely]] {
      if (auto const events = events_of(slot(position.stream))) {
        events->runtime().host_follows(this, position);
      }
    }
  }

  /// Blocks the host until the position's work is complete, for callers that cannot report a
  /// failure. If waiting fails, tries again without recording a new event. Work that fails twice
  /// has failed for good, and counts as complete.
  void finish(order::Position position) noexcept {
    if (is_known_complete(position) || home_.is_left()) {
      return;
    }
    if (auto* const capture = slot(position.stream).capture.load()) [[unlikely]] {
      capture->spoilt.store(true);  // dependent work would run without waiting for it
      return;
    }
    UnheardFailure const dropped;
    OnTrackersAccount const account(observes_order());
    try {
      wait_for(position);
      note_host_follows(position);
      return;
    } catch (...) {  // NOLINT(bugprone-empty-catch): a second attempt follows
    }
    Slot& source = slot(position.stream);
    try {
      EventHandle event;
      {
        std::lock_guard const guard(source.lock);
        event = source.recent.share_earliest_from(position.number);
        // If no event is found, the stream still exists, because detach() leaves an event.
        if (event == nullptr && source.completed.load() < position.number) {
          source.events->runtime().synchronize_stream(source.native);
        }
      }
      if (event != nullptr) {
        event->pool->runtime().synchronize(event->native);
      }
    } catch (...) {  // NOLINT(bugprone-empty-catch): failed work counts as complete
    }
  }

  /// Notes that the host has seen the event complete: operations that it covers need no wait.
  void note_complete(RecordedEvent const& event) {
    for (order::StreamIndex i = 0; i < event.clock.streams(); ++i) {
      slot(i).raise_completed(event.clock[i]);
    }
  }

  /// Returns how long ago the host issued the oldest work on the stream that is known not to be
  /// complete; 0 if no such work is known. May record an event, so that a later call can tell.
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
  /// Queries the runtime for the stream's progress, and stores the newest complete operation.
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
          return;  // the newest event has just been queried or recorded
        }
      }
      OnTrackersAccount const account(observes_order());
      if (oldest == nullptr || !oldest->pool->runtime().query(oldest->native)) {
        return;
      }
      note_complete(*oldest);
    }
  }
  /// Queries the runtime for the progress of all streams.
  void look_what_is_complete() {
    for (order::StreamIndex i = 0; i < slot_count(); ++i) {
      look_what_is_complete(slot(i));
    }
  }
  /// Returns the number of operations of the slot's stream that are not known to be complete.
  /// Queries only the newest event. For a stream that failed, returns the maximum of std::uint64_t.
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

  /// Returns how many operations all streams have, including Stream::mark() and record().
  [[nodiscard]] std::uint64_t operation_count() const {
    std::uint64_t total = 0;
    for (order::StreamIndex i = 0; i < slot_count(); ++i) {
      total += slots_[i]->reserved.load();
    }
    return total;
  }
  /// Returns the newest operation of each stream that has work not known to be complete. Together,
  /// these positions cover all work issued so far.
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

  [[nodiscard]] HomeProcess const& home() const noexcept { return home_; }
  [[nodiscard]] RuntimeLife life() const noexcept { return life_; }

 protected:
  ~StreamRegistry() = default;

  /// Returns whether a runtime observes the order of the tracked streams (as Checked does).
  [[nodiscard]] bool observes_order() const noexcept {
    return observes_order_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] order::StreamIndex slot_count() const noexcept {
    return slot_count_.load(std::memory_order_acquire);
  }

  /// Records an event for the operations launched so far, if want_event() requested one or the
  /// stream is captured. Called by the launching thread before it launches an operation. A captured
  /// stream has an event for every operation, which costs the graph nothing; an event recorded on
  /// demand would also cover later operations, and would delay work in every replay that need not
  /// follow them.
  void record_if_wanted(Slot& self) {
    if (self.event_wanted.load(std::memory_order_relaxed) ||
        self.capture.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {
      self.event_wanted.store(false, std::memory_order_relaxed);
      std::lock_guard const guard(self.lock);
      event_from(self, self.launched.load(std::memory_order_relaxed));
    }
  }

  /// Returns a shared event that covers the position of a launched operation; see event_from().
  [[nodiscard]] EventHandle event_of_launched(order::Position position) {
    Slot& source = slot(position.stream);
    std::lock_guard const guard(source.lock);
    event_from(source, position.number);
    return source.recent.share_earliest_from(position.number);
  }

  /// Returns the earliest event that covers operation `number`. If there is none, records one, or
  /// returns null if the operation is known to be complete. The caller holds source.lock, and
  /// operation `number` is launched.
  RecordedEvent* event_from(Slot& source, std::uint64_t number) {
    if (auto* const existing = source.recent.earliest_from(number)) {
      return existing;
    }
    if (source.completed.load(std::memory_order_acquire) >= number) {
      return nullptr;
    }
    auto event = source.recent.take_for_recording(source.events,
                                                  source.completed.load(std::memory_order_acquire));
    // The position is read before the event is recorded, so that the event may cover more than its
    // position, but never less.
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
  RuntimeLife life_;
  HomeProcess home_;

  void wait_for(order::Position position) {
    OnTrackersAccount const account(observes_order());
    if (auto const event = event_at(position)) {
      event->pool->runtime().synchronize(event->native);
      note_complete(*event);
    }
  }

  [[nodiscard]] static std::shared_ptr<EventPool> events_of(Slot& slot) {
    std::lock_guard const guard(slot.lock);
    return slot.events;
  }
  /// Ends the capture of the slot's stream. Positions of captured work count as complete, because
  /// that work runs only when the graph is launched.
  void end_capture(Slot& slot) noexcept {
    std::lock_guard const guard(slot.lock);
    slot.raise_completed(slot.reserved.load());
    slot.recent.clear();
    slot.capture.store(nullptr, std::memory_order_release);
  }

  /// Returns whether the newest event of the stream is complete. Returns true also if there is no
  /// event, or if the newest event does not precede operation `number`.
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
    OnTrackersAccount const account(observes_order());
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
      throw std::length_error(fmt::format("more than {} streams at once", kMaxStreams));
    }
    vacated_.reserve(index + std::size_t{1});  // detach() must not allocate
    slots_[index] = std::make_unique<Slot>(index);
    slot_count_.store(index + 1, std::memory_order_release);
    return *slots_[index];
  }

  std::mutex slots_mutex_;
  std::atomic<order::StreamIndex> slot_count_{0};
  std::atomic<std::type_info const*> runtime_type_{
      nullptr};  ///< null while no device uses the tracker
  /// Whether a stream of a runtime that observes the order was ever attached.
  std::atomic<bool> observes_order_{false};
  std::array<std::unique_ptr<Slot>, kMaxStreams> slots_;
  std::vector<Slot*> vacated_;
};

}  // namespace msstream::detail
