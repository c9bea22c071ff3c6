// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/start_thread.hpp>
#include <msstream/serve/pool_counts.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::load {

/// A thread that swaps the models of a pool in turn. Version v of the pool has the model at index
/// (v - 1) % size. The thread swaps once per `period`, or without pause if a swap takes longer than
/// that. With one model it does nothing.
///
/// The thread is swapping or stopped. The object belongs to the caller and must not outlive the
/// pool.
template <class Pool>
class ModelSwapper {
 public:
  using Models = std::vector<typename Pool::SharedModel>;

  ModelSwapper(Pool& pool, Models models, std::chrono::milliseconds period)
      : pool_(pool), models_(std::move(models)), period_(period) {
    if (models_.size() > 1) {
      thread_ = detail::start_thread("swapping models", [this] { work(); });
    }
  }
  ModelSwapper(ModelSwapper const&) = delete;
  ModelSwapper& operator=(ModelSwapper const&) = delete;
  ~ModelSwapper() { join(); }

  /// Stops the thread, blocks until the last swap is complete, and returns the durations of all
  /// swaps. Throws the exception of a swap, if one failed.
  serve::LatencyHistogram::Summary stop() {
    join();
    if (failure_ != nullptr) {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
    return durations_.summary();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void work() noexcept {
    try {
      auto next = Clock::now() + period_;
      std::unique_lock lock(mutex_);
      while (!stopping_.wait_until(lock, next, [&] { return is_stopping_; })) {
        lock.unlock();
        auto const begin = Clock::now();
        pool_.swap(models_[pool_.counts().version % models_.size()]);
        auto const end = Clock::now();
        durations_.record(end - begin);
        next = std::max(next + period_, end);
        lock.lock();
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
  }
  void join() noexcept {
    {
      std::lock_guard const guard(mutex_);
      is_stopping_ = true;
    }
    stopping_.notify_all();
    if (thread_.joinable()) {
      thread_.join();
    }
  }

  Pool& pool_;
  Models models_;
  std::chrono::milliseconds period_;
  serve::LatencyHistogram durations_;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool is_stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace msstream::load
