// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/long_sum_host.hpp"

#include <msstream/base/dtype.hpp>

#include <algorithm>
#include <cstdint>

namespace msstream::ops::kernels {

/// A row width known at compile time, so that the compiler keeps the sums of a row in registers.
template <std::int64_t Count>
struct FixedColumns {
  static constexpr std::int64_t count() { return Count; }
};

struct AnyColumns {
  std::int64_t width;
  [[nodiscard]] std::int64_t count() const { return width; }
};

/// Calls function(FixedColumns<width>) for the row widths that are most common in models, and
/// function(AnyColumns) for all other widths.
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

/// Sets `total` to a weighted sum of rows. add_one(k, add_row) is called for every k in [begin,
/// end), and adds rows by calling add_row(row, scale). The additions happen in the order of the
/// calls, starting from 0, in parts as common/long_sum.hpp describes.
template <std::int64_t Count, class AddOne>
void add_rows(FixedColumns<Count>,
              float* total,
              std::int64_t begin,
              std::int64_t end,
              AddOne const& add_one) {
  auto const add_part = [&](std::int64_t first, std::int64_t last) {
    float sums[Count] = {};
    for (auto k = first; k < last; ++k) {
      add_one(k, [&sums](auto const* row, float scale) {
        detail::add_scaled(sums, row, scale, Count);
      });
    }
    std::copy_n(sums, Count, total);
  };
  if (end - begin <= kTermsOfPart) {
    add_part(begin, end);
    return;
  }
  double whole[Count] = {};
  for (auto first = begin; first < end; first += kTermsOfPart) {
    add_part(first, std::min(first + kTermsOfPart, end));
    for (std::int64_t c = 0; c < Count; ++c) {
      whole[c] += static_cast<double>(total[c]);
    }
  }
  std::transform(whole, whole + Count, total, [](double sum) { return static_cast<float>(sum); });
}

template <class AddOne>
void add_rows(
    AnyColumns columns, float* total, std::int64_t begin, std::int64_t end, AddOne const& add_one) {
  RowTotals totals(total, columns.width);
  for (auto k = begin; k < end; ++k) {
    totals.begin_row();
    add_one(k, [&](auto const* row, float scale) {
      detail::add_scaled(total, row, scale, columns.width);
    });
  }
  totals.finish();
}

}  // namespace msstream::ops::kernels
