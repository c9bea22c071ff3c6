// SPDX-License-Identifier: Apache-2.0
#include "parallel_rows_host.hpp"

#include <msstream/base/env.hpp>
#include <msstream/runtime/runtime_thread.hpp>

#include <pthread.h>

#include <atomic>
#include <exception>
#include <memory>
#include <system_error>
#include <utility>

namespace msstream::ops::kernels {
namespace {

/// So that a helper which comes late, or has a slow processor, holds up the others for an eighth of
/// a thread's share at most.
constexpr std::int64_t kRangesPerThread = 8;

/// Whether the thread is in a range already.
thread_local bool in_range = false;

std::atomic<RangeTeam*> process_team{nullptr};
std::atomic<RangeTeam*> team_of_parent{nullptr};  // kept, so that no leak checker finds it lost

/// The child of a fork() has none of its parent's threads, and their locks as they were.
void forget_team_of_parent() {
  team_of_parent = process_team.exchange(nullptr);
}

// Before there is a second thread.
[[maybe_unused]] int const handler = pthread_atfork(nullptr, nullptr, forget_team_of_parent);

}  // namespace

class RangeTeam::Call {
 public:
  Call(std::int64_t count, std::int64_t ranges, RangeFunction function)
      : count_(count), ranges_(ranges), function_(function) {}

  /// Runs ranges that nobody has claimed, until there is none.
  [[nodiscard]] std::exception_ptr work() noexcept {
    bool const outer = std::exchange(in_range, true);
    std::exception_ptr caught;
    try {
      for (auto range = claim(); range < ranges_; range = claim()) {
        function_.call(function_.object, begin_of(range), begin_of(range + 1));
      }
    } catch (...) {
      caught = std::current_exception();
      next_.store(ranges_, std::memory_order_relaxed);
    }
    in_range = outer;
    return caught;
  }

  // Under the team's lock.
  int helpers = 0;
  std::exception_ptr failure;
  std::condition_variable left;

 private:
  std::int64_t claim() noexcept { return next_.fetch_add(1, std::memory_order_relaxed); }
  /// Even parts: none is smaller than the grain.
  [[nodiscard]] std::int64_t begin_of(std::int64_t range) const {
    return count_ / ranges_ * range + std::min(range, count_ % ranges_);
  }

  std::int64_t count_;
  std::int64_t ranges_;
  RangeFunction function_;
  std::atomic<std::int64_t> next_{0};
};

int RangeTeam::threads_of_process() {
  auto const processors = std::max(1U, std::thread::hardware_concurrency());
  return static_cast<int>(env::integer("MSSTREAM_HOST_KERNEL_THREADS", processors, 1, 1024));
}

RangeTeam& RangeTeam::of_process() {
  auto* team = process_team.load(std::memory_order_acquire);
  if (team == nullptr) {
    // Without a lock, which another thread might hold during a fork().
    auto fresh = std::make_unique<RangeTeam>(threads_of_process() - 1);
    if (process_team.compare_exchange_strong(team, fresh.get(), std::memory_order_acq_rel)) {
      team = fresh.release();
    }
  }
  return *team;
}

RangeTeam::~RangeTeam() {
  {
    std::lock_guard const lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_all();
  for (auto& helper : helpers_) {
    helper.join();
  }
}

void RangeTeam::run_erased(std::int64_t count, std::int64_t grain, RangeFunction function) {
  auto const most = kRangesPerThread * (helper_count_ + 1);
  auto const ranges = helper_count_ == 0 || in_range ? 1 : std::min(count / grain, most);
  if (ranges <= 1) {
    if (count > 0) {
      function.call(function.object, 0, count);
    }
    return;
  }
  Call call(count, ranges, function);
  {
    std::lock_guard const lock(mutex_);
    start_helpers();
    open_.push_back(&call);
  }
  wake_helpers();
  auto failure = call.work();
  {
    std::unique_lock lock(mutex_);
    std::erase(open_, &call);
    call.left.wait(lock, [&] { return call.helpers == 0; });
    if (!failure) {
      failure = call.failure;
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

void RangeTeam::start_helpers() {
  if (!helpers_.empty()) {
    return;
  }
  helpers_.reserve(static_cast<std::size_t>(helper_count_));
  try {
    for (int i = 0; i < helper_count_; ++i) {
      helpers_.emplace_back([this] { help(); });
    }
  } catch (std::system_error const&) {
    // The machine gives no more threads: the work is done by fewer.
  }
}

void RangeTeam::wake_helpers() {
  // Each who wakes up wakes two: no caller pays for waking a machine full of threads.
  arrived_.notify_one();
  arrived_.notify_one();
}

void RangeTeam::help() {
  RuntimeThread const runtime_thread;
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [&] { return stopping_ || !open_.empty(); });
    if (stopping_) {
      return;
    }
    Call& call = *open_.front();
    ++call.helpers;
    lock.unlock();
    wake_helpers();
    auto failure = call.work();
    lock.lock();
    std::erase(open_, &call);
    if (failure && !call.failure) {
      call.failure = std::move(failure);
    }
    if (--call.helpers == 0) {
      call.left.notify_one();  // under the lock: the call is gone once its caller has it
    }
  }
}

}  // namespace msstream::ops::kernels
