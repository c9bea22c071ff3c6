// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::support {

/// A thread that puts a pool's models in place in turn, the second one first, `pause` after the
/// last swap was over. With one model it does nothing.
///
/// States: swapping, stopped. Ownership: the caller's, like the pool, which it must not outlive.
template <class Pool>
class ModelSwapper {
 public:
  using Models = std::vector<typename Pool::SharedModel>;

  ModelSwapper(Pool& pool, Models models, std::chrono::milliseconds pause)
      : pool_(pool), models_(std::move(models)), pause_(pause) {
    if (models_.size() > 1) {
      thread_ = std::thread([this] { work(); });
    }
  }
  ModelSwapper(ModelSwapper const&) = delete;
  ModelSwapper& operator=(ModelSwapper const&) = delete;
  ~ModelSwapper() { join(); }

  [[nodiscard]] std::uint64_t swaps() const noexcept { return swaps_.load(); }
  /// Blocks until the last swap is over. Throws what a swap threw.
  void stop() {
    join();
    if (failure_ != nullptr) {
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
  }

 private:
  void work() noexcept {
    try {
      std::unique_lock lock(mutex_);
      while (!stopping_.wait_for(lock, pause_, [&] { return is_stopping_; })) {
        lock.unlock();
        pool_.swap(models_[(swaps_.load() + 1) % models_.size()]);
        swaps_.fetch_add(1);
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
  std::chrono::milliseconds pause_;
  std::atomic<std::uint64_t> swaps_{0};
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool is_stopping_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace msstream::support
