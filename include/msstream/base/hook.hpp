// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/spin_lock.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace msstream {

/// What hot code asks for each time and most often is not there.
///
/// States: off; on, from begin() to end(). Ownership: whoever uses the object shares it meanwhile,
/// so the hook may end at any time. Ordering: `on_` is a hint without order; the locks order the
/// rest. Off, asking costs a relaxed load; on, a lock and a count that few threads share.
template <class T>
class Hook {
 public:
  /// Null: it is off.
  [[nodiscard]] std::shared_ptr<T> current() const {
    if (!on_.load(std::memory_order_relaxed)) [[likely]] {
      return nullptr;
    }
    auto const& place = places_[place_of_this_thread()];
    std::lock_guard const guard(place.lock);
    return place.object;
  }
  /// False, and nothing is changed, where it is on already.
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
    Objects ended;  // go when all locks are free
    std::lock_guard const guard(changing_);
    on_.store(false, std::memory_order_relaxed);
    exchange(ended);
  }

 private:
  static constexpr std::size_t kPlaces = 16;
  static constexpr std::size_t kCacheLine = 64;
  using Objects = std::array<std::shared_ptr<T>, kPlaces>;

  /// The object with a count of its own.
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

}  // namespace msstream
