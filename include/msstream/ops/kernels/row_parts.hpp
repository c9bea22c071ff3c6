// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Puts one part of a row gradient into its place among others: the first *count ids and rows of
/// values; then up to the capacity ids of -1, which every grouping leaves out, and no values.
struct MergeRowsArgs {
  std::int64_t const* ids;
  float const* values;        ///< [capacity, width]
  std::int64_t const* count;  ///< device scalar ≤ capacity
  std::int64_t capacity;
  std::int64_t width;
  std::int64_t* merged_ids;
  float* merged_values;        ///< [capacity, width]
  std::int64_t first_row = 0;  ///< added to the ids; what becomes negative is left out, too
};
void merge_rows(HostStream stream, MergeRowsArgs const& args);
void merge_rows(CudaStream stream, MergeRowsArgs const& args);

}  // namespace msstream::ops::kernels
