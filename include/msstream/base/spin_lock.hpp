// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <thread>

namespace msstream {

/// For loops that look again and again: lets others have the processor's resources meanwhile.
inline void relax_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A one-byte lock for critical sections of a few instructions; after a short spin it yields its
/// time slice.
///
/// States: free, held. Ownership: the thread that locked it. Memory ordering: unlock releases, lock
/// acquires.
class SpinLock {
 public:
  void lock() noexcept {
    if (!try_lock()) {
      wait_and_lock();
    }
  }
  [[nodiscard]] bool try_lock() noexcept {
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpins = 64;

  [[gnu::noinline, gnu::cold]] void wait_and_lock() noexcept {
    for (int attempts = 0; !try_lock(); ++attempts) {
      if (attempts < kSpins) {
        relax_processor();
      } else {
        std::this_thread::yield();
      }
    }
  }

  std::atomic<bool> held_{false};
};

}  // namespace msstream
