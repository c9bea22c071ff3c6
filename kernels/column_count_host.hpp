// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

/// A row width known when compiling, so that a row's sums stay in registers.
template <std::int64_t Count>
struct FixedColumns {
  static constexpr std::int64_t count() { return Count; }
};

struct AnyColumns {
  std::int64_t width;
  [[nodiscard]] std::int64_t count() const { return width; }
};

/// Calls function(FixedColumns<width>) for the widths that models use most, else
/// function(AnyColumns).
template <class Function>
void with_columns(std::int64_t width, Function&& function) {
  switch (width) {
    case 1:
      return function(FixedColumns<1>{});
    case 8:
      return function(FixedColumns<8>{});
    case 16:
      return function(FixedColumns<16>{});
    case 32:
      return function(FixedColumns<32>{});
    case 64:
      return function(FixedColumns<64>{});
    case 128:
      return function(FixedColumns<128>{});
    default:
      return function(AnyColumns{width});
  }
}

namespace detail {

template <class T>
void add_scaled(float* sums, T const* row, float scale, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) {
    sums[c] += scale * to_float(row[c]);
  }
}

}  // namespace detail

/// total = (sum of the rows that `each_row(add_row)` adds by `add_row(row, scale)`) divided by what
/// each_row returns. The additions happen in the order of the calls, starting from 0.
template <std::int64_t Count, class EachRow>
void add_rows(FixedColumns<Count>, float* total, EachRow&& each_row) {
  float sums[Count] = {};
  float const divisor = each_row(
      [&sums](auto const* row, float scale) { detail::add_scaled(sums, row, scale, Count); });
  for (std::int64_t c = 0; c < Count; ++c) {
    total[c] = sums[c] / divisor;
  }
}

template <class EachRow>
void add_rows(AnyColumns columns, float* total, EachRow&& each_row) {
  std::fill_n(total, columns.width, 0.0F);
  float const divisor = each_row(
      [&](auto const* row, float scale) { detail::add_scaled(total, row, scale, columns.width); });
  if (divisor != 1.0F) {
    for (std::int64_t c = 0; c < columns.width; ++c) {
      total[c] /= divisor;
    }
  }
}

}  // namespace msstream::ops::kernels
