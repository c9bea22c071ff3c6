// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

namespace msstream::ops::kernels {

/// A number of columns, known at compile time, that are summed at once in registers.
template <std::int64_t Count>
using Columns = std::integral_constant<std::int64_t, Count>;

/// Calls function(first column, Columns<…>) for pieces of neighbouring columns that together cover
/// all columns of a row; pieces may overlap. The sizes of pieces are known at compile time, so that
/// sums stay in registers.
template <class Function>
void for_each_piece(std::int64_t width, Function const& function) {
  std::int64_t column = 0;
  for (; column + 32 <= width; column += 32) {
    function(column, Columns<32>{});
  }
  auto const take = [&](auto count) {
    if (column + count <= width) {
      function(column, count);
      column += count;
    }
  };
  take(Columns<16>{});
  take(Columns<8>{});
  take(Columns<4>{});
  if (width - column > 1 && width > 4) {
    column = width - 4;
    take(Columns<4>{});
  }
  for (; column < width; ++column) {
    function(column, Columns<1>{});
  }
}

/// Calls each(column) for all columns of a piece. Without the pragma in it, GCC would unroll the
/// loop before it vectorises it, and would then not use vectors of 16 floats.
template <std::int64_t Count, class Each>
void for_each_column(Each const& each) {
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC unroll 1
#endif
  for (std::int64_t c = 0; c < Count; ++c) {
    each(c);
  }
}

}  // namespace msstream::ops::kernels
