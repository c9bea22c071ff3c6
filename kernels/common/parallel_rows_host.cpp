// SPDX-License-Identifier: Apache-2.0
#include "common/parallel_rows_host.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/runtime/detail/runtime_thread.hpp>

#include <pthread.h>

#include <atomic>
#include <exception>
#include <memory>
#include <system_error>
#include <utility>

namespace msstream::ops::kernels {
namespace {

/// The number of ranges that parallel_ranges() makes per thread. With eight, a helper that starts
/// late, or runs on a slow processor, delays the others by at most an eighth of a thread's share.
constexpr std::int64_t kRangesPerThread = 8;

/// Whether the calling thread is running a range of parallel_ranges().
thread_local bool in_range = false;

std::atomic<RangeTeam*> process_team{nullptr};
// Keeps the parent's team reachable in a forked child, for leak checkers.
std::atomic<RangeTeam*> team_of_parent{nullptr};

/// Detaches the child of a fork() from its parent's team. The child has none of the parent's
/// threads, and the team's locks are in the state that they had during the fork().
void forget_team_of_parent() {
  team_of_parent = process_team.exchange(nullptr);
}

// The fork handler is registered during static initialization, before there is a second thread.
[[maybe_unused]] int const handler = pthread_atfork(nullptr, nullptr, forget_team_of_parent);

}  // namespace

class RangeTeam::Call {
 public:
  Call(std::int64_t count, std::int64_t ranges, RangeFunction function)
      : count_(count), ranges_(ranges), function_(function) {}

  /// Runs ranges that no thread has claimed, until none is left. If a range throws, returns the
  /// exception, and no thread claims further ranges.
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

  // The team's mutex guards `helpers`, `failure` and `left`.
  int helpers = 0;
  std::exception_ptr failure;
  std::condition_variable left;

 private:
  std::int64_t claim() noexcept { return next_.fetch_add(1, std::memory_order_relaxed); }
  /// Returns the first item of a range. The sizes of the ranges differ by at most one item, so that
  /// no range is smaller than the grain (the smallest allowed size).
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
    // Makes the team without a lock, because another thread might hold the lock during a fork().
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
    // The system allows no more threads, so the threads that could be started do all the work.
  }
}

void RangeTeam::wake_helpers() {
  // The caller wakes two helpers, and each helper wakes two more, so that no caller has to wake all
  // helpers of a large machine.
  arrived_.notify_one();
  arrived_.notify_one();
}

void RangeTeam::help() {
  msstream::detail::RuntimeThread const runtime_thread;
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
      // Notifies under the lock, which the caller must take before it destroys `call`.
      call.left.notify_one();
    }
  }
}

}  // namespace msstream::ops::kernels
