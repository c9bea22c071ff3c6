// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/host/host_capture.hpp"

#include <msstream/runtime/detail/home_process.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace msstream {

/// The number of closures that a HostQueue has run, and its first failure. Outlives the queue, so
/// that an event can still be queried after its stream was destroyed.
///
/// States: `completed` only grows. Ownership: shared by the queue and by every event recorded on
/// it. Memory ordering: a thread that sees completed() >= n sees what the closures up to n wrote. A
/// failure that no call has thrown is written to the log when the last HostProgress that holds it
/// is destroyed.
class HostProgress {
 public:
  HostProgress() = default;
  HostProgress(HostProgress const&) = delete;
  HostProgress& operator=(HostProgress const&) = delete;

  [[nodiscard]] std::uint64_t completed() const noexcept {
    return completed_.load(std::memory_order_acquire);
  }
  /// Blocks the calling thread until closure number `number` has run.
  void wait(std::uint64_t number);
  /// Returns whether closure number `number` or an earlier one has thrown. Closure `number` must
  /// have run.
  [[nodiscard]] bool failed_up_to(std::uint64_t number) const noexcept {
    return first_failed_.load() <= number;
  }
  /// Rethrows the first exception of the queue if it came from closure number `number` or an
  /// earlier one. A failure thus reaches only callers that wait for the failed work. Like the
  /// failure of a device, it stays, so that later calls throw it again.
  void rethrow_failure_up_to(std::uint64_t number);
  /// Makes the closure that the queue of `follower` is running fail with the first exception of
  /// this queue, if that came from closure number `number` or an earlier one. Throws nothing.
  void pass_failure_up_to(std::uint64_t number, HostProgress& follower) noexcept;

 private:
  friend class HostQueue;
  void complete(std::uint64_t number);
  /// An exception that a closure threw. Shared by the queue of the closure and by all queues that
  /// waited for the closure.
  struct Failure {
    // NOLINTNEXTLINE(bugprone-throw-keyword-missing): the exception is stored
    explicit Failure(std::exception_ptr of) noexcept : exception(std::move(of)) {}
    Failure(Failure const&) = delete;
    Failure& operator=(Failure const&) = delete;
    ~Failure();

    detail::HomeProcess home;
    std::exception_ptr exception;
    std::atomic<bool> is_heard{false};
  };

  void fail(std::uint64_t number, std::shared_ptr<Failure> failure) noexcept;
  [[nodiscard]] std::shared_ptr<Failure> failure();

  std::atomic<std::uint64_t> completed_{0};
  std::atomic<int> waiters_{0};
  std::atomic<std::uint64_t> first_failed_{std::numeric_limits<std::uint64_t>::max()};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Failure> failure_;
};

/// A stream of the host runtime: one worker thread that runs closures in the order in which they
/// were enqueued.
///
/// Closures are numbered 1, 2, 3 … Any thread may enqueue. The destructor runs the queued closures,
/// then joins the worker. A closure is destroyed before it counts as run. A closure that throws
/// counts as run, too; its exception is kept in the progress, and the queue continues. While the
/// queue is part of a capture, closures are added to the capture instead, and have no numbers.
class HostQueue final : public detail::WorkQueue {
 public:
  HostQueue();
  ~HostQueue() override;
  HostQueue(HostQueue const&) = delete;
  HostQueue& operator=(HostQueue const&) = delete;

  /// Enqueues the closure, and returns its number.
  std::uint64_t enqueue(Closure closure) override;
  /// Returns the position in a capture at which the next closure is added.
  [[nodiscard]] HostCapturePlace place();
  /// Makes the next closure run after `place`, in the capture of `place`. If the queue is not
  /// captured, it joins that capture. Returns false if the queue is part of another capture.
  [[nodiscard]] bool follow(HostCapturePlace const& place);
  void finish() noexcept;
  /// Returns whether the worker has ended, so that the destructor does not block.
  [[nodiscard]] bool finished() const noexcept { return finished_.load(); }
  /// Returns the number of the newest closure enqueued so far.
  [[nodiscard]] std::uint64_t enqueued() const noexcept {
    return enqueued_.load(std::memory_order_acquire);
  }
  /// Returns an id that no other queue in the program has, had or will have.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] std::shared_ptr<HostProgress> const& progress() const noexcept { return progress_; }

 private:
  void work();
  /// Returns whether the queue is part of a capture in progress. Leaves a capture that is over. The
  /// caller must hold the lock.
  [[nodiscard]] bool is_captured();

  static inline std::atomic<std::uint64_t> made_{0};

  detail::HomeProcess home_;
  std::uint64_t const id_ = made_.fetch_add(1) + 1;
  std::shared_ptr<HostProgress> progress_ = std::make_shared<HostProgress>();
  std::atomic<std::uint64_t> enqueued_{0};
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Closure> queue_;
  HostCapturePlace place_;
  bool idle_ = false;
  bool stopping_ = false;
  std::atomic<bool> finished_{false};
  std::thread worker_;
};

}  // namespace msstream
