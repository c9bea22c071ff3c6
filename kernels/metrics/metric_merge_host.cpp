// SPDX-License-Identifier: Apache-2.0
#include "metrics/metric_merge.hpp"

#include <cstdint>

namespace msstream::ops::kernels {

void merge_metrics(HostStream stream, MetricMerge const& merge) {
  stream.run([merge] {
    auto* const to = reinterpret_cast<std::uint64_t*>(merge.to + 1);
    auto const* const from = reinterpret_cast<std::uint64_t const*>(merge.from + 1);
    for (std::int64_t i = 0; i < merge.words; ++i) {
      to[i] += from[i];
    }
    for (int w = 0; w < merge.tally_words; ++w) {
      merge.to->at[w] += merge.from->at[w];
    }
  });
}

}  // namespace msstream::ops::kernels
