// SPDX-License-Identifier: Apache-2.0
#include "stream/doorbell.hpp"

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

namespace msstream::detail {

/// Rings the doorbells of threads that sleep until a certain operation of one stream has been
/// launched, by any thread. While no thread sleeps for the operation, costs the launching thread
/// one load.
///
/// Memory ordering: the launching thread stores the operation's number, then loads `first_`; the
/// sleeping thread stores `first_`, then loads the number once more. All four accesses are
/// sequentially consistent, so at least one of two concurrent threads sees the other's store:
/// either the bell rings, or the thread does not sleep. Thread-safe. The lock is held while a bell
/// rings, so the bell cannot ring after remove().
class LaunchBells {
 public:
  LaunchBells() = default;
  LaunchBells(LaunchBells const&) = delete;
  LaunchBells& operator=(LaunchBells const&) = delete;

  /// Makes the bell ring once when operation `number` or a later one has been launched. Returns
  /// false if `launched` shows that this has happened already; the bell then need not ring. The
  /// caller must call remove() afterwards in both cases.
  [[nodiscard]] bool add(std::uint64_t number,
                         Doorbell& bell,
                         std::atomic<std::uint64_t> const& launched) {
    std::lock_guard const guard(mutex_);
    awaited_.push_back({number, &bell});
    first_.store(std::min(first_.load(), number));
    return launched.load() < number;
  }
  /// Undoes one call of add(), unless the bell has rung for it.
  void remove(std::uint64_t number, Doorbell& bell) noexcept {
    std::lock_guard const guard(mutex_);
    auto const place = std::ranges::find(awaited_, Awaited{number, &bell});
    if (place != awaited_.end()) {
      awaited_.erase(place);
      find_first();
    }
  }
  /// Rings the bells of threads that wait for operation `number` or an earlier one. Must be called
  /// after `number` has been stored as launched.
  void launched(std::uint64_t number) noexcept {
    if (first_.load() <= number) [[unlikely]] {
      ring(number);
    }
  }

 private:
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

  struct Awaited {
    std::uint64_t number;
    Doorbell* bell;
    friend bool operator==(Awaited const&, Awaited const&) = default;
  };

  void ring(std::uint64_t number) noexcept {
    std::lock_guard const guard(mutex_);
    std::erase_if(awaited_, [&](Awaited const& awaited) {
      bool const over = awaited.number <= number;
      if (over) {
        awaited.bell->ring();
      }
      return over;
    });
    find_first();
  }
  void find_first() noexcept {
    auto first = kNone;
    for (auto const& awaited : awaited_) {
      first = std::min(first, awaited.number);
    }
    first_.store(first);
  }

  std::atomic<std::uint64_t> first_{kNone};  ///< the least number that a thread waits for
  std::mutex mutex_;
  std::vector<Awaited> awaited_;
};

}  // namespace msstream::detail
