// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace msstream::detail {

/// Wakes threads that look for work in their own data structures when there may be some:
///
///     auto const rung = bell.rung();
///     if (!found_work()) bell.sleep(rung);
///
/// If ring() was called since rung(), sleep() returns at once. ring() costs one atomic addition and
/// two loads, unless all threads that could look for work are asleep. Thread-safe. Rings and sleeps
/// have one total order, so a thread that rings after it has made work available is always noticed.
class Doorbell {
 public:
  [[nodiscard]] std::uint64_t rung() const noexcept { return rings_.load(); }

  void ring() {
    rings_.fetch_add(1);
    if (watching_.load() == 0 && sleeping_.load() != 0) {
      std::lock_guard const guard(mutex_);
      changed_.notify_one();
    }
  }
  void ring_for_all() {
    rings_.fetch_add(1);
    std::lock_guard const guard(mutex_);
    changed_.notify_all();
  }
  void sleep(std::uint64_t rung) {
    Sleeping const asleep(*this);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return rings_.load() != rung; });
  }
  /// Sleeps until the bell has rung since `rung`, or until the time `end`.
  void sleep_until(std::uint64_t rung, std::chrono::steady_clock::time_point end) {
    Sleeping const asleep(*this);
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, end, [&] { return rings_.load() != rung; });
  }
  /// Returns how many times a thread has started to sleep.
  [[nodiscard]] std::uint64_t sleeps() const noexcept { return sleeps_.load(); }

  /// A guard for a thread that polls rung(). While the guard lives, ring() need not wake a thread.
  /// The thread must look for work once more after the guard is destroyed.
  class Watch {
   public:
    explicit Watch(Doorbell& bell) noexcept : bell_(bell) { bell_.watching_.fetch_add(1); }
    ~Watch() { bell_.watching_.fetch_sub(1); }
    Watch(Watch const&) = delete;
    Watch& operator=(Watch const&) = delete;

   private:
    Doorbell& bell_;
  };

 private:
  class Sleeping {
   public:
    explicit Sleeping(Doorbell& bell) noexcept : bell_(bell) {
      bell_.sleeps_.fetch_add(1);
      bell_.sleeping_.fetch_add(1);
    }
    ~Sleeping() { bell_.sleeping_.fetch_sub(1); }
    Sleeping(Sleeping const&) = delete;
    Sleeping& operator=(Sleeping const&) = delete;

   private:
    Doorbell& bell_;
  };

  std::atomic<std::uint64_t> rings_{0};
  std::atomic<std::uint32_t> watching_{0};
  std::atomic<std::uint32_t> sleeping_{0};
  std::atomic<std::uint64_t> sleeps_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace msstream::detail
