// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/tensor.hpp>

#include <cstdint>

namespace msstream::detail {

/// Whether two tensors have the same elements in memory, from the first to the last.
template <Element A, Element B, Runtime R>
[[nodiscard]] bool is_same_memory(Tensor<A, R> const& a, Tensor<B, R> const& b) noexcept {
  return static_cast<void const*>(a.data()) == b.data() && a.bytes() == b.bytes();
}

/// Throws std::invalid_argument, naming both ranges of elements, if memory that an operation writes
/// overlaps memory that it reads: whether the read or the write comes first would be undefined.
template <Element To, Element From, Runtime R>
void require_no_overlap(char const* operation,
                        Tensor<To, R> const& to,
                        Tensor<From, R> const& from) {
  auto const to_begin = reinterpret_cast<std::uintptr_t>(to.data());
  auto const from_begin = reinterpret_cast<std::uintptr_t>(from.data());
  if (to.count() == 0 || from.count() == 0 || from_begin + from.bytes() <= to_begin ||
      to_begin + to.bytes() <= from_begin) [[likely]] {
    return;
  }
  // Overlapping tensors share one block, or have blocks made from the same memory.
  auto const block = reinterpret_cast<std::uintptr_t>(to.block()->data);
  auto const origin = block <= from_begin ? block : from_begin;
  auto const element = [&](std::uintptr_t at) {
    return static_cast<std::int64_t>((at - origin) / sizeof(To));
  };
  require(false,
          operation,
          ": reads elements [",
          element(from_begin),
          ", ",
          element(from_begin + from.bytes()),
          ") of the tensor whose elements [",
          element(to_begin),
          ", ",
          element(to_begin + to.bytes()),
          ") it writes; expected ranges that do not overlap");
}

}  // namespace msstream::detail
