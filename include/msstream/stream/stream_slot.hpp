// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/spin_lock.hpp>
#include <msstream/order/position.hpp>
#include <msstream/order/vector_clock.hpp>
#include <msstream/stream/launch_bells.hpp>
#include <msstream/stream/recorded_event.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace msstream {

/// How many waits an ordering took. needed: on other streams, by the hazards; issued: asked of the
/// runtime; elided: known to hold already. needed = issued + elided.
struct WaitCounts {
  std::uint64_t needed = 0;
  std::uint64_t issued = 0;
  std::uint64_t elided = 0;

  WaitCounts& operator+=(WaitCounts const& other) {
    needed += other.needed;
    issued += other.issued;
    elided += other.elided;
    return *this;
  }
  [[nodiscard]] std::string describe() const {
    return text(needed, " waits needed, ", issued, " issued, ", elided, " elided");
  }
  friend bool operator==(WaitCounts const&, WaitCounts const&) = default;
};

/// Whose a stream is, for those who account for streams or keep groups apart.
struct StreamIdentity {
  std::string name = {};  ///< such as "group 2 compute"
  int group = -1;         ///< number in its pool; -1: the device's default group, or none
};

/// What the streams of one capture share; tells them from those of others.
struct CaptureState {
  /// Something could not be ordered: the graph would be wrong.
  std::atomic<bool> spoilt{false};
};

/// What the tracker knows of one stream.
///
/// Numbers: reserved ≥ launched ≥ completed, each only grows. An operation's number is reserved
/// when its accesses are noted, launched once its work has been given to the runtime (or has failed
/// to be), completed when the host knows it is. Locking: `issuing` is held from reserving a number
/// until the operation is launched or queued for launching, so that numbers and launches have one
/// order; a thread that holds it waits only for operations reserved earlier. `lock` guards
/// events, native, identity and failures for a few instructions and at most one record (a host wait
/// where no event can be had), `clock_lock` the clock for a few instructions alone, also inside
/// `lock`; of two slots nobody holds locks at once. Memory ordering: launched and
/// completed are stored with release and loaded with acquire, launched also as `bells` have it.
template <Runtime R>
struct StreamSlot {
  explicit StreamSlot(order::StreamIndex place) : index(place) {}

  /// Also when the operation failed to be launched: those who wait for it must go on.
  void publish_launched(std::uint64_t number) noexcept {
    launched.store(number);
    launched.notify_all();
    bells.launched(number);
  }
  /// Blocks the host until operation `number` is launched.
  void await_launched(std::uint64_t number) noexcept {
    for (auto seen = launched.load(std::memory_order_acquire); seen < number;
         seen = launched.load(std::memory_order_acquire)) {
      launched.wait(seen, std::memory_order_acquire);
    }
  }
  /// By the launching thread, before the number is published.
  void note_failed(std::uint64_t number, std::exception_ptr exception) noexcept {
    std::lock_guard const guard(lock);
    last_failed = number;
    if (first_failed.load(std::memory_order_relaxed) == kNoneFailed) {
      first_failed.store(number, std::memory_order_relaxed);
      failure = std::move(exception);
    }
  }
  /// What operation `number`, launched, has thrown or follows on its stream; null: nothing.
  [[nodiscard]] std::exception_ptr failure_up_to(std::uint64_t number) noexcept {
    if (first_failed.load(std::memory_order_relaxed) > number) [[likely]] {
      return nullptr;
    }
    std::lock_guard const guard(lock);
    return first_failed.load(std::memory_order_relaxed) <= number ? failure : nullptr;
  }
  void forget_failures_up_to(std::uint64_t number) noexcept {
    std::exception_ptr forgotten;  // goes when the lock is free
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
  LaunchBells bells;  ///< of threads that sleep until `launched` grows
  std::atomic<std::uint64_t> completed{0};
  /// What the stream is given is captured; null: it runs. Set from attach() to detach().
  std::atomic<CaptureState*> capture{nullptr};
  /// The first operation that was given up, until a caller takes the failure.
  std::atomic<std::uint64_t> first_failed{kNoneFailed};

  /// Before the next launch.
  std::atomic<bool> event_wanted{false};

  SpinLock clock_lock;
  order::VectorClock clock;

  SpinLock lock;
  std::uint64_t last_failed = 0;
  std::exception_ptr failure;
  RecentEvents<R> recent;
  typename R::native_stream native{};
  StreamIdentity identity;  ///< that of the last stream when it is gone
  std::shared_ptr<EventPool<R>> events;

  /// Used by the launching thread alone.
  std::vector<order::VectorClock> scratch;
  /// For explained waits: reasons[w] is the event whose wait last raised the clock's component w.
  std::vector<order::Position> reasons;

  std::atomic<std::uint64_t> waits_needed{0};
  std::atomic<std::uint64_t> waits_issued{0};
  std::atomic<std::uint64_t> waits_elided{0};
};

}  // namespace msstream
