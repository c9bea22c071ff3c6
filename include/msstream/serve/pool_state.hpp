// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/serve/buckets.hpp>
#include <msstream/serve/input_layout.hpp>
#include <msstream/serve/ledger.hpp>
#include <msstream/serve/options.hpp>
#include <msstream/serve/query_queue.hpp>
#include <msstream/serve/replicas.hpp>
#include <msstream/stream/detail/doorbell.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::serve {

/// The state that the threads of a pool share; each member has its own thread-safety rules.
template <Runtime R>
struct PoolState {
  PoolState(std::shared_ptr<detail::StreamContext> of_device,
            std::shared_ptr<InputLayout const> inputs,
            InferencePoolOptions const& options,
            std::vector<std::unique_ptr<Replica<R>>> made,
            std::unique_ptr<ModelVersion<R>> first)
      : context(std::move(of_device)),
        layout(std::move(inputs)),
        outputs_per_row(options.outputs_per_row),
        max_batch_delay(options.max_batch_delay),
        buckets(options.buckets),
        queue(options.queue_capacity, options.ageing),
        replicas(std::move(made)),
        versions(std::move(first)) {}

  std::shared_ptr<detail::StreamContext> const context;
  std::shared_ptr<InputLayout const> const layout;
  std::int64_t const outputs_per_row;
  std::chrono::nanoseconds const max_batch_delay;  ///< 0 if each query is launched alone
  Buckets buckets;
  QueryQueue queue;
  Replicas<R> replicas;
  Published<ModelVersion<R>> versions;
  Ledger ledger;
  detail::Doorbell bell;  ///< rung to wake the poller
};

}  // namespace msstream::serve
