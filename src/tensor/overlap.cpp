// SPDX-License-Identifier: Apache-2.0
#include "memory/blocks/block.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/tensor/detail/overlap.hpp>

#include <cstdint>

namespace msstream::detail {

void require_no_overlap(char const* operation, AnyTensor const& to, AnyTensor const& from) {
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
    return static_cast<std::int64_t>((at - origin) / bytes_of(to.dtype()));
  };
  require(false,
          "{}: reads elements [{}, {}) of the tensor whose elements [{}, {}) it writes; expected "
          "ranges that do not overlap",
          operation,
          element(from_begin),
          element(from_begin + from.bytes()),
          element(to_begin),
          element(to_begin + to.bytes()));
}

}  // namespace msstream::detail
