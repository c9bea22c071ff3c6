// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// A search for the first NaN or infinity. The first word at `found` is kNothingFound, or has the
/// number of the search in its upper 24 bits and the index of the element in the lower 40. The
/// other two words belong to the searches. All bits of the words are 1 before the first search.
struct NonFiniteSearch {
  static constexpr int kElementBits = 40;
  static constexpr std::uint64_t kNothingFound = ~std::uint64_t{0};
  static constexpr std::int64_t kWords = 3;

  void const* values;
  DType dtype;  ///< float32, float16 or bfloat16
  std::int64_t count;
  std::int64_t const*
      row_count;              ///< device scalar: only so many rows exist; null if all elements do
  std::int64_t width;         ///< elements of a row
  std::uint64_t number;       ///< of the search, below 2^24 - 1
  unsigned long long* found;  ///< [kWords]
};
/// Notes the first element that is NaN or infinite, unless an earlier search, or an earlier replay
/// of the same one, has found one.
/// Searches with one `found` must not overlap.
void find_non_finite(HostStream stream, NonFiniteSearch const& search);
void find_non_finite(CudaStream stream, NonFiniteSearch const& search);

}  // namespace msstream::ops::kernels
