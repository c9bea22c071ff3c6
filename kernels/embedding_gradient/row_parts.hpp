// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Copies one part of a row gradient to its position in a merged gradient: the first *count ids and
/// rows of values, then ids of -1 up to the capacity. deduplicate() leaves out ids of -1, so that
/// values beyond *count need not be written.
struct MergeRowsArgs {
  std::int64_t const* ids;
  float const* values;        ///< [capacity, width]
  std::int64_t const* count;  ///< device scalar ≤ capacity: number of rows in the part
  std::int64_t capacity;
  std::int64_t width;
  std::int64_t* merged_ids;
  float* merged_values;        ///< [capacity, width]
  std::int64_t first_row = 0;  ///< added to the ids; an id that becomes negative is left out
};
void merge_rows(HostStream stream, MergeRowsArgs const& args);
void merge_rows(CudaStream stream, MergeRowsArgs const& args);

}  // namespace msstream::ops::kernels
