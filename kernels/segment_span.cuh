// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bag_layout.hpp"
#include "row_vector.cuh"

#include <cstdint>

namespace msstream::ops::kernels {

// A Source tells what to add: `place(i)` gives the row and the factor of place i. Where that costs
// more than arithmetic, `kIsCostly` makes the lanes of a group share the work.

/// A row to add, times `factor`.
struct Place {
  std::int64_t row = 0;
  float factor = 0.0F;
};

/// Segment s has the places [offsets[s], offsets[s + 1]); `count`, or null, tells how many exist.
struct SegmentSpan {
  std::int64_t const* offsets;
  std::int64_t const* count;
  std::int64_t segments;

  __device__ std::int64_t existing() const { return count != nullptr ? *count : segments; }
  __device__ PlaceRange places_of(std::int64_t segment) const {
    return {offsets[segment], offsets[segment + 1]};
  }
};

/// What becomes of a segment's sum.
struct SumOutput {
  float* rows;
  std::int64_t width;
  bool is_mean;

  template <int Count>
  __device__ void write(std::int64_t segment,
                        std::int64_t column,
                        Columns<Count> sum,
                        std::int64_t places) const {
    if (is_mean && places > 0) {
      sum.divide(static_cast<float>(places));
    }
    store_columns(rows + segment * width + column, sum);
  }
};

}  // namespace msstream::ops::kernels
