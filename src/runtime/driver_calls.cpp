// SPDX-License-Identifier: Apache-2.0
#include "runtime/driver_calls.hpp"

#include <pthread.h>

#include <chrono>
#include <cstdint>
#include <mutex>

namespace msstream::detail {

namespace {

/// Guards the list of registered threads. Locked during fork(), so that no thread registers or ends
/// in the meantime.
constinit std::mutex list_mutex;
constinit DriverCalls* first_thread = nullptr;
constinit std::atomic<std::int64_t> longest_wait_ms{1000};

}  // namespace

DriverCalls::DriverCalls(RuntimeLife life) noexcept : is_registered_(life == RuntimeLife::driver) {
  if (is_registered_) {
    static int const registered =
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    static_cast<void>(registered);
    std::lock_guard const guard(list_mutex);
    next_ = first_thread;
    first_thread = this;
  }
}

DriverCalls::~DriverCalls() {
  if (is_registered_) {
    std::lock_guard const guard(list_mutex);
    for (auto** link = &first_thread; *link != nullptr; link = &(*link)->next_) {
      if (*link == this) {
        *link = next_;
        break;
      }
    }
  }
}

void DriverCalls::set_longest_wait(std::chrono::milliseconds longest) noexcept {
  longest_wait_ms.store(longest.count());
}

void DriverCalls::wait_for_fork() noexcept {
  is_inside_.store(false);
  is_forking_.wait(true);
  is_inside_.store(true);
}

void DriverCalls::before_fork() noexcept {
  list_mutex.lock();
  if (first_thread == nullptr) {
    return;
  }
  is_forking_.store(true);
  auto const end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(longest_wait_ms.load());
  for (auto const* thread = first_thread; thread != nullptr; thread = thread->next_) {
    if (thread->thread_ == std::this_thread::get_id()) {
      continue;  // this thread called fork(), from the work of an operation
    }
    while (thread->is_inside_.load() && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
  }
}

void DriverCalls::after_fork_in_parent() noexcept {
  is_forking_.store(false);
  is_forking_.notify_all();
  list_mutex.unlock();
}

void DriverCalls::after_fork_in_child() noexcept {
  is_forking_.store(false);
  first_thread = nullptr;  // a child of fork() has no thread of its parent
  list_mutex.unlock();
}

}  // namespace msstream::detail
