// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/stream/doorbell.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <vector>

namespace msstream {

/// Doorbells that ring when an operation of one stream has been launched, whoever launches it: for
/// threads that sleep until then. Costs the launching thread one load while nobody sleeps for what
/// it has launched.
///
/// Memory ordering: the launching thread stores the number, then loads `first_`; the sleeping one
/// stores `first_`, then loads the number once more. All four are sequentially consistent, so of
/// two that meet at least one sees the other: the bell rings, or the thread does not sleep.
/// Thread-safe; the lock is held while a bell rings, so that after remove() nobody rings it.
class LaunchBells {
 public:
  LaunchBells() = default;
  LaunchBells(LaunchBells const&) = delete;
  LaunchBells& operator=(LaunchBells const&) = delete;

  /// The bell rings once when operation `number` or a later one has been launched; false: one has
  /// been, as `launched` says, and need not ring. Call remove() afterwards either way.
  [[nodiscard]] bool add(std::uint64_t number,
                         Doorbell& bell,
                         std::atomic<std::uint64_t> const& launched) {
    std::lock_guard const guard(mutex_);
    awaited_.push_back({number, &bell});
    first_.store(std::min(first_.load(), number));
    return launched.load() < number;
  }
  /// Undoes one call of add(), unless it has rung.
  void remove(std::uint64_t number, Doorbell& bell) noexcept {
    std::lock_guard const guard(mutex_);
    auto const place = std::ranges::find(awaited_, Awaited{number, &bell});
    if (place != awaited_.end()) {
      awaited_.erase(place);
      find_first();
    }
  }
  /// After operation `number` has been stored as launched.
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

  std::atomic<std::uint64_t> first_{kNone};  ///< the least number that is awaited
  std::mutex mutex_;
  std::vector<Awaited> awaited_;
};

}  // namespace msstream
