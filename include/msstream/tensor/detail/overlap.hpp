// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/detail/any_tensor.hpp>

namespace msstream::detail {

/// Returns whether two tensors have the same elements in memory, from the first to the last.
[[nodiscard]] inline bool is_same_memory(AnyTensor const& a, AnyTensor const& b) noexcept {
  return a.data() == b.data() && a.bytes() == b.bytes();
}

/// Throws std::invalid_argument, with both ranges of elements, if the tensor `to`, which an
/// operation writes, overlaps the tensor `from`, which it reads: the order of the read and the
/// write would be undefined.
void require_no_overlap(char const* operation, AnyTensor const& to, AnyTensor const& from);

}  // namespace msstream::detail
