// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/communicator.hpp>
#include <msstream/metrics/batch.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <cstdint>
#include <source_location>

namespace msstream::metrics {

namespace detail {

/// The implementation of of_all_ranks(), compiled once for all runtimes.
[[nodiscard]] Batch<msstream::detail::AnyRuntime> of_all_ranks(
    comm::detail::AnyCommunicator const& communicator,
    Batch<msstream::detail::AnyRuntime> const& own,
    std::int64_t most_examples,
    std::source_location issued_at);

}  // namespace detail

/// Returns the examples of all ranks, in the order of the ranks, for metrics that each rank then
/// has of all of them: every metric, the exact AUC too, has the bits of one rank with all examples.
///
/// Ranks may have different numbers of examples, and none, up to `most_examples`, which is equal on
/// all ranks. The result has ranks * most_examples places, of which those without an example have a
/// weight of 0: make an Auc with `.weighted = true`, and a `.capacity` of that many for each
/// update. All ranks call it, with the same parts of a batch among scores, labels and weights;
/// users, offsets, targets and counts are refused. An all_gather for scores, labels and weights
/// each. Asynchronous; capture-safe. Throws std::invalid_argument for more examples than
/// most_examples, for numbers of labels or weights that are not that of the scores, for parts that
/// are refused, and what the collectives throw.
template <Runtime R>
[[nodiscard]] Batch<R> of_all_ranks(
    comm::Communicator<R> const& communicator,
    Batch<R> const& own,
    std::int64_t most_examples,
    std::source_location issued_at = std::source_location::current()) {
  using msstream::detail::typed;
  auto const all = detail::of_all_ranks(communicator.any(), own, most_examples, issued_at);
  Batch<R> batch{.scores = typed<R>(all.scores), .weights = typed<R>(*all.weights)};
  if (all.labels) {
    batch.labels = typed<R>(*all.labels);
  }
  return batch;
}

}  // namespace msstream::metrics
