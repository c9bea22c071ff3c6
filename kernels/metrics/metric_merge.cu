// SPDX-License-Identifier: Apache-2.0
#include "common/launch.cuh"
#include "metrics/metric_merge.hpp"

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {
namespace {

constexpr int kMergeThreads = 256;
constexpr std::int64_t kMostMergeBlocks = 1024;

__global__ void __launch_bounds__(kMergeThreads) merge_metrics_kernel(MetricMerge const merge) {
  auto* const to = reinterpret_cast<std::uint64_t*>(merge.to + 1);
  auto const* const from = reinterpret_cast<std::uint64_t const*>(merge.from + 1);
  for (auto i = grid_thread(); i < merge.words + merge.tally_words; i += grid_stride()) {
    if (i < merge.words) {
      to[i] += from[i];
    } else {
      merge.to->at[i - merge.words] += merge.from->at[i - merge.words];
    }
  }
}

}  // namespace

void merge_metrics(CudaStream stream, MetricMerge const& merge) {
  auto const blocks = std::min(
      ceil_div<std::int64_t>(merge.words + merge.tally_words, kMergeThreads), kMostMergeBlocks);
  merge_metrics_kernel<<<static_cast<unsigned>(blocks), kMergeThreads, 0, stream>>>(merge);
  check_launch("merge_metrics");
}

}  // namespace msstream::ops::kernels
