// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/spin_lock.hpp"

#include <msstream/runtime/detail/backend.hpp>
#include <msstream/runtime/detail/home_process.hpp>
#include <msstream/runtime/runtime.hpp>

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace msstream::detail {

/// A pool of untimed events of one runtime, which keeps released events for reuse and creates an
/// event only if none is free. Thread-safe.
class EventPool {
 public:
  explicit EventPool(std::shared_ptr<Backend> runtime)
      : runtime_(std::move(runtime)), home_(runtime_->traits.life) {}
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

  [[nodiscard]] NativeEvent acquire() {
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
  void release(NativeEvent event) noexcept {
    if (home_.is_left()) [[unlikely]] {
      return;
    }
    try {
      std::lock_guard const guard(lock_);
      free_.push_back(event);
    } catch (...) {  // the host has no memory to keep the event
      runtime_->destroy_event(event);
    }
  }
  [[nodiscard]] Backend& runtime() const noexcept { return *runtime_; }

 private:
  std::shared_ptr<Backend> runtime_;
  HomeProcess home_;
  SpinLock lock_;
  std::vector<NativeEvent> free_;
};

}  // namespace msstream::detail
