// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace msstream {

/// What hot code asks for each time and most often is not there.
///
/// States: off; on, from begin() to end(). Ownership: whoever uses the object shares it meanwhile,
/// so the hook may end at any time. Ordering: `on_` is a hint without order; the lock orders the
/// rest. Off, asking costs a relaxed load.
template <class T>
class Hook {
 public:
  /// Null: it is off.
  [[nodiscard]] std::shared_ptr<T> current() const {
    if (!on_.load(std::memory_order_relaxed)) [[likely]] {
      return nullptr;
    }
    std::lock_guard const guard(mutex_);
    return object_;
  }
  /// False, and nothing is changed, where it is on already.
  [[nodiscard]] bool begin(std::shared_ptr<T> object) {
    std::lock_guard const guard(mutex_);
    if (object_ != nullptr) {
      return false;
    }
    object_ = std::move(object);
    on_.store(true, std::memory_order_relaxed);
    return true;
  }
  void end() noexcept {
    std::shared_ptr<T> ended;  // goes when the lock is free
    std::lock_guard const guard(mutex_);
    on_.store(false, std::memory_order_relaxed);
    ended.swap(object_);
  }

 private:
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;
  std::shared_ptr<T> object_;
};

}  // namespace msstream
