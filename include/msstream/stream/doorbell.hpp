// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace msstream {

/// Tells threads that look for work in a place of their own that there may be some.
///
///     auto const rung = bell.rung();
///     if (!found_work()) bell.sleep(rung);
///
/// sleep() returns at once if the bell was rung since rung(). Ringing is one atomic addition and
/// two loads unless all who could look are asleep. Thread-safe; ringing and sleeping have one
/// order, so that whoever rings after putting work somewhere is heard.
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
  /// The same until a time at the latest.
  void sleep_until(std::uint64_t rung, std::chrono::steady_clock::time_point end) {
    Sleeping const asleep(*this);
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, end, [&] { return rings_.load() != rung; });
  }
  /// How often a thread has gone to sleep.
  [[nodiscard]] std::uint64_t sleeps() const noexcept { return sleeps_.load(); }

  /// While the guard lives its thread looks at rung() again and again: nobody need be woken. It
  /// looks for work once more when the guard is gone.
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

}  // namespace msstream
