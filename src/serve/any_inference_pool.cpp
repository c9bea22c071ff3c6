// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "runtime/settled_at_exit.hpp"
#include "serve/dispatcher.hpp"
#include "serve/poller.hpp"
#include "serve/pool_state.hpp"
#include "serve/slot_launchers.hpp"
#include "stream/inside_work.hpp"

#include <msstream/base/error.hpp>
#include <msstream/runtime/detail/home_process.hpp>
#include <msstream/runtime/detail/runtime_thread.hpp>
#include <msstream/serve/detail/any_inference_pool.hpp>
#include <msstream/serve/detail/branches.hpp>
#include <msstream/serve/detail/staging.hpp>
#include <msstream/stream/detail/any_stream_scope.hpp>

#include <fmt/core.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <source_location>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::serve {

/// The implementation of an inference pool: its replicas, their captured steps, the queue, and the
/// threads that launch queries and reply to them.
class PoolBody {
  using ForwardMaker = detail::AnyInferencePool::ForwardMaker;

 public:
  PoolBody(detail::AnyDevice device,
           InferencePoolOptions const& options,
           ForwardMaker const& make_forward)
      : device_(std::move(device)),
        options_(options.checked()),
        layout_(std::make_shared<InputLayout const>(options_.inputs)),
        streams_(device_, options_, options_.replicas + 1) {
    auto replicas = make_replicas();
    if (device_.backend().traits.captures) {
      for (auto const& replica : replicas) {
        memories_.push_back(detail::make_step_memory(device_, replica->group()));
      }
    }
    auto first = make_version(1, make_forward, replicas);
    serving_ = detail::make_at_home<Serving>(home_);
    serving_->pool = std::make_unique<PoolState>(
        device_.context(), layout_, options_, std::move(replicas), std::move(first));
    pool_ = serving_->pool.get();
    serving_->dispatcher = std::make_unique<Dispatcher>(*pool_);
    dispatcher_ = serving_->dispatcher.get();
    serving_->launchers = std::make_unique<SlotLaunchers>(
        *pool_, *dispatcher_, options_.launch_thread_total(), options_.launch_spin());
    serving_->poller = std::make_unique<Poller>(*pool_, *dispatcher_, options_.launch_spin());
    detail::settle_at_exit(
        device_.backend().traits.life, serving_, detail::SettleOrder::threads, [](Serving& ending) {
          ending.end();
        });
  }
  PoolBody(PoolBody const&) = delete;
  PoolBody& operator=(PoolBody const&) = delete;
  ~PoolBody() { close_if_here(); }
  /// Drains the pool, unless this process is a child of fork() or has ended the device's driver in
  /// exit().
  void close_if_here() noexcept {
    if (!home_.is_left()) {
      close();
    }
  }

  void submit(Query const& query, std::promise<Answer> promise) {
    dispatcher_->admit(query, Reply(std::move(promise)));
  }
  void submit(Query const& query, Callback callback) {
    dispatcher_->admit(query, Reply(std::move(callback)));
  }
  std::uint64_t swap(ForwardMaker const& make_forward) {
    refuse_callback("swap");
    std::lock_guard const guard(swapping_);
    auto const version = version_ + 1;
    pool_->versions.replace(make_version(version, make_forward, pool_->replicas));
    version_ = version;
    device_.state()->memory.release_unneeded();
    return version;
  }
  void drain() {
    refuse_callback("drain");
    close();
  }
  [[nodiscard]] PoolCounts counts() const noexcept {
    auto counts = pool_->ledger.scores.counts();
    counts.captured_steps = captured_steps_.load();
    counts.failed_captures = failed_captures_.load();
    counts.sound_replicas = pool_->replicas.sound();
    counts.version = version_.load();
    counts.poller_sleeps = pool_->bell.sleeps();
    return counts;
  }
  [[nodiscard]] PoolLatencies latencies() const noexcept {
    return pool_->ledger.scores.latencies();
  }
  [[nodiscard]] InferencePoolOptions const& options() const noexcept { return options_; }
  [[nodiscard]] std::shared_ptr<detail::AnyStreamPool> const& streams() const noexcept {
    return streams_.first();
  }
  /// Throws std::logic_error if the calling thread runs a stream's work, because the reply may come
  /// only after that stream has gone on.
  void refuse_in_work() const {
    home_.require_here();
    detail::InsideWork::refuse_wait("InferencePool::submit");
  }

 private:
  /// The state that the threads of a pool share, and the threads.
  struct Serving {
    /// Waits for the replies to all queries, and ends the threads.
    void end() noexcept {
      if (!pool->ledger.is_replying()) {
        close();
        poller.reset();
        launchers.reset();
      }
    }
    void close() noexcept {
      pool->ledger.close();
      pool->bell.ring();
      pool->ledger.await_replies();
    }

    std::unique_ptr<PoolState> pool;
    std::unique_ptr<Dispatcher> dispatcher;
    std::unique_ptr<SlotLaunchers> launchers;
    std::unique_ptr<Poller> poller;
  };
  using OwnedReplicas = std::vector<std::unique_ptr<Replica>>;

  [[nodiscard]] detail::AnyStaging make_staging() const {
    return {device_.state(), layout_, options_.buckets.back(), options_.outputs_per_row};
  }
  [[nodiscard]] OwnedReplicas make_replicas() const {
    OwnedReplicas replicas;
    for (int i = 0; i < options_.replicas; ++i) {
      auto branches = streams_.of(i);
      detail::AnyStreamScope const scope(branches.front(), {}, std::source_location::current());
      std::vector<std::unique_ptr<Slot>> slots;
      for (int j = 0; j < options_.depth; ++j) {
        Place const place{static_cast<std::size_t>(i), static_cast<std::size_t>(j), 0};
        slots.push_back(std::make_unique<Slot>(
            place, make_staging(), static_cast<std::size_t>(options_.buckets.back())));
      }
      replicas.push_back(std::make_unique<Replica>(std::move(branches), std::move(slots)));
    }
    return replicas;
  }

  [[nodiscard]] std::unique_ptr<ModelVersion> make_version(std::uint64_t number,
                                                           ForwardMaker const& make_forward,
                                                           auto const& replicas) {
    require(make_forward != nullptr, "InferencePool: the model is null");
    std::vector<detail::AnyForward> forwards;
    forwards.reserve(static_cast<std::size_t>(options_.replicas));
    for (int i = 0; i < options_.replicas; ++i) {
      forwards.push_back(make_forward());
    }
    auto version = std::make_unique<ModelVersion>(
        number, std::move(forwards), static_cast<std::size_t>(options_.depth), options_.buckets);
    try_out(*version);
    captured_steps_.store(capture(*version, replicas));
    return version;
  }
  /// Runs the model once for each bucket before any capture, so that everything that it creates at
  /// its first run exists.
  void try_out(ModelVersion const& version) const {
    auto const branches = streams_.of(options_.replicas);
    detail::AnyStreamScope const scope(branches.front(), {}, std::source_location::current());
    auto const staging = make_staging();
    for (std::size_t bucket = 0; bucket < options_.buckets.size(); ++bucket) {
      bool has_issued = false;
      auto const last = version.issue({0, 0, bucket}, staging, branches, has_issued);
      device_.synchronize(last);
    }
  }
  /// Captures the model's steps on all sound replicas. Returns the number of captured steps.
  std::uint64_t capture(ModelVersion& version, auto const& replicas) {
    std::uint64_t captured = 0;
    if (!device_.backend().traits.captures || !options_.capture) {
      return captured;
    }
    for (auto const& replica : replicas) {
      if (!replica->is_sound()) {
        continue;
      }
      detail::AnyStreamScope const scope(replica->group(), {}, std::source_location::current());
      for (auto const& slot : replica->slots()) {
        for (std::size_t bucket = 0; bucket < options_.buckets.size(); ++bucket) {
          Place const place{slot->place.replica, slot->place.slot, bucket};
          try {
            version.capture(
                device_, place, slot->staging, replica->branches(), memories_[place.replica]);
            ++captured;
          } catch (std::exception const& error) {
            note_failed_capture(version, place, error);
          }
        }
      }
    }
    return captured;
  }
  void note_failed_capture(ModelVersion const& version,
                           Place const& place,
                           std::exception const& error) {
    failed_captures_.fetch_add(1);
    if (options_.log) {
      options_.log(
          fmt::format("msstream: inference pool: version {} is issued anew by replica {} for each "
                      "launch of up to {} rows, since {}",
                      version.number(),
                      place.replica,
                      options_.buckets[place.bucket],
                      error.what()));
    }
  }

  void close() noexcept { serving_->close(); }
  void refuse_callback(char const* call) const {
    home_.require_here();
    if (detail::RuntimeThread::is_in_work()) {
      detail::InsideWork::refuse_wait(fmt::format("InferencePool::{}", call));
    }
    if (pool_->ledger.is_replying()) {
      throw std::logic_error(fmt::format("InferencePool::{} called from a callback", call));
    }
  }

  detail::AnyDevice device_;
  /// The process of the pool, which is also the process of its device.
  detail::HomeProcess home_{device_.backend().traits.life};
  InferencePoolOptions options_;
  std::shared_ptr<InputLayout const> layout_;
  detail::AnyBranchStreams streams_;
  /// The memory that all captures of a replica share, for each replica; empty if the runtime cannot
  /// capture.
  std::vector<std::shared_ptr<detail::CaptureMemory>> memories_;
  std::atomic<std::uint64_t> captured_steps_{0};
  std::atomic<std::uint64_t> failed_captures_{0};
  std::mutex swapping_;
  std::atomic<std::uint64_t> version_{1};
  std::shared_ptr<Serving> serving_;
  PoolState* pool_;
  Dispatcher* dispatcher_;
};

}  // namespace msstream::serve

namespace msstream::detail {

AnyInferencePool::AnyInferencePool(AnyDevice const& device,
                                   serve::InferencePoolOptions const& options,
                                   ForwardMaker const& make_forward)
    : body_(std::make_unique<serve::PoolBody>(device, options, make_forward)) {}
AnyInferencePool::~AnyInferencePool() = default;

std::future<serve::Answer> AnyInferencePool::submit(serve::Query const& query) {
  body_->refuse_in_work();
  std::promise<serve::Answer> promise;
  auto answer = promise.get_future();
  body_->submit(query, std::move(promise));
  return answer;
}
void AnyInferencePool::submit(serve::Query const& query, serve::Callback callback) {
  body_->refuse_in_work();
  body_->submit(query, std::move(callback));
}
std::uint64_t AnyInferencePool::swap(ForwardMaker const& make_forward) {
  return body_->swap(make_forward);
}
void AnyInferencePool::drain() {
  body_->drain();
}
void AnyInferencePool::close() noexcept {
  body_->close_if_here();
}
serve::PoolCounts AnyInferencePool::counts() const noexcept {
  return body_->counts();
}
serve::PoolLatencies AnyInferencePool::latencies() const noexcept {
  return body_->latencies();
}
serve::InferencePoolOptions const& AnyInferencePool::options() const noexcept {
  return body_->options();
}
std::shared_ptr<AnyStreamPool> const& AnyInferencePool::streams() const noexcept {
  return body_->streams();
}

}  // namespace msstream::detail
