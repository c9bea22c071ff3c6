// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// Copies one part of a row gradient to its position in a merged gradient: the ids and the rows of
/// values [*begin, *end), at most `capacity` of them, then ids of -1 up to the capacity.
/// deduplicate() leaves out ids of -1, so that values beyond the rows need not be written. With a
/// width of 0, copies the ids alone, and the values may be null.
struct MergeRowsArgs {
  std::int64_t const* ids;
  float const* values;  ///< [at least *end, stride], of which the first `width` columns are copied
  std::int64_t const* end;  ///< device scalar
  std::int64_t capacity;
  std::int64_t width;
  std::int64_t* merged_ids;    ///< [capacity]
  float* merged_values;        ///< [capacity, width]
  std::int64_t first_row = 0;  ///< added to the ids; an id that becomes negative is left out
  std::int64_t const* begin = nullptr;   ///< device scalar, or null for 0
  std::int64_t stride = 0;               ///< 0 stands for `width`
  std::int64_t* merged_count = nullptr;  ///< receives the number of rows, unless it is null
};
void merge_rows(HostStream stream, MergeRowsArgs args);
void merge_rows(CudaStream stream, MergeRowsArgs args);

}  // namespace msstream::ops::kernels
