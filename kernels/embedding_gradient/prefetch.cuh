// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops::kernels {

/// Columns of a row that a group of lanes requests into the L2 cache before it loads them.
struct ColumnsAhead {
  int first;
  int last;  ///< behind the last one
  int lane;  ///< of the group
};

__device__ inline void prefetch_to_l2(void const* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

/// Requests columns of a row, a cache line a lane. Lanes beyond them do nothing.
template <class T>
__device__ void prefetch_to_l2(T const* row, ColumnsAhead const& columns) {
  constexpr int kLineBytes = 128;
  int const column = columns.first + columns.lane * (kLineBytes / static_cast<int>(sizeof(T)));
  if (column < columns.last) {
    prefetch_to_l2(static_cast<void const*>(row + column));
  }
}

}  // namespace msstream::ops::kernels
