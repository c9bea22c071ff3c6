// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"
#include "order/vector_clock.hpp"
#include "stream/launch_bells.hpp"
#include "stream/recorded_event.hpp"

#include <msstream/order/position.hpp>
#include <msstream/stream/wait_counts.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The name and the group of a stream, for reports and for memory that groups do not share.
struct StreamIdentity {
  std::string name = {};  ///< such as "group 2 compute"
  int group = -1;         ///< number in its pool; -1 for the device's default group or none
};

/// The tracker's state for one stream.
///
/// Numbers: reserved ≥ launched ≥ completed, and each only grows. An operation's number is reserved
/// when its accesses are noted, launched once its work has been passed to the runtime (or failed to
/// be), and completed when the host knows that it is complete.
///
/// Locking: `issuing` is held from reserving a number until the operation is launched or queued for
/// launching, so that launches have the order of the numbers; a thread that holds it waits only for
/// operations reserved earlier. `lock` guards events, native, identity and failures; it is held for
/// a few instructions and at most one event record (a host wait if no event can be created).
/// `clock_lock` guards only the clock, for a few instructions, and may be taken while `lock` is
/// held. No thread holds these two locks of two slots at once.
///
/// Memory ordering: launched and completed are stored with release and loaded with acquire;
/// launched also follows the rules of LaunchBells, and so does waiting: a thread raises it before
/// it looks at launched once more, and the launching thread looks at it after storing launched.
struct StreamSlot {
  /// The state that the streams of one capture share. Its address distinguishes them from the
  /// streams of other captures.
  struct Capture {
    /// Set if an operation could not be ordered after others, so that the graph would be wrong.
    std::atomic<bool> spoilt{false};
  };

  explicit StreamSlot(order::StreamIndex place) : index(place) {}

  /// Marks the operation as launched, even if its launch failed, because threads that wait for it
  /// must continue.
  void publish_launched(std::uint64_t number) noexcept {
    launched.store(number);
    if (waiting.load() != 0) [[unlikely]] {
      launched.notify_all();
    }
    bells.launched(number);
  }
  /// Blocks the host until operation `number` of the stream is launched.
  void await_launched(std::uint64_t number) noexcept {
    if (launched.load(std::memory_order_acquire) < number) [[unlikely]] {
      wait_for_launch(number);
    }
  }
  /// Sleeps until operation `number` is launched.
  [[gnu::noinline, gnu::cold]] void wait_for_launch(std::uint64_t number) noexcept {
    waiting.fetch_add(1);
    for (auto seen = launched.load(); seen < number; seen = launched.load()) {
      launched.wait(seen);
    }
    waiting.fetch_sub(1);
  }
  /// Notes that operation `number` failed. Called by the launching thread before
  /// publish_launched().
  void note_failed(std::uint64_t number, std::exception_ptr exception) noexcept {
    std::lock_guard const guard(lock);
    last_failed = number;
    if (first_failed.load(std::memory_order_relaxed) == kNoneFailed) {
      first_failed.store(number, std::memory_order_relaxed);
      failure = std::move(exception);
    }
  }
  /// Returns the exception of operation `number`, which must be launched, or of an earlier
  /// operation of the stream; null if none failed.
  [[nodiscard]] std::exception_ptr failure_up_to(std::uint64_t number) noexcept {
    if (first_failed.load(std::memory_order_relaxed) > number) [[likely]] {
      return nullptr;
    }
    std::lock_guard const guard(lock);
    return first_failed.load(std::memory_order_relaxed) <= number ? failure : nullptr;
  }
  void forget_failures_up_to(std::uint64_t number) noexcept {
    std::exception_ptr forgotten;  // destroyed after the lock is released
    std::lock_guard const guard(lock);
    if (first_failed.load(std::memory_order_relaxed) <= number) {
      bool const was_last = last_failed <= number;
      first_failed.store(was_last ? kNoneFailed : number + 1, std::memory_order_relaxed);
      if (was_last) {
        forgotten.swap(failure);
      }
    }
  }
  [[nodiscard]] order::VectorClock copy_of_clock() {
    std::lock_guard const guard(clock_lock);
    return clock;
  }
  void raise_completed(std::uint64_t number) noexcept {
    auto known = completed.load(std::memory_order_relaxed);
    while (known < number &&
           !completed.compare_exchange_weak(known, number, std::memory_order_acq_rel)) {
    }
  }

  static constexpr std::uint64_t kNoneFailed = std::numeric_limits<std::uint64_t>::max();

  order::StreamIndex const index;
  std::mutex issuing;
  std::atomic<std::uint64_t> reserved{0};
  std::atomic<std::uint64_t> launched{0};
  /// The threads that wait for a change of `launched`. To notify nobody would still write to a
  /// cache line that all threads of the process share.
  std::atomic<std::uint32_t> waiting{0};
  LaunchBells bells;  ///< for threads that sleep until `launched` reaches a number
  std::atomic<std::uint64_t> completed{0};
  /// The capture to which the stream's work goes; null if the work runs. Set from attach() to
  /// detach().
  std::atomic<Capture*> capture{nullptr};
  /// The number of the first operation that failed or was given up, until a caller takes the
  /// failure.
  std::atomic<std::uint64_t> first_failed{kNoneFailed};

  /// Requests that the stream records an event before its next launch.
  std::atomic<bool> event_wanted{false};

  SpinLock clock_lock;
  order::VectorClock clock;

  SpinLock lock;
  std::uint64_t last_failed = 0;
  std::exception_ptr failure;
  RecentEvents recent;
  NativeStream native{};
  StreamIdentity identity;  ///< kept when the stream is gone, until the slot is reused
  std::shared_ptr<EventPool> events;

  /// Vector clocks for intermediate results. Used only by the launching thread.
  std::vector<order::VectorClock> scratch;
  /// The waits behind the stream's clock, for TrackerOptions::explain: reasons[w] is the event
  /// whose wait last raised component w of the clock.
  std::vector<order::Position> reasons;

  std::atomic<std::uint64_t> waits_needed{0};
  std::atomic<std::uint64_t> waits_issued{0};
  std::atomic<std::uint64_t> waits_elided{0};
};

}  // namespace msstream::detail
