// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "serve/buckets.hpp"
#include "serve/ledger.hpp"
#include "serve/query_queue.hpp"
#include "serve/replicas.hpp"
#include "stream/doorbell.hpp"
#include "stream/stream_context.hpp"

#include <msstream/serve/detail/input_layout.hpp>
#include <msstream/serve/options.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::serve {

/// The state that all threads of a pool share. Each member has its own rules of thread safety.
struct PoolState {
  PoolState(std::shared_ptr<detail::StreamContext> of_device,
            std::shared_ptr<InputLayout const> inputs,
            InferencePoolOptions const& options,
            std::vector<std::unique_ptr<Replica>> made,
            std::unique_ptr<ModelVersion> first)
      : context(std::move(of_device)),
        must_be_asked(context->runtime->traits.must_be_asked),
        layout(std::move(inputs)),
        outputs_per_row(options.outputs_per_row),
        max_batch_delay(options.max_batch_delay),
        buckets(options.buckets),
        queue(options.queue_capacity, options.ageing),
        replicas(std::move(made)),
        versions(std::move(first)) {}

  std::shared_ptr<detail::StreamContext> const context;
  bool const must_be_asked;  ///< see msstream::must_be_asked
  std::shared_ptr<InputLayout const> const layout;
  std::int64_t const outputs_per_row;
  std::chrono::nanoseconds const max_batch_delay;  ///< 0 if each query is launched alone
  Buckets buckets;
  QueryQueue queue;
  Replicas replicas;
  Published<ModelVersion> versions;
  Ledger ledger;
  detail::Doorbell bell;  ///< rung to wake the poller
};

}  // namespace msstream::serve
