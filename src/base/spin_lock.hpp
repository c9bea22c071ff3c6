// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <thread>

namespace msstream::detail {

/// Tells the processor that the thread is in a spin loop, so that other hardware threads get more
/// of its resources.
inline void relax_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A one-byte lock for critical sections of a few instructions. After a short spin, a waiting
/// thread yields its time slice.
///
/// States: free, held. Ownership: the thread that locked it must unlock it. Memory ordering: unlock
/// releases, lock acquires.
class SpinLock {
 public:
  [[gnu::always_inline]] void lock() noexcept {
    if (!try_lock()) [[unlikely]] {
      wait_and_lock();
    }
  }
  [[nodiscard, gnu::always_inline]] bool try_lock() noexcept {
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

}  // namespace msstream::detail
