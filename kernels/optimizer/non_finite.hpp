// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/runtime/stream_ref.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

/// A search for the first NaN or infinity. The first word at `found` is kNothingFound, or has the
/// number of the search in its upper 24 bits and the index of the element in the lower 40. The
/// other words belong to the searches. All bits of the words are 1 before the first search.
///
/// The inputs of an operation are searched after its result, and only if the result is the first
/// that is not finite: a finding in an input then replaces that in the result. The searches of the
/// inputs have lower numbers than that of the result.
struct NonFiniteSearch {
  static constexpr int kElementBits = 40;
  static constexpr std::uint64_t kNothingFound = ~std::uint64_t{0};
  static constexpr std::uint64_t kNoResult = kNothingFound >> kElementBits;
  static constexpr std::int64_t kWords = 4;

  void const* values = nullptr;
  DType dtype = DType::float32;  ///< float32, float16 or bfloat16
  std::int64_t count = 0;
  /// A device scalar: only so many rows exist. Null if all elements do.
  std::int64_t const* row_count = nullptr;
  std::int64_t width = 1;               ///< elements of a row
  std::uint64_t number = 0;             ///< of the search, below 2^24 - 1
  unsigned long long* found = nullptr;  ///< [kWords]
  /// The number of the search of the result, for an input of that operation; else kNoResult.
  std::uint64_t result = kNoResult;
  bool is_last_input = false;  ///< a later replay must not search the inputs for the same result
};
/// Returns whether a search has to be made, from the words that earlier searches left.
[[nodiscard]] MSSTREAM_HOST_DEVICE inline bool is_wanted(NonFiniteSearch const& search) {
  auto const* const found = search.found;
  return search.result == NonFiniteSearch::kNoResult
             ? found[0] == NonFiniteSearch::kNothingFound
             : found[0] >> NonFiniteSearch::kElementBits == search.result && found[3] != 0;
}
/// Notes the first element that is NaN or infinite, unless an earlier search, or an earlier replay
/// of the same one, has found one.
/// Searches with one `found` must not overlap.
void find_non_finite(HostStream stream, NonFiniteSearch const& search);
void find_non_finite(CudaStream stream, NonFiniteSearch const& search);

}  // namespace msstream::ops::kernels
