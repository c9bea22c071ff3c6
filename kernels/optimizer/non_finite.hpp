// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// A search for the first NaN or infinity. The word at `found` is kNothingFound, or has the number
/// of the search in its upper 24 bits and the index of the element in the lower 40.
struct NonFiniteSearch {
  static constexpr int kElementBits = 40;
  static constexpr std::uint64_t kNothingFound = ~std::uint64_t{0};

  void const* values;
  DType dtype;  ///< float32, float16 or bfloat16
  std::int64_t count;
  std::int64_t const*
      row_count;         ///< device scalar: only so many rows exist; null if all elements do
  std::int64_t width;    ///< elements of a row
  std::uint64_t number;  ///< of the search, below 2^24 - 1
  unsigned long long* found;
};
/// Notes the first element that is NaN or infinite, unless an earlier search has found one.
/// Searches with one `found` must not overlap.
void find_non_finite(HostStream stream, NonFiniteSearch const& search);
void find_non_finite(CudaStream stream, NonFiniteSearch const& search);

}  // namespace msstream::ops::kernels
