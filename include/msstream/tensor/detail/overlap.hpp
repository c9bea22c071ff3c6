// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/detail/any_tensor.hpp>

namespace msstream::detail {

/// Whether two tensors have the same elements in memory, from the first to the last.
[[nodiscard]] inline bool is_same_memory(AnyTensor const& a, AnyTensor const& b) noexcept {
  return a.data() == b.data() && a.bytes() == b.bytes();
}

/// Throws std::invalid_argument, naming both ranges of elements, if memory that an operation writes
/// overlaps memory that it reads: whether the read or the write comes first would be undefined.
void require_no_overlap(char const* operation, AnyTensor const& to, AnyTensor const& from);

}  // namespace msstream::detail
