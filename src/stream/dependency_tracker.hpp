// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/mechanism.hpp"
#include "order/minimal_waits.hpp"
#include "stream/access.hpp"
#include "stream/inside_work.hpp"
#include "stream/stream_registry.hpp"

#include <msstream/base/format.hpp>
#include <msstream/order/detail/position_set.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {

struct TrackerOptions {
  /// If true, elides waits that are known to hold already. If false, every hazard between streams
  /// issues a wait, to measure the difference or to rule out an error in the elision.
  bool reduce_waits = true;
  /// Receives, for every elided wait, a sentence that names the earlier wait that covers it. Called
  /// on the launching thread, so possibly on several threads at once. Slow, so only for debugging.
  std::function<void(std::string const&)> explain;
};

/// Tracks the order of all work on all streams of a program, and issues exactly the waits that are
/// missing.
///
/// A wait is elided exactly if the stream's vector clock covers the position to wait for, or the
/// host has seen it complete. Among several positions to wait for, those implied by another one are
/// dropped. Thread-safe; no lock is shared between streams.
class DependencyTracker : public StreamRegistry {
 public:
  explicit DependencyTracker(RuntimeLife life, TrackerOptions options = {})
      : StreamRegistry(life), options_(std::move(options)) {}

  /// Reserves the next operation number of the slot's stream, notes the operation's accesses, and
  /// adds to `needed` the positions that the operation must follow. The caller holds
  /// `self.issuing`, and must launch or abandon the number before another operation is reserved on
  /// the slot.
  std::uint64_t reserve(Slot& self, AccessSet& accesses, order::PositionSet& needed) {
    return reserve(self, accesses, needed, [](TrackedOrder const&) { return true; });
  }
  /// Reserves an operation's number and notes its accesses, but only if `agree(TrackedOrder)`
  /// returns true; otherwise does nothing and returns 0. Calls `agree` while no other operation can
  /// use the same memory. The caller holds `self.issuing`.
  template <class Agree>
  std::uint64_t reserve(Slot& self,
                        AccessSet& accesses,
                        order::PositionSet& needed,
                        Agree&& agree) {
    accesses.normalise();
    LockedRecords const locked(accesses);
    for (auto const& access : accesses) {
      access.record->add_hazards(access.mode, needed);
    }
    order::Position const position{self.index, self.reserved.load(std::memory_order_relaxed) + 1};
    if (!agree(TrackedOrder{this, position, {needed.begin(), needed.size()}})) [[unlikely]] {
      return 0;
    }
    for (auto const& access : accesses) {
      access.record->note(access.mode, position);
    }
    self.reserved.store(position.number, std::memory_order_release);
    return position.number;
  }

  /// Makes the slot's stream wait for `needed`, runs `work`, and marks the number as launched, even
  /// if a wait or `work` throws. First blocks the host until the operations in `needed` have been
  /// launched by their threads.
  ///
  /// If the operation depends on work that failed on a launch thread, returns that failure and does
  /// not run `work`, whose inputs, including ids and counts, would be whatever was in memory.
  /// Otherwise returns null.
  template <class Work>
  [[nodiscard]] std::exception_ptr launch(Slot& self,
                                          std::uint64_t number,
                                          order::PositionSet& needed,
                                          Work&& work) {
    Launched const launched{*this, self, number};
    await_launched(needed);
    if (auto failure = failure_behind(needed); failure != nullptr) [[unlikely]] {
      give_up(self, number, needed, failure);
      return failure;
    }
    order_or_settle(self, needed);
    std::forward<Work>(work)();
    return nullptr;
  }

  /// Launches an operation as launch() does, on a launch thread, which has no caller to catch
  /// exceptions. If the launch fails, or the work is given up because of an earlier failure, calls
  /// `failed(exception)` before the threads that wait for the number continue. All operations in
  /// `needed` must be launched.
  template <class Work, class Failed>
  void launch_if_sound(Slot& self,
                       std::uint64_t number,
                       order::PositionSet& needed,
                       Work&& work,
                       Failed&& failed) noexcept {
    Launched const launched{*this, self, number};
    if (auto failure = failure_behind(needed); failure != nullptr) [[unlikely]] {
      give_up(self, number, needed, failure);
      failed(std::move(failure));
      return;
    }
    try {
      order_or_settle(self, needed);
      std::forward<Work>(work)();
    } catch (...) {
      self.note_failed(number, std::current_exception());
      failed(std::current_exception());
    }
  }

  /// Waits until all operations issued so far are launched or given up. Operations issued
  /// afterwards may then follow those that failed.
  void forget_failures() noexcept {
    std::array<std::uint64_t, StreamRegistry::kMaxStreams> known;
    auto const slots = this->slot_count();
    for (order::StreamIndex i = 0; i < slots; ++i) {
      known[i] = slot(i).reserved.load(std::memory_order_acquire);
      slot(i).await_launched(known[i]);
    }
    for (order::StreamIndex i = 0; i < slots; ++i) {
      slot(i).forget_failures_up_to(known[i]);
    }
  }

  /// Returns a failure that occurred on a launch thread in an operation of `needed`, or in an
  /// earlier operation of the same streams; null if there is none. All operations in `needed` must
  /// be launched.
  [[nodiscard]] std::exception_ptr failure_behind(order::PositionSet const& needed) noexcept {
    if (works(Mechanism::failure_propagation)) {
      for (auto const& position : needed) {
        if (auto failure = slot(position.stream).failure_up_to(position.number)) {
          return failure;
        }
      }
    }
    return nullptr;
  }

  /// Gives up a reserved number whose operation will never be launched. Blocks the host until the
  /// operations in `needed` are complete.
  void abandon(Slot& self, std::uint64_t number, order::PositionSet const& needed) noexcept {
    self.await_launched(number - 1);
    settle(needed);
    publish_launched(self, number);
  }

  /// Runs `work` while no thread is launching an operation on the slot. Throws std::logic_error if
  /// called inside the work of an operation, which is itself being launched.
  template <class Work>
  void while_idle(Slot& self, Work&& work) {
    this->home().require_here();
    InsideWork::refuse("Stream::record, wait or synchronize");
    std::lock_guard const guard(self.issuing);
    self.await_launched(self.reserved.load(std::memory_order_acquire));
    std::forward<Work>(work)();
  }

  /// Returns whether all operations in `needed` are launched, so that launch() need not wait for
  /// other threads.
  [[nodiscard]] bool launchable(order::PositionSet const& needed) const noexcept {
    return first_to_launch(needed) == nullptr;
  }
  /// Returns the first position in `needed` that is not launched, and that launch() would therefore
  /// wait for; null if all are launched.
  [[nodiscard]] order::Position const* first_to_launch(
      order::PositionSet const& needed) const noexcept {
    if (!works(Mechanism::launch_handshake)) {
      return nullptr;
    }
    auto const* const found =
        std::find_if(needed.begin(), needed.end(), [this](order::Position const& position) {
          return slot(position.stream).launched.load(std::memory_order_acquire) < position.number;
        });
    return found != needed.end() ? found : nullptr;
  }

  /// Returns a new position that covers all work put on the stream so far. Its event is recorded
  /// when it is first needed. The caller holds `self.issuing`, and all reserved operations are
  /// launched.
  order::Position advance(Slot& self) noexcept {
    auto const number = self.reserved.load(std::memory_order_relaxed) + 1;
    if (this->observes_order()) [[unlikely]] {
      self.events->runtime().position_marked(self.native, this, {self.index, number});
    }
    self.reserved.store(number, std::memory_order_release);
    self.publish_launched(number);
    return {self.index, number};
  }
  /// Takes `self.issuing`, and returns a new position that covers all work put on the stream so
  /// far. Must not be called while an operation is being launched on the slot. The stream must live
  /// as long as the tracker.
  order::Position mark(Slot& self) noexcept {
    if (this->home().is_left()) {
      return {self.index, self.reserved.load()};
    }
    std::lock_guard const guard(self.issuing);
    return advance(self);
  }
  /// Returns a new position that covers all work put on the stream so far, and records its event at
  /// once, so the stream may be destroyed afterwards. If no event can be created, blocks the host
  /// until the stream's work is complete.
  order::Position mark_with_event(Slot& self) noexcept {
    if (this->home().is_left()) {
      return {self.index, self.reserved.load()};
    }
    std::lock_guard const guard(self.issuing);
    // The lock is taken before the position is published, so that no other thread records the
    // position's event: other threads do not know whether the stream still exists.
    std::lock_guard const recording(self.lock);
    auto const position = advance(self);
    try {
      this->event_from(self, position.number);
    } catch (...) {
      UnheardFailure const dropped;
      try {
        OnTrackersAccount const account(this->observes_order());
        self.events->runtime().synchronize_stream(self.native);
      } catch (...) {  // NOLINT(bugprone-empty-catch): failed work counts as complete
      }
      self.raise_completed(position.number);
    }
    return position;
  }

  /// Makes the stream's next work wait for `needed`, after waiting on the host until `needed` is
  /// launched. Only one thread at a time may call it for a slot.
  void order_after(Slot& self, order::PositionSet& needed) {
    note_follows(self, {needed.begin(), needed.size()});
    await_launched(needed);
    order_after_launched(self, needed);
  }

  /// Makes the stream's next work wait for a shared event. However old the event is, it still
  /// covers the work of its position and clock, because a shared event is not recorded again. Only
  /// one thread at a time may call it for a slot.
  void order_after(Slot& self, RecordedEvent const& event) {
    if (event.position.stream == self.index) {
      return;
    }
    if (!is_same_capture(self, event.position)) {
      return;
    }
    note_follows(self, {&event.position, 1});
    add_to(self.waits_needed, 1);
    if (options_.reduce_waits && holds_already(self, event.position)) {
      add_to(self.waits_elided, 1);
      return;
    }
    issue_wait(self, event);
    merge(self, event.clock, event.position);
    add_to(self.waits_issued, 1);
  }

  /// Returns whether the stream's future work is already ordered after the position without a new
  /// wait. Never calls TrackerOptions::explain, because the caller may hold locks.
  [[nodiscard]] bool covers(Slot& self, order::Position position) {
    return position.stream == self.index || !is_same_capture(self, position) ||
           holds_already(self, position, Explain::no);
  }

  [[nodiscard]] WaitCounts wait_counts() const {
    WaitCounts total;
    for (order::StreamIndex i = 0; i < this->slot_count(); ++i) {
      total +=
          {slot(i).waits_needed.load(), slot(i).waits_issued.load(), slot(i).waits_elided.load()};
    }
    return total;
  }

 private:
  struct Launched {
    DependencyTracker& tracker;
    Slot& self;
    std::uint64_t number;
    ~Launched() { tracker.publish_launched(self, number); }
  };
  void publish_launched(Slot& self, std::uint64_t number) noexcept {
    if (this->observes_order()) [[unlikely]] {
      self.events->runtime().position_launched(this, {self.index, number});
    }
    self.publish_launched(number);
  }
  void note_follows(Slot& self, std::span<order::Position const> needed) {
    if (this->observes_order()) [[unlikely]] {
      self.events->runtime().stream_follows(self.native, this, needed);
    }
  }

  /// Blocks the host until the operations in `needed` have been launched. Positions of the slot's
  /// own stream are launched already, because the calling thread holds `issuing`.
  void await_launched(order::PositionSet const& needed) const noexcept {
    if (works(Mechanism::launch_handshake)) {
      for (auto const& position : needed) {
        slot(position.stream).await_launched(position.number);
      }
    }
  }

  void order_after_launched(Slot& self, order::PositionSet& needed) {
    needed.remove_if([&](auto const& position) {
      return position.stream == self.index || !is_same_capture(self, position);
    });
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
      waits.push_back(position);
    }
    if (waits.size() > 1) {
      // Sorts the waits by stream, so that their order is the same in every run: accesses are
      // sorted by the addresses of their records, which differ between runs.
      std::sort(waits.begin(), waits.end(), [](auto const& a, auto const& b) {
        return a.stream < b.stream;
      });
      if (options_.reduce_waits) {
        sort_by_coverage(self, {waits.begin(), waits.size()});
      }
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

  /// Returns whether both streams are in the same capture, or neither is captured. Otherwise there
  /// is nothing to wait for: a graph runs after all work that its launch follows, and captured work
  /// has not run.
  [[nodiscard]] bool is_same_capture(Slot const& self, order::Position position) const noexcept {
    return slot(position.stream).capture.load(std::memory_order_acquire) ==
           self.capture.load(std::memory_order_relaxed);
  }

  void order_or_settle(Slot& self, order::PositionSet& needed) {
    try {
      this->record_if_wanted(self);
      order_after_launched(self, needed);
    } catch (...) {
      settle(needed);
      throw;
    }
  }

  /// Marks the operation as failed, so that operations that follow it also fail with `failure`, and
  /// blocks the host until `needed` is complete.
  void give_up(Slot& self,
               std::uint64_t number,
               order::PositionSet const& needed,
               std::exception_ptr const& failure) noexcept {
    self.note_failed(number, failure);
    settle(needed);
  }

  static void add_to(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  /// Blocks the host until `needed` is complete, for an operation that could not be ordered after
  /// `needed`. Its accesses have already replaced the earlier ones, so operations that follow it
  /// rely on `needed` being complete.
  void settle(order::PositionSet const& needed) noexcept {
    for (auto const& position : needed) {
      this->finish(position);
    }
  }

  enum class Explain : bool { no, yes };

  bool holds_already(Slot& self, order::Position position, Explain explain = Explain::yes) {
    bool const explains = explain == Explain::yes && options_.explain;
    auto const& over = works(Mechanism::elision_by_completion) ? slot(position.stream).completed
                                                               : slot(position.stream).launched;
    if (over.load(std::memory_order_acquire) >= position.number) {
      if (explains) {
        options_.explain(
            fmt::format("no wait of stream {} for {}: known to be complete", self.index, position));
      }
      return true;
    }
    bool covered = false;
    {
      std::lock_guard const guard(self.clock_lock);
      covered = works(Mechanism::elision_by_number) ? self.clock.covers(position)
                                                    : self.clock[position.stream] != 0;
    }
    if (covered && explains) {
      options_.explain(fmt::format("no wait of stream {} for {}: covered by its wait for {}",
                                   self.index,
                                   position,
                                   self.reasons[position.stream]));
    }
    return covered;
  }

  void issue_wait(Slot& self, RecordedEvent const& event) {
    OnTrackersAccount const account(this->observes_order());
    observe_call(this->host_calls, {HostCall::wait, event.position, self.index}, [&] {
      self.events->runtime().wait(self.native, event.native);
    });
    if (auto const log = this->wait_log.current(); log != nullptr) [[unlikely]] {
      log->add(event.position, {self.index, self.launched.load(std::memory_order_relaxed) + 1});
    }
  }
  /// Makes the stream wait for the position. Returns false if the position's work is known to be
  /// complete, so that no wait is issued.
  bool issue_wait(Slot& self, order::Position position) {
    auto const event = this->event_of_launched(position);
    if (event == nullptr) {
      return false;
    }
    issue_wait(self, *event);
    if (works(Mechanism::event_clock)) {
      merge(self, event->clock, event->position);
    } else {
      merge(self, slot(position.stream).copy_of_clock(), event->position);
    }
    return true;
  }

  /// Merges the event's clock into the slot's clock, after the wait has been issued.
  void merge(Slot& self, order::VectorClock const& brought, order::Position waited_for) {
    std::lock_guard const guard(self.clock_lock);
    if (options_.explain) {
      note_reasons(self, brought, waited_for);
    }
    self.clock.merge(brought);
  }

  void sort_by_coverage(Slot& self, std::span<order::Position> waits) {
    if (self.scratch.size() < waits.size()) {
      self.scratch.resize(waits.size());
    }
    for (std::size_t i = 0; i < waits.size(); ++i) {
      Slot& source = slot(waits[i].stream);
      std::lock_guard const guard(source.lock);
      if (auto const* const event = source.recent.earliest_from(waits[i].number)) {
        self.scratch[i] = event->clock;
      } else {
        std::lock_guard const clock_guard(source.clock_lock);
        self.scratch[i] = source.clock;
      }
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
};

}  // namespace msstream::detail
