// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "metrics/metric_update.hpp"

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Two states of one kind of metric that are sums of integers. Each is a Tally with words behind.
struct MetricMerge {
  Tally* to;
  Tally const* from;
  int tally_words;     ///< the first words of Tally::at, which are sums
  std::int64_t words;  ///< behind the tallies
};

/// Adds all sums of `from` to those of `to`.
void merge_metrics(HostStream stream, MetricMerge const& merge);
void merge_metrics(CudaStream stream, MetricMerge const& merge);

}  // namespace msstream::ops::kernels
