// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/spin_lock.hpp>
#include <msstream/runtime/compiled_once.hpp>
#include <msstream/runtime/home_process.hpp>
#include <msstream/runtime/runtime.hpp>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream {

/// A pool of untimed events of one runtime. Events are created if none is free, and kept for reuse.
/// Thread-safe.
template <Runtime R>
class EventPool {
 public:
  explicit EventPool(std::shared_ptr<R> runtime) : runtime_(std::move(runtime)) {}
  EventPool(EventPool const&) = delete;
  EventPool& operator=(EventPool const&) = delete;
  ~EventPool() {
    if (home_.is_left()) {
      return;
    }
    for (auto event : free_) {
      runtime_->destroy_event(event);
    }
  }

  [[nodiscard]] typename R::native_event acquire() {
    home_.require_here();
    {
      std::lock_guard const guard(lock_);
      if (!free_.empty()) {
        auto const event = free_.back();
        free_.pop_back();
        return event;
      }
    }
    return runtime_->create_event(EventTiming::untimed);
  }
  void release(typename R::native_event event) noexcept {
    if (home_.is_left()) [[unlikely]] {
      return;
    }
    try {
      std::lock_guard const guard(lock_);
      free_.push_back(event);
    } catch (...) {  // there is no memory to keep the event for reuse
      runtime_->destroy_event(event);
    }
  }
  [[nodiscard]] R& runtime() const noexcept { return *runtime_; }

 private:
  HomeProcess home_{life_of<R>};
  std::shared_ptr<R> runtime_;
  SpinLock lock_;
  std::vector<typename R::native_event> free_;
};

MSSTREAM_COMPILED_ONCE(class EventPool<DefaultRuntime>);

}  // namespace msstream
