// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/host_queue.hpp"

#include "base/unheard_failure.hpp"

#include <msstream/base/detail/start_thread.hpp>
#include <msstream/runtime/detail/runtime_thread.hpp>

#include <algorithm>
#include <utility>

namespace msstream {

void HostProgress::wait(std::uint64_t number) {
  if (completed() >= number) {
    return;
  }
  std::unique_lock lock(mutex_);
  waiters_.fetch_add(1);
  changed_.wait(lock, [&] { return completed_.load() >= number; });
  waiters_.fetch_sub(1);
}

void HostProgress::complete(std::uint64_t number) {
  completed_.store(number);
  if (waiters_.load() > 0) {
    std::lock_guard const lock(mutex_);
    changed_.notify_all();
  }
}

HostProgress::Failure::~Failure() {
  if (!is_heard.load() && !home.is_left()) {
    detail::UnheardFailure::log("work that ran on a stream", exception);
  }
}

void HostProgress::fail(std::uint64_t number, std::shared_ptr<Failure> failure) noexcept {
  std::lock_guard const lock(mutex_);
  if (failure_ == nullptr) {
    failure_ = std::move(failure);
    first_failed_.store(number);
  }
}

std::shared_ptr<HostProgress::Failure> HostProgress::failure() {
  std::lock_guard const lock(mutex_);
  return failure_;
}

void HostProgress::rethrow_failure_up_to(std::uint64_t number) {
  if (failed_up_to(number)) {
    auto const failed = failure();
    if (detail::UnheardFailure::is_heard()) {
      failed->is_heard.store(true);
    }
    std::rethrow_exception(failed->exception);
  }
}

void HostProgress::pass_failure_up_to(std::uint64_t number, HostProgress& follower) noexcept {
  if (failed_up_to(number)) {
    follower.fail(follower.completed() + 1, failure());
  }
}

HostQueue::HostQueue()
    : worker_(detail::start_thread("a stream of the host runtime", [this] { work(); })) {}

HostQueue::~HostQueue() {
  finish();
  worker_.join();
}

void HostQueue::finish() noexcept {
  {
    std::lock_guard const lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
}

std::uint64_t HostQueue::enqueue(Closure closure) {
  home_.require_here();
  bool wake = false;
  std::uint64_t number = 0;
  {
    std::lock_guard const lock(mutex_);
    if (is_captured()) [[unlikely]] {
      place_.nodes = {place_.capture->add(std::move(closure), place_.nodes)};
      return enqueued_.load();
    }
    queue_.push_back(std::move(closure));
    number = enqueued_.fetch_add(1, std::memory_order_release) + 1;
    wake = std::exchange(idle_, false);
  }
  if (wake) {
    arrived_.notify_one();
  }
  return number;
}

bool HostQueue::is_captured() {
  if (place_.capture != nullptr && place_.capture->is_over()) {
    place_ = {};
  }
  return place_.capture != nullptr;
}

HostCapturePlace HostQueue::place() {
  std::lock_guard const lock(mutex_);
  static_cast<void>(is_captured());
  return place_;
}

bool HostQueue::follow(HostCapturePlace const& place) {
  std::lock_guard const lock(mutex_);
  if (is_captured() && place_.capture != place.capture) {
    return false;
  }
  place_.capture = place.capture;
  for (auto const node : place.nodes) {
    if (std::find(place_.nodes.begin(), place_.nodes.end(), node) == place_.nodes.end()) {
      place_.nodes.push_back(node);
    }
  }
  return true;
}

void HostQueue::work() {
  detail::RuntimeThread const marked;
  std::deque<Closure> batch;
  std::uint64_t number = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    while (queue_.empty()) {
      if (stopping_) {
        finished_.store(true);
        return;
      }
      idle_ = true;
      arrived_.wait(lock, [this] { return !queue_.empty() || stopping_; });
      idle_ = false;
    }
    batch.swap(queue_);
    lock.unlock();
    for (auto& closure : batch) {
      try {
        // Destroys the closure before its number is marked as complete, because a thread that has
        // waited for the work may expect that everything the closure owned has been released.
        Closure run = std::move(closure);
        run();
      } catch (...) {
        progress_->fail(number + 1,
                        std::make_shared<HostProgress::Failure>(std::current_exception()));
      }
      progress_->complete(++number);
    }
    batch.clear();
    lock.lock();
  }
}

}  // namespace msstream
