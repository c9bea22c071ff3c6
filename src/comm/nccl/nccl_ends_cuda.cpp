// SPDX-License-Identifier: Apache-2.0
#if MSSTREAM_NCCL

#include "comm/nccl/nccl_ends_cuda.hpp"

#include "runtime/settled_at_exit.hpp"

#include <msstream/runtime/runtime.hpp>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace msstream::comm::detail {
namespace {

using msstream::detail::Backend;
using msstream::detail::SettleOrder;

/// How long the caller waits for NCCL to end a communicator. NCCL may wait for ranks of other
/// processes, which end theirs later.
constexpr auto kToEnd = std::chrono::seconds(1);

/// The threads of call_alone(). Thread-safe.
class LoneThreads {
 public:
  /// Returns the threads of the process. They are never destroyed, because the handler of exit()
  /// may run after the destructors of static objects.
  static LoneThreads& of_process() {
    static auto const& threads = *new std::shared_ptr<LoneThreads>(made());
    return *threads;
  }

  [[nodiscard]] std::shared_future<void> start(std::function<void()> function,
                                               std::weak_ptr<void const> graphs) {
    std::promise<void> promise;
    auto ended = promise.get_future().share();
    std::vector<Running> over;  // joined without the lock
    std::lock_guard const guard(mutex_);
    if (is_over_) {
      throw std::logic_error("NCCL is called after exit() has ended its driver");
    }
    auto const first_over =
        std::partition(running_.begin(), running_.end(), [](Running const& thread) {
          return !thread.has_ended();
        });
    over.assign(std::move_iterator(first_over), std::move_iterator(running_.end()));
    running_.erase(first_over, running_.end());
    running_.push_back({ended, std::move(graphs), {}});
    try {
      running_.back().thread =
          std::thread([function = std::move(function), promise = std::move(promise)]() mutable {
            std::exchange(function, nullptr)();
            promise.set_value();
          });
    } catch (...) {
      running_.pop_back();
      throw;
    }
    return ended;
  }

 private:
  struct Running {
    Running(std::shared_future<void> end, std::weak_ptr<void const> of, std::thread own)
        : ended(std::move(end)), graphs(std::move(of)), thread(std::move(own)) {}
    Running(Running&&) = default;
    Running& operator=(Running&&) = default;
    ~Running() {
      if (!thread.joinable()) {
        return;
      }
      // NCCL and CUDA have objects of the thread, whose destructors belong to its work. That they
      // have run is not asked by std::promise::set_value_at_thread_exit(), which does nothing once
      // exit() has begun.
      has_ended() ? thread.join() : thread.detach();
    }
    [[nodiscard]] bool has_ended() const {
      return ended.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }

    std::shared_future<void> ended;
    std::weak_ptr<void const> graphs;
    std::thread thread;
  };

  static std::shared_ptr<LoneThreads> made() {
    auto threads = std::make_shared<LoneThreads>();
    settle_at_exit(RuntimeLife::driver, threads, SettleOrder::libraries, [](LoneThreads& ending) {
      ending.end();
    });
    return threads;
  }

  /// Starts no more threads, and waits for those that can end. A rank of another process that ends
  /// late does not keep this one: what still waits for it then is left waiting.
  void end() noexcept {
    constexpr auto kLongest = std::chrono::seconds(5);
    auto const deadline = std::chrono::steady_clock::now() + kLongest;
    std::unique_lock lock(mutex_);
    is_over_ = true;
    auto const running = std::exchange(running_, {});
    lock.unlock();
    for (auto const& thread : running) {
      if (thread.graphs.expired()) {
        thread.ended.wait_until(deadline);
      }
    }
  }

  std::mutex mutex_;
  std::vector<Running> running_;
  bool is_over_ = false;
};

}  // namespace

std::shared_future<void> call_alone(std::function<void()> function,
                                    std::weak_ptr<void const> graphs) {
  return LoneThreads::of_process().start(std::move(function), std::move(graphs));
}

bool ends_within(std::chrono::nanoseconds longest,
                 std::function<void()> function,
                 std::weak_ptr<void const> graphs) {
  return call_alone(std::move(function), std::move(graphs)).wait_for(longest) ==
         std::future_status::ready;
}

NcclOwner::NcclOwner(std::shared_ptr<Backend> runtime, std::size_t scratch_bytes)
    : runtime_(std::move(runtime)),
      scratch_bytes_(scratch_bytes),
      scratch_(static_cast<std::byte*>(runtime_->allocate_device(scratch_bytes))) {}

NcclOwner::~NcclOwner() {
  auto* const comm = comm_.exchange(nullptr);
  if (home_.is_left()) {
    return;
  }
  if (comm != nullptr) {
    try {
      static_cast<void>(ends_within(kToEnd, end_of(comm)));
    } catch (...) {  // NOLINT(bugprone-empty-catch): without a thread, NCCL keeps the communicator
    }
  }
  runtime_->free_device(scratch_, scratch_bytes_);
}

std::function<void()> NcclOwner::end_of(ncclComm_t comm) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
  auto windows = std::move(windows_);
#else
  std::vector<void*> const windows;
#endif
  return [comm, runtime = runtime_, windows] {
    try {
      runtime->make_current();
    } catch (...) {
      return;  // the driver has ended
    }
    for ([[maybe_unused]] auto* const window : windows) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
      static_cast<void>(ncclCommWindowDeregister(comm, window));
#endif
    }
    if (ncclCommFinalize(comm) == ncclSuccess) {
      static_cast<void>(ncclCommDestroy(comm));
    }
  };
}

std::shared_ptr<void const> NcclOwner::share_with_graph() {
  auto shared = graphs_.lock();
  if (shared == nullptr) {
    shared = std::make_shared<OfGraphs const>(OfGraphs{shared_from_this()});
    graphs_ = shared;
  }
  return shared;
}

void NcclOwner::abort() noexcept {
  auto* const comm = comm_.exchange(nullptr);
  if (comm == nullptr || home_.is_left()) {
    return;
  }
  try {
    static_cast<void>(ends_within(
        kToEnd, [comm] { static_cast<void>(ncclCommAbort(comm)); }, graphs_));
  } catch (...) {  // NOLINT(bugprone-empty-catch): without a thread, NCCL keeps the communicator
  }
}

}  // namespace msstream::comm::detail

#endif
