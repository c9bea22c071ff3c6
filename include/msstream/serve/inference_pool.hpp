// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/serve/detail/any_inference_pool.hpp>
#include <msstream/serve/inputs.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <type_traits>
#include <utility>

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
  /// A model that the pool and the program share; the pool does not change it.
  using SharedModel = std::shared_ptr<Model const>;
  /// A function that makes a separate model, with its own weights, for a replica.
  using Clone = std::function<SharedModel(Model const&)>;

  /// Makes a pool. Calls the model once for each bucket, on zeros and empty lists, waits for the
  /// result, and then captures the model for each replica and bucket. Without `clone`, all replicas
  /// share the model. Throws what the model throws, std::invalid_argument for options out of range
  /// and for a result of another shape, and OutOfMemory.
  InferencePool(Device<R> const& device,
                SharedModel model,
                InferencePoolOptions const& options,
                Clone clone = {})
      : clone_(std::move(clone)),
        body_(device.engine(), options, forwards_of(std::move(model))),
        streams_(body_.streams()) {}
  InferencePool(InferencePool const&) = delete;
  InferencePool& operator=(InferencePool const&) = delete;
  /// Drains the pool. Must not be called from a callback, nor while another thread is inside
  /// submit(), even if its query has been answered.
  ~InferencePool() { body_.close(); }

  /// Accepts a query without blocking: copies its values, and launches it if a slot is idle and
  /// there are no launch threads. The future gets the answer, or an exception: Refused,
  /// DeadlineExceeded, or an exception of the model or the device. Throws std::invalid_argument for
  /// a query whose rows, values or lists do not fit, with the name of the field.
  [[nodiscard]] std::future<Answer> submit(Query const& query) { return body_.submit(query); }
  /// Accepts a query without blocking, and calls `callback` once with the outcome: on the poller,
  /// which does nothing else meanwhile, or inside submit(), if the query is refused, has expired,
  /// or cannot be queued. The callback may call submit(), but neither swap() nor drain().
  /// Exceptions of the callback are dropped, and counted. Throws std::invalid_argument for a query
  /// whose rows or values do not fit, and for a null callback.
  void submit(Query const& query, Callback callback) { body_.submit(query, std::move(callback)); }

  /// Replaces the model: queries launched from now on are answered by `model`, and queries launched
  /// before by the previous model, each by one model alone. Captures the new model on the calling
  /// thread while the old one serves, so the memory of both is in use meanwhile. Blocks until the
  /// old model's last query is complete, then releases the old model. Returns the new version.
  /// Throws what the constructor throws, and then keeps the old model; throws std::logic_error if
  /// called from a callback.
  std::uint64_t swap(SharedModel model) { return body_.swap(forwards_of(std::move(model))); }

  /// Refuses queries from now on, and blocks until all admitted queries have their outcome. Other
  /// threads may continue to call submit(), also afterwards. Throws std::logic_error if called from
  /// a callback.
  void drain() { body_.drain(); }

  /// Returns the counts of queries, launches and captures so far. Any thread may call it.
  [[nodiscard]] PoolCounts counts() const noexcept { return body_.counts(); }
  /// Returns the latencies of the queries answered so far. Any thread may call it.
  [[nodiscard]] PoolLatencies latencies() const noexcept { return body_.latencies(); }
  /// Returns the options with which the pool was made.
  [[nodiscard]] InferencePoolOptions const& options() const noexcept { return body_.options(); }
  /// Returns the stream pool of the first branch. Replica i runs on group i; models are tried out
  /// on the last group.
  [[nodiscard]] StreamPool<R> const& streams() const noexcept { return streams_; }

 private:
  /// Returns a function that makes the function which each replica calls for the model; null if the
  /// model is null.
  [[nodiscard]] detail::AnyInferencePool::ForwardMaker forwards_of(SharedModel model) const {
    if (model == nullptr) {
      return nullptr;
    }
    return [model = std::move(model), this]() -> detail::AnyForward {
      return [own = clone_ ? clone_(*model) : model](detail::AnyInputs const& inputs) {
        return detail::Floats(forward(*own, Inputs<R>(inputs)));
      };
    };
  }
  [[nodiscard]] static Tensor<float, R> forward(Model const& model, Inputs<R> const& inputs) {
    return model(inputs);
  }

  Clone clone_;
  detail::AnyInferencePool body_;
  StreamPool<R> streams_;  ///< shares the stream pool of body_
};

template <Runtime R, class Model>
InferencePool(Device<R> const&, std::shared_ptr<Model>, InferencePoolOptions)
    -> InferencePool<std::remove_const_t<Model>, R>;
template <Runtime R, class Model, class Clone>
InferencePool(Device<R> const&, std::shared_ptr<Model>, InferencePoolOptions, Clone)
    -> InferencePool<std::remove_const_t<Model>, R>;

}  // namespace msstream::serve
