// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace msstream::comm::detail {

/// How many collectives of all ranks each rank has launched, of ranks that are threads.
///
/// Thread-safe; a rank counts on one thread at a time. Memory ordering: what a rank did before it
/// counted is visible to those that have waited for it.
class Launches {
 public:
  explicit Launches(int ranks) : of_ranks_(static_cast<std::size_t>(ranks)) {}

  void count(int rank) noexcept {
    auto& own = of_ranks_[static_cast<std::size_t>(rank)].launched;
    own.store(own.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  /// Waits until all ranks have launched as many as this one, until `is_over()`, and at most so
  /// long. Returns whether they have.
  template <class IsOver>
  [[nodiscard]] bool wait_for_others(int rank,
                                     std::chrono::nanoseconds patience,
                                     IsOver const& is_over) const {
    constexpr int kSpins = 1000;
    auto const own = launched_by(static_cast<std::size_t>(rank));
    auto const deadline = std::chrono::steady_clock::now() + patience;
    for (std::size_t other = 0; other < of_ranks_.size(); ++other) {
      for (int tries = 0; launched_by(other) < own; ++tries) {
        if (tries < kSpins) {
          std::this_thread::yield();
          continue;
        }
        if (is_over() || std::chrono::steady_clock::now() >= deadline) {
          return false;
        }
        // Another rank may be loading kernels, which takes up to some 100 ms.
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
    return true;
  }

 private:
  /// Has a cache line of its own: its rank writes it at each collective, others rarely read it.
  struct alignas(128) OfRank {
    std::atomic<std::uint64_t> launched{0};
  };

  [[nodiscard]] std::uint64_t launched_by(std::size_t rank) const noexcept {
    return of_ranks_[rank].launched.load(std::memory_order_acquire);
  }

  std::vector<OfRank> of_ranks_;
};

}  // namespace msstream::comm::detail
