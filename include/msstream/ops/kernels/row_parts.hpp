// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// merged[i] = ids[i] for i < *count, and -1, which every grouping leaves out, up to the capacity.
struct MergeIdsArgs {
  std::int64_t const* ids;
  std::int64_t const* count;  ///< device scalar ≤ capacity
  std::int64_t capacity;
  std::int64_t* merged;
};
void merge_ids(HostStream stream, MergeIdsArgs const& args);
void merge_ids(CudaStream stream, MergeIdsArgs const& args);

}  // namespace msstream::ops::kernels
