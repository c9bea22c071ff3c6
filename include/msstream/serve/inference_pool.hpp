// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/default_runtime.hpp>
#include <msstream/runtime/home_process.hpp>
#include <msstream/runtime/runtime_thread.hpp>
#include <msstream/runtime/settled_at_exit.hpp>
#include <msstream/serve/branches.hpp>
#include <msstream/serve/device_calls.hpp>
#include <msstream/serve/options.hpp>
#include <msstream/serve/poller.hpp>
#include <msstream/serve/slot_launchers.hpp>
#include <msstream/stream/detail/inside_work.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace msstream::serve {

/// Answers many queries at once, with replicas of one model, each on its own stream groups, that
/// share the model's weights.
///
///     InferencePool pool(device, model,  // std::shared_ptr<Net const>
///                        {.inputs = {field<std::int64_t>("keys", 104), field<float>("dense", 13)},
///                         .replicas = 16,
///                         .buckets = {64, 256}});
///     std::future<Answer> answer = pool.submit({.rows = 3, .values = {keys, dense}});
///
/// The model is called as `(*model)(inputs)` with an `Inputs<R> const&`, from several threads at
/// once. It returns a Tensor<float, R> of [inputs.rows(), outputs_per_row], and computes each row
/// only from that row of the inputs. It issues its operations to the current group, and may open
/// scopes of inputs.branch(i), but no others. Its weights should be frozen. The constructor
/// captures the model once for each replica and bucket, and launches replay it. If the capture
/// fails, or the runtime cannot capture, the model is called for each launch.
///
/// A query goes to the replica with the least load. If no replica has an idle slot, the query waits
/// in the queue, ordered by priority and then by arrival; if the queue is full, the query is
/// refused. Every query gets exactly one outcome: its answer, or an exception, which may be of the
/// model or of the device. A replica on which a call of the device fails gets no more queries; the
/// other replicas continue.
///
/// Thread-safe, except for the destructor, which drains: no other thread may be inside a call then.
template <class Model, Runtime R = DefaultRuntime>
class InferencePool {
 public:
  using SharedModel = std::shared_ptr<Model const>;
  /// Makes a separate model for a replica, with its own weights.
  using Clone = std::function<SharedModel(Model const&)>;

  /// Calls the model once for each bucket, on zeros, waits for it, and then captures. Without
  /// `clone`, all replicas share the model. Throws what the model throws, std::invalid_argument for
  /// options out of range and for a result of another shape, and OutOfMemory.
  InferencePool(Device<R> const& device,
                SharedModel model,
                InferencePoolOptions const& options,
                Clone clone = {})
      : device_(device),
        options_(options.checked()),
        clone_(std::move(clone)),
        layout_(std::make_shared<InputLayout const>(options_.inputs)),
        streams_(device, options_, options_.replicas + 1) {
    auto replicas = make_replicas();
    if constexpr (CapturingRuntime<R>) {
      for (auto const& replica : replicas) {
        memories_.emplace_back(device_, replica->group());
      }
    }
    auto first = make_version(1, std::move(model), replicas);
    serving_ = make_at_home<Serving>(home_);
    serving_->pool = std::make_unique<PoolState<R>>(
        device_.context(), layout_, options_, std::move(replicas), std::move(first));
    pool_ = serving_->pool.get();
    serving_->dispatcher = std::make_unique<Dispatcher<R>>(*pool_);
    dispatcher_ = serving_->dispatcher.get();
    serving_->launchers = std::make_unique<SlotLaunchers<R>>(
        *pool_, *dispatcher_, options_.launch_thread_total(), options_.launch_spin());
    serving_->poller = std::make_unique<Poller<R>>(*pool_, *dispatcher_, options_.launch_spin());
    settle_at_exit(
        life_of<R>, serving_, SettleOrder::threads, [](Serving& ending) { ending.end(); });
  }
  InferencePool(InferencePool const&) = delete;
  InferencePool& operator=(InferencePool const&) = delete;
  /// Drains the pool. Must not be called from a callback, nor while another thread is inside
  /// submit(), even if its query has been answered.
  ~InferencePool() {
    if (!home_.is_left()) {
      close();
    }
  }

  /// Accepts a query without blocking: copies its values, and launches it if a slot is idle and
  /// there are no launch threads. The future gets the answer, or an exception: Refused,
  /// DeadlineExceeded, or an exception of the model or the device. Throws std::invalid_argument for
  /// a query whose rows or values do not fit.
  [[nodiscard]] std::future<Answer> submit(Query const& query) {
    refuse_in_work();
    std::promise<Answer> promise;
    auto answer = promise.get_future();
    dispatcher_->admit(query, Reply(std::move(promise)));
    return answer;
  }
  /// Like submit() with a future, but calls `callback` once with the outcome: on the poller, which
  /// does nothing else meanwhile, or inside submit(), if the query is refused, has expired, or
  /// cannot be queued. The callback may call submit(), but neither swap() nor drain(). Exceptions
  /// of the callback are dropped, and counted. Throws std::invalid_argument also for a null
  /// callback.
  void submit(Query const& query, Callback callback) {
    refuse_in_work();
    dispatcher_->admit(query, Reply(std::move(callback)));
  }

  /// Replaces the model: queries launched from now on are answered by `model`, and queries launched
  /// before by the previous model, each by one model alone. Captures the new model on the calling
  /// thread while the old one serves, so the memory of both is in use meanwhile. Blocks until the
  /// old model's last query is complete, then releases the old model. Returns the new version.
  /// Throws what the constructor throws, and then keeps the old model; throws std::logic_error if
  /// called from a callback.
  std::uint64_t swap(SharedModel model) {
    refuse_callback("swap");
    std::lock_guard const guard(swapping_);
    auto const version = version_ + 1;
    pool_->versions.replace(make_version(version, std::move(model), pool_->replicas));
    version_ = version;
    release_unneeded_memory(*device_.state());
    return version;
  }

  /// Refuses queries from now on, and blocks until all admitted queries have their outcome. Other
  /// threads may continue to call submit(), also afterwards. Throws std::logic_error if called from
  /// a callback.
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
  /// Returns the stream pool of the first branch. Replica i runs on group i; the last group is for
  /// trying out models.
  [[nodiscard]] StreamPool<R> const& streams() const noexcept { return streams_.first(); }

 private:
  /// The state that the pool's threads work on, and the threads.
  struct Serving {
    /// Drains the pool, and ends the threads.
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

    std::unique_ptr<PoolState<R>> pool;
    std::unique_ptr<Dispatcher<R>> dispatcher;
    std::unique_ptr<SlotLaunchers<R>> launchers;
    std::unique_ptr<Poller<R>> poller;
  };
  using OwnedReplicas = std::vector<std::unique_ptr<Replica<R>>>;

  [[nodiscard]] Staging<R> make_staging() const {
    return {device_, layout_, options_.buckets.back(), options_.outputs_per_row};
  }
  [[nodiscard]] OwnedReplicas make_replicas() const {
    OwnedReplicas replicas;
    for (int i = 0; i < options_.replicas; ++i) {
      auto branches = streams_.of(i);
      StreamScope const scope(branches.front());
      std::vector<std::unique_ptr<Slot<R>>> slots;
      for (int j = 0; j < options_.depth; ++j) {
        Place const place{static_cast<std::size_t>(i), static_cast<std::size_t>(j), 0};
        slots.push_back(std::make_unique<Slot<R>>(
            place, make_staging(), static_cast<std::size_t>(options_.buckets.back())));
      }
      replicas.push_back(std::make_unique<Replica<R>>(std::move(branches), std::move(slots)));
    }
    return replicas;
  }

  [[nodiscard]] std::unique_ptr<ModelVersion<R>> make_version(std::uint64_t number,
                                                              SharedModel model,
                                                              auto const& replicas) {
    require(model != nullptr, "InferencePool: the model is null");
    std::vector<Forward<R>> forwards;
    forwards.reserve(static_cast<std::size_t>(options_.replicas));
    for (int i = 0; i < options_.replicas; ++i) {
      forwards.push_back([own = clone_ ? clone_(*model) : model](Inputs<R> const& inputs) {
        return (*own)(inputs);
      });
    }
    auto version = std::make_unique<ModelVersion<R>>(
        number, std::move(forwards), static_cast<std::size_t>(options_.depth), options_.buckets);
    try_out(*version);
    captured_steps_.store(capture(*version, replicas));
    return version;
  }
  /// Runs the model once for each bucket, so that everything that is made at first use exists
  /// afterwards.
  void try_out(ModelVersion<R> const& version) const {
    auto const branches = streams_.of(options_.replicas);
    StreamScope const scope(branches.front());
    auto const staging = make_staging();
    for (std::size_t bucket = 0; bucket < options_.buckets.size(); ++bucket) {
      bool has_issued = false;
      auto const last = version.issue({0, 0, bucket}, staging, branches, has_issued);
      device_.synchronize(last);
    }
  }
  /// Captures the version on all sound replicas. Returns the number of captured steps.
  std::uint64_t capture(ModelVersion<R>& version, auto const& replicas) {
    std::uint64_t captured = 0;
    if constexpr (CapturingRuntime<R>) {
      if (!options_.capture) {
        return 0;
      }
      for (auto const& replica : replicas) {
        if (!replica->is_sound()) {
          continue;
        }
        StreamScope const scope(replica->group());
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
    }
    return captured;
  }
  void note_failed_capture(ModelVersion<R> const& version,
                           Place const& place,
                           std::exception const& error) {
    failed_captures_.fetch_add(1);
    if (options_.log) {
      options_.log(text("msstream: inference pool: version ",
                        version.number(),
                        " is issued anew by replica ",
                        place.replica,
                        " for each launch of up to ",
                        options_.buckets[place.bucket],
                        " rows, since ",
                        error.what()));
    }
  }

  void close() noexcept { serving_->close(); }
  /// Throws if the calling thread runs a stream's work, because the answer may have to wait for
  /// that stream.
  void refuse_in_work() const {
    home_.require_here();
    detail::InsideWork::refuse_wait("InferencePool::submit");
  }
  void refuse_callback(char const* call) const {
    home_.require_here();
    if (RuntimeThread::is_in_work()) {
      detail::InsideWork::refuse_wait(text("InferencePool::", call));
    }
    if (pool_->ledger.is_replying()) {
      throw std::logic_error(text("InferencePool::", call, " called from a callback"));
    }
  }

  Device<R> device_;
  HomeProcess home_{life_of<R>};  ///< like the device's, which is not left when it makes a pool
  InferencePoolOptions options_;
  Clone clone_;
  std::shared_ptr<InputLayout const> layout_;
  BranchStreams<R> streams_;
  std::vector<typename CapturesOf<R>::Memory> memories_;  ///< one for each replica
  std::atomic<std::uint64_t> captured_steps_{0};
  std::atomic<std::uint64_t> failed_captures_{0};
  std::mutex swapping_;
  std::atomic<std::uint64_t> version_{1};
  std::shared_ptr<Serving> serving_;
  PoolState<R>* pool_;
  Dispatcher<R>* dispatcher_;
};

template <Runtime R, class Model>
InferencePool(Device<R> const&, std::shared_ptr<Model>, InferencePoolOptions)
    -> InferencePool<std::remove_const_t<Model>, R>;
template <Runtime R, class Model, class Clone>
InferencePool(Device<R> const&, std::shared_ptr<Model>, InferencePoolOptions, Clone)
    -> InferencePool<std::remove_const_t<Model>, R>;

}  // namespace msstream::serve
