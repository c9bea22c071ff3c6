// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/metrics/auc.hpp>
#include <msstream/metrics/metric.hpp>

#include <cstdint>

namespace msstream::training {

/// The most examples that area_metric() keeps, in up to 3 GB of device memory.
inline constexpr std::int64_t kMostExactExamples = std::int64_t{1} << 26U;

/// Returns a metric of the area under the ROC curve of `examples` logits: the exact area of up to
/// `most_exact`, and of more a BucketedAuc, whose memory does not grow with them.
template <Runtime R>
[[nodiscard]] metrics::Metric<R> area_metric(Device<R> const& device,
                                             std::int64_t examples,
                                             bool weighted,
                                             std::int64_t most_exact = kMostExactExamples) {
  if (examples <= most_exact) {
    return metrics::Auc<R>(device, {.capacity = examples, .weighted = weighted});
  }
  return metrics::BucketedAuc<R>(device, {.weighted = weighted});
}

}  // namespace msstream::training
