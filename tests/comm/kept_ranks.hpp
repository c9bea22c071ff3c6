// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comm/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace msstream::testing {

/// Ranks whose threads, devices and communicator serve one function after the other: NCCL takes a
/// second to connect GPUs.
template <Runtime R>
class KeptRanks {
 public:
  using Body = std::function<void(Rank<R> const&)>;

  explicit KeptRanks(int ranks) : ranks_(ranks), thread_([this] { run(); }) {}
  ~KeptRanks() {
    {
      std::lock_guard const guard(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  KeptRanks(KeptRanks const&) = delete;
  KeptRanks& operator=(KeptRanks const&) = delete;

  /// Calls `body(rank)` on each rank. If one throws, passes the exception on, and the ranks have
  /// ended.
  void call(Body const& body) {
    std::unique_lock lock(mutex_);
    body_ = &body;
    done_ = 0;
    ++number_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return done_ == ranks_ || has_ended_; });
    if (failure_ != nullptr) {
      std::rethrow_exception(failure_);
    }
    if (done_ != ranks_) {
      throw std::logic_error("the kept ranks have ended");
    }
  }

 private:
  void run() {
    std::exception_ptr failure;
    try {
      comm::run_as_threads(ranks_, [this](comm::World const& world) {
        auto const device = comm::device_of<R>(world);
        serve(Rank<R>{world, device, comm::Communicator<R>(device, world)});
      });
    } catch (...) {
      failure = std::current_exception();
    }
    std::lock_guard const guard(mutex_);
    failure_ = failure;
    has_ended_ = true;
    changed_.notify_all();
  }
  /// An exception of the function ends the communicator, so that no other rank waits for this one.
  void serve(Rank<R> const& rank) {
    for (std::uint64_t served = 0;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return number_ != served || is_over_; });
      if (number_ == served) {
        return;
      }
      served = number_;
      auto const& body = *body_;
      lock.unlock();
      try {
        body(rank);
      } catch (...) {
        lock.lock();
        is_over_ = true;  // ranks that have returned wait for another function
        changed_.notify_all();
        throw;
      }
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  int ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Body const* body_ = nullptr;
  std::uint64_t number_ = 0;  ///< of the function, from 1
  int done_ = 0;              ///< ranks that have returned from it
  bool is_over_ = false;
  bool has_ended_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

/// The kept ranks of a program, by their number. They end before the program does.
template <Runtime R>
class AllKeptRanks final : public ::testing::Environment {
 public:
  void TearDown() override { all_.clear(); }

  void call(int ranks, typename KeptRanks<R>::Body const& body) {
    auto& kept = all_[ranks];
    if (kept == nullptr) {
      kept = std::make_unique<KeptRanks<R>>(ranks);
    }
    try {
      kept->call(body);
    } catch (...) {
      all_.erase(ranks);
      throw;
    }
  }

 private:
  std::map<int, std::unique_ptr<KeptRanks<R>>> all_;
};

#if MSSTREAM_CUDA
/// Owned by GoogleTest.
inline auto* const kept_ranks_on_cuda =
    static_cast<AllKeptRanks<Cuda>*>(::testing::AddGlobalTestEnvironment(new AllKeptRanks<Cuda>));
#endif

/// Calls `body(rank)` like on_ranks(), for functions that leave nothing behind. Between GPUs, the
/// ranks and their communicator are those of earlier calls.
template <Runtime R, class Body>
void on_kept_ranks(int ranks, Body const& body) {
#if MSSTREAM_CUDA
  if constexpr (is_by_nccl<R>) {
    auto const possible = std::min(ranks, most_ranks<R>());
    if (possible > 1) {
      kept_ranks_on_cuda->call(possible, body);
      return;
    }
  }
#endif
  on_ranks<R>(ranks, body);
}

}  // namespace msstream::testing
