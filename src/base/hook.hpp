// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace msstream::detail {

/// Holds an optional object that hot code looks up at every call, and that is absent most of the
/// time.
///
/// States: off; on, from begin() to end(). Ownership: current() returns a shared pointer, so the
/// hook may end while a caller still uses the object. Memory ordering: `on_` is a relaxed hint, and
/// the locks order everything else. Cost of current(): a relaxed load when off; when on, also a
/// lock and a reference count that few threads share.
template <class T>
class Hook {
 public:
  /// Returns the object that the hook holds; null if the hook is off.
  [[nodiscard]] std::shared_ptr<T> current() const {
    if (!on_.load(std::memory_order_relaxed)) [[likely]] {
      return nullptr;
    }
    auto const& place = places_[place_of_this_thread()];
    std::lock_guard const guard(place.lock);
    return place.object;
  }
  /// Switches the hook on. If it is on already, changes nothing and returns false.
  [[nodiscard]] bool begin(std::shared_ptr<T> object) {
    std::lock_guard const guard(changing_);
    if (on_.load(std::memory_order_relaxed)) {
      return false;
    }
    Objects counted;
    for (auto& counted_apart : counted) {
      counted_apart = std::shared_ptr<T>(object.get(), [object](T*) {});
    }
    exchange(counted);
    on_.store(true, std::memory_order_relaxed);
    return true;
  }
  void end() noexcept {
    Objects ended;  // destroyed after all locks have been released
    std::lock_guard const guard(changing_);
    on_.store(false, std::memory_order_relaxed);
    exchange(ended);
  }

 private:
  static constexpr std::size_t kPlaces = 16;
  static constexpr std::size_t kCacheLine = 64;
  using Objects = std::array<std::shared_ptr<T>, kPlaces>;

  /// One copy of the hook's pointer to its object, for some of the threads. It has a reference
  /// count and a cache line of its own, so few threads contend.
  struct alignas(kCacheLine) Place {
    mutable SpinLock lock;
    std::shared_ptr<T> object;
  };

  static std::size_t place_of_this_thread() noexcept {
    static std::atomic<std::size_t> threads{0};
    static thread_local std::size_t const place =
        threads.fetch_add(1, std::memory_order_relaxed) % kPlaces;
    return place;
  }
  void exchange(Objects& objects) noexcept {
    for (std::size_t i = 0; i < kPlaces; ++i) {
      std::lock_guard const guard(places_[i].lock);
      objects[i].swap(places_[i].object);
    }
  }

  std::atomic<bool> on_{false};
  std::mutex changing_;
  std::array<Place, kPlaces> places_;
};

}  // namespace msstream::detail
