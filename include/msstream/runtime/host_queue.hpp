// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/home_process.hpp>
#include <msstream/runtime/host_capture.hpp>
#include <msstream/runtime/work_queue.hpp>

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

/// How far a HostQueue has come; outlives the queue, so that an event can still be asked after its
/// stream is gone.
///
/// States: `completed` only grows. Ownership: shared by the queue and by every event recorded on
/// it. Memory ordering: what the closures up to n wrote is visible to whoever sees completed() >=
/// n. A failure that no call has thrown is written to the log when the last queue that has it goes.
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
  /// Whether closure number `number`, which has run, or one before it has thrown.
  [[nodiscard]] bool failed_up_to(std::uint64_t number) const noexcept {
    return first_failed_.load() <= number;
  }
  /// Rethrows the first exception of the queue if it is that of closure number `number` or of one
  /// before: a failure reaches those who wait for it, and not those who come by when it happens. It
  /// stays, as a failed device does.
  void rethrow_failure_up_to(std::uint64_t number);
  /// The same for the closure that `follower`'s queue runs, which then fails with that exception.
  void pass_failure_up_to(std::uint64_t number, HostProgress& follower) noexcept;

 private:
  friend class HostQueue;
  void complete(std::uint64_t number);
  /// What a closure threw; of its queue and of those whose work has waited for it.
  struct Failure {
    // NOLINTNEXTLINE(bugprone-throw-keyword-missing): it is kept
    explicit Failure(std::exception_ptr of) noexcept : exception(std::move(of)) {}
    Failure(Failure const&) = delete;
    Failure& operator=(Failure const&) = delete;
    ~Failure();

    HomeProcess home;
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

/// One worker thread that runs closures in the order in which they were enqueued: a stream of the
/// host runtime.
///
/// Closures are numbered 1, 2, 3 … Any thread may enqueue. The destructor runs what is queued, then
/// joins. A closure is destroyed before it counts as run. One that throws counts as run too; the
/// exception is kept in the progress and the queue goes on. While the queue is part of a capture,
/// closures are kept there instead, and have no numbers.
class HostQueue final : public WorkQueue {
 public:
  HostQueue();
  ~HostQueue() override;
  HostQueue(HostQueue const&) = delete;
  HostQueue& operator=(HostQueue const&) = delete;

  /// Returns the closure's number.
  std::uint64_t enqueue(Closure closure) override;
  /// Where in a capture the next closure goes.
  [[nodiscard]] HostCapturePlace place();
  /// The next closure follows what is before the place, too, in the capture of that. False: the
  /// queue is part of another one.
  [[nodiscard]] bool follow(HostCapturePlace const& place);
  void finish() noexcept;
  /// Whether the worker has ended, so that the destructor does not block.
  [[nodiscard]] bool finished() const noexcept { return finished_.load(); }
  /// The number of the newest closure enqueued so far.
  [[nodiscard]] std::uint64_t enqueued() const noexcept {
    return enqueued_.load(std::memory_order_acquire);
  }
  /// Of no other queue of the program, before or after.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] std::shared_ptr<HostProgress> const& progress() const noexcept { return progress_; }

 private:
  void work();
  /// Under the lock.
  [[nodiscard]] bool is_captured();

  static inline std::atomic<std::uint64_t> made_{0};

  HomeProcess home_;
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
