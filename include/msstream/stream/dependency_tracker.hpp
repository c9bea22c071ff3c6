// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/mechanism.hpp>
#include <msstream/base/text.hpp>
#include <msstream/order/minimal_waits.hpp>
#include <msstream/order/position_set.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/stream/access.hpp>
#include <msstream/stream/inside_work.hpp>
#include <msstream/stream/stream_registry.hpp>

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

namespace msstream {

struct TrackerOptions {
  /// Skip waits that are known to hold already. Off: every hazard between streams waits (to
  /// measure, or to test a doubt).
  bool reduce_waits = true;
  /// Called with a sentence for every elided wait, saying which earlier wait covers it; on the
  /// launching thread, also on several at once. For debugging: it is slow.
  std::function<void(std::string const&)> explain;
};

/// Knows the order of all work on all streams of a program, and issues the waits that are missing
/// and no others.
///
/// A wait is elided exactly when the stream's vector clock, or the host, already covers it. Among
/// several needed waits those that another one implies are dropped. Thread-safe; no lock is shared
/// between streams.
template <Runtime R = DefaultRuntime>
class DependencyTracker : public StreamRegistry<R> {
 public:
  using typename StreamRegistry<R>::Slot;
  using StreamRegistry<R>::slot;
  using StreamRegistry<R>::synchronize;

  explicit DependencyTracker(TrackerOptions options = {}) : options_(std::move(options)) {}

  /// Gives the operation its number and notes its accesses; `needed` gets what it must follow.
  /// The caller holds `self.issuing`, and must launch or abandon the number before others on the
  /// slot.
  std::uint64_t reserve(Slot& self, AccessSet& accesses, order::PositionSet& needed) {
    return reserve(self, accesses, needed, [](TrackedOrder const&) { return true; });
  }
  /// Asks `agree(TrackedOrder)` first, before anything else can come to use the same memory; false:
  /// nothing is noted nor reserved, and the number is 0.
  template <class Agree>
  std::uint64_t reserve(Slot& self,
                        AccessSet& accesses,
                        order::PositionSet& needed,
                        Agree&& agree) {
    accesses.normalise();
    LockedRecords const locked(accesses);
    for (auto const& access : accesses) {
      if (access.mode == AccessMode::write) {
        access.record->log.add_hazards_of_write(needed);
      } else {
        access.record->log.add_hazards_of_read(needed);
      }
    }
    order::Position const position{self.index, self.reserved.load(std::memory_order_relaxed) + 1};
    if (!agree(TrackedOrder{this, position, {needed.begin(), needed.size()}})) [[unlikely]] {
      return 0;
    }
    for (auto const& access : accesses) {
      if (access.mode == AccessMode::write) {
        access.record->log.note_write(position);
      } else {
        access.record->log.note_read(position);
      }
    }
    self.reserved.store(position.number, std::memory_order_release);
    return position.number;
  }

  /// Makes the slot's stream wait for `needed`, runs `work`, and marks the number launched, also
  /// when one of them throws. Blocks the host while others launch what is needed.
  ///
  /// Not null: `work` was given up, because it follows work that failed so on a launch thread. A
  /// caller who knew would not have issued it: its inputs, ids and counts among them, are whatever
  /// was in memory.
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

  /// The same for a launch thread, where nobody catches: `failed(exception)` is called instead,
  /// also for work that is given up, before those who wait for the number go on. All of `needed` is
  /// launched.
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

  /// Waits until all that has been issued by now is launched or given up; from then on operations
  /// may follow those that failed.
  void forget_failures() noexcept {
    std::array<std::uint64_t, StreamRegistry<R>::kMaxStreams> known;
    auto const slots = this->slot_count();
    for (order::StreamIndex i = 0; i < slots; ++i) {
      known[i] = slot(i).reserved.load(std::memory_order_acquire);
      slot(i).await_launched(known[i]);
    }
    for (order::StreamIndex i = 0; i < slots; ++i) {
      slot(i).forget_failures_up_to(known[i]);
    }
  }

  /// What failed on a launch thread among `needed`, which is all launched, or before it on the same
  /// streams; null: nothing.
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

  /// Gives up a reserved number whose operation will never be launched; blocks the host until what
  /// it needed is complete.
  void abandon(Slot& self, std::uint64_t number, order::PositionSet const& needed) noexcept {
    self.await_launched(number - 1);
    settle(needed);
    publish_launched(self, number);
  }

  /// Runs `work` while nothing is being launched on the slot, by whatever thread.
  /// Throws std::logic_error inside the work of an operation, which is being launched itself.
  template <class Work>
  void while_idle(Slot& self, Work&& work) {
    this->home().require_here();
    InsideWork::refuse("Stream::record, wait or synchronize");
    std::lock_guard const guard(self.issuing);
    self.await_launched(self.reserved.load(std::memory_order_acquire));
    std::forward<Work>(work)();
  }

  /// Whether launch() would have to wait for another thread to launch what this needs.
  [[nodiscard]] bool launchable(order::PositionSet const& needed) const noexcept {
    return first_to_launch(needed) == nullptr;
  }
  /// What launch() would wait for first; null: nothing.
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

  /// A new position that stands for all work put on the stream so far; its event is recorded when
  /// somebody needs it. The caller holds `self.issuing`, and all that is reserved is launched.
  order::Position advance(Slot& self) noexcept {
    auto const number = self.reserved.load(std::memory_order_relaxed) + 1;
    if constexpr (OrderObservingRuntime<R>) {
      self.events->runtime().position_marked(self.native, this, {self.index, number});
    }
    self.reserved.store(number, std::memory_order_release);
    self.publish_launched(number);
    return {self.index, number};
  }
  /// The same while nothing is launched on the slot through issue(); the stream must be there as
  /// long as the tracker.
  order::Position mark(Slot& self) noexcept {
    if (this->home().is_left()) {
      return {self.index, self.reserved.load()};
    }
    std::lock_guard const guard(self.issuing);
    return advance(self);
  }
  /// The same with an event: nobody has to touch the stream on the position's account afterwards,
  /// so it may go. Blocks the host where no event can be had.
  order::Position mark_with_event(Slot& self) noexcept {
    if (this->home().is_left()) {
      return {self.index, self.reserved.load()};
    }
    std::lock_guard const guard(self.issuing);
    // Until the event is there, nobody else records one, who may know nothing of the stream.
    std::lock_guard const recording(self.lock);
    auto const position = advance(self);
    try {
      this->event_from(self, position.number);
    } catch (...) {
      UnheardFailure const dropped;
      try {
        observe::OnTrackersAccount<R> const account;
        self.events->runtime().synchronize_stream(self.native);
      } catch (...) {  // NOLINT(bugprone-empty-catch): failed work is over
      }
      self.raise_completed(position.number);
    }
    return position;
  }

  /// Makes the stream's next work wait for `needed`, once that is launched. One thread at a time a
  /// slot.
  void order_after(Slot& self, order::PositionSet& needed) {
    note_follows(self, {needed.begin(), needed.size()});
    await_launched(needed);
    order_after_launched(self, needed);
  }

  /// Makes the stream's next work wait for an event that the caller shares, which stands for no
  /// more than it says, however old. One thread at a time a slot.
  void order_after(Slot& self, RecordedEvent<R> const& event) {
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
    observe::OnTrackersAccount<R> const account;
    self.events->runtime().wait(self.native, event.native);
    merge(self, event.clock, event.position);
    add_to(self.waits_issued, 1);
  }

  /// Whether a stream's future work is already ordered after the position, without any new wait.
  /// Explains nothing: those who ask may hold locks.
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
    if constexpr (OrderObservingRuntime<R>) {
      self.events->runtime().position_launched(this, {self.index, number});
    }
    self.publish_launched(number);
  }
  void note_follows(Slot& self, std::span<order::Position const> needed) {
    if constexpr (OrderObservingRuntime<R>) {
      self.events->runtime().stream_follows(self.native, this, needed);
    }
  }

  /// Blocks the host while others launch what is needed. Positions of the slot's own stream are
  /// launched: whoever holds `issuing` comes after them.
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
      // The accesses' records come in the order of their addresses, which no other run repeats.
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

  /// Otherwise there is nothing to wait for: a graph runs after all that its launch follows, and
  /// what is being captured has not run.
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

  /// Who follows this follows the failure.
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

  /// The accesses of an operation that could not wait for `needed` are noted already, in place of
  /// those before: whoever waits for that operation believes to be after `needed`, so make it true.
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
            text("no wait of stream ", self.index, " for ", position, ": known to be complete"));
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
      options_.explain(text("no wait of stream ",
                            self.index,
                            " for ",
                            position,
                            ": covered by its wait for ",
                            self.reasons[position.stream]));
    }
    return covered;
  }

  /// False when there is nothing left to wait for.
  bool issue_wait(Slot& self, order::Position position) {
    auto const event = this->event_of_launched(position);
    if (event == nullptr) {
      return false;
    }
    observe::OnTrackersAccount<R> const account;
    self.events->runtime().wait(self.native, event->native);
    if (works(Mechanism::event_clock)) {
      merge(self, event->clock, event->position);
    } else {
      merge(self, slot(position.stream).copy_of_clock(), event->position);
    }
    return true;
  }

  /// After the wait has been issued.
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

MSSTREAM_COMPILED_ONCE(class DependencyTracker<DefaultRuntime>);

}  // namespace msstream
