// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/detail/any_device.hpp>
#include <msstream/serve/answer.hpp>
#include <msstream/serve/detail/forward.hpp>
#include <msstream/serve/options.hpp>
#include <msstream/serve/pool_counts.hpp>
#include <msstream/serve/query.hpp>

#include <cstdint>
#include <functional>
#include <future>
#include <memory>

namespace msstream::serve {

class PoolBody;

}  // namespace msstream::serve

namespace msstream::detail {

class AnyStreamPool;

/// The implementation of InferencePool<Model, R>, compiled once for all models and runtimes;
/// InferencePool documents the functions.
class AnyInferencePool {
 public:
  /// A function that makes the function which one replica calls for a model. The constructor and
  /// swap() call it once for each replica, and no later. Null if there is no model.
  using ForwardMaker = std::function<AnyForward()>;

  AnyInferencePool(AnyDevice const& device,
                   serve::InferencePoolOptions const& options,
                   ForwardMaker const& make_forward);
  AnyInferencePool(AnyInferencePool const&) = delete;
  AnyInferencePool& operator=(AnyInferencePool const&) = delete;
  ~AnyInferencePool();

  [[nodiscard]] std::future<serve::Answer> submit(serve::Query const& query);
  void submit(serve::Query const& query, serve::Callback callback);
  std::uint64_t swap(ForwardMaker const& make_forward);
  void drain();
  /// Drains the pool, except in a child of fork() or after the end of the driver. Callbacks may
  /// still use the pool.
  void close() noexcept;
  [[nodiscard]] serve::PoolCounts counts() const noexcept;
  [[nodiscard]] serve::PoolLatencies latencies() const noexcept;
  [[nodiscard]] serve::InferencePoolOptions const& options() const noexcept;
  /// Returns the stream pool of the first branch.
  [[nodiscard]] std::shared_ptr<AnyStreamPool> const& streams() const noexcept;

 private:
  std::unique_ptr<serve::PoolBody> const body_;
};

}  // namespace msstream::detail
