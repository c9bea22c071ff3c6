// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace msstream::ops::kernels {

/// Returns the least number of rows of a segment that several blocks of a GPU share in a softmax of
/// segments, which is also the least number of rows of each block's part. Depends only on the
/// sizes, so that a captured launch serves any offsets.
///
/// A part has at least as many elements as one block needs some microseconds for. There are at most
/// kMostParts parts, and no more than a part has rows, because each block reads the partial results
/// of all parts of its segment.
inline std::int64_t part_rows(std::int64_t capacity, std::int64_t width) {
  constexpr std::int64_t kFewestRows = 64;
  constexpr std::int64_t kFewestElements = 8192;
  constexpr std::int64_t kMostParts = 512;
  auto const columns = std::max<std::int64_t>(width, 1);
  return std::max({kFewestRows,
                   (kFewestElements + columns - 1) / columns,
                   (capacity + kMostParts - 1) / kMostParts,
                   static_cast<std::int64_t>(std::sqrt(static_cast<double>(capacity)))});
}

}  // namespace msstream::ops::kernels
