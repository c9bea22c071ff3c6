// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/long_sum.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

/// Sums of any number of terms on the host, added in float32 parts and a float64 total as
/// common/long_sum.hpp describes.
namespace msstream::ops::kernels {

namespace detail {

inline constexpr std::int64_t kSumLanes = 16;

/// Returns the sum of term(i) for i in [begin, end). Adds the terms in kSumLanes lanes first, so
/// that the loop vectorises, then adds the lanes in a tree.
template <class Term>
[[nodiscard, gnu::always_inline]] inline float sum_of_part(std::int64_t begin,
                                                           std::int64_t end,
                                                           Term const& term) {
  float lanes[kSumLanes] = {};
  for (; begin + kSumLanes <= end; begin += kSumLanes) {
    for (std::int64_t lane = 0; lane < kSumLanes; ++lane) {
      lanes[lane] += term(begin + lane);
    }
  }
  for (std::int64_t i = begin; i < end; ++i) {
    lanes[i - begin] += term(i);
  }
  for (auto half = kSumLanes / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) {
      lanes[lane] += lanes[lane + half];
    }
  }
  return lanes[0];
}

}  // namespace detail

/// Returns the sum of term(i) for every i in [0, count).
template <class Term>
[[nodiscard]] float sum_of_terms(std::int64_t count, Term const& term) {
  constexpr auto kPart = detail::kSumLanes * kTermsOfPart;
  if (count <= detail::kSumLanes) {
    float sum = 0.0F;
    for (std::int64_t i = 0; i < count; ++i) {
      sum += term(i);
    }
    return sum;
  }
  double whole = 0.0;
  for (std::int64_t begin = 0; begin < count; begin += kPart) {
    float const part = detail::sum_of_part(begin, std::min(begin + kPart, count), term);
    if (count <= kPart) {
      return part;
    }
    whole += static_cast<double>(part);
  }
  return static_cast<float>(whole);
}

/// Sums rows of floats into `totals` [width]. The caller calls begin_row() before each row, adds
/// the row to `totals` itself, and calls finish() after the last row.
class RowTotals {
 public:
  RowTotals(float* totals, std::int64_t width)
      : totals_(totals), width_(static_cast<std::size_t>(width)) {
    std::fill_n(totals_, width_, 0.0F);
  }

  void begin_row() {
    if (rows_of_part_ == kTermsOfPart) {
      fold();
      rows_of_part_ = 0;
    }
    ++rows_of_part_;
  }
  /// Announces up to kTermsOfPart rows that the caller adds next. Must be called before each such
  /// part of the rows, instead of calling begin_row() before each row.
  void begin_part() {
    if (rows_of_part_ > 0) {
      fold();
    }
    rows_of_part_ = kTermsOfPart;
  }
  void finish() {
    if (!whole_.empty()) {
      fold();
      std::transform(whole_.begin(), whole_.end(), totals_, [](double sum) {
        return static_cast<float>(sum);
      });
    }
  }

 private:
  // fold() is not inlined, so that the functions that call it stay small enough to be inlined.
  [[gnu::noinline]] void fold() {
    whole_.resize(width_);
    for (std::size_t c = 0; c < width_; ++c) {
      whole_[c] += static_cast<double>(totals_[c]);
      totals_[c] = 0.0F;
    }
  }

  float* totals_;
  std::size_t width_;
  int rows_of_part_ = 0;
  std::vector<double> whole_;  ///< sums of the earlier parts; empty if there is one part
};

/// Sets `totals` [width] to the sum of all rows. add_row(row) adds one row to `totals`.
template <class AddRow>
void sum_rows(float* totals, std::int64_t width, std::int64_t rows, AddRow const& add_row) {
  RowTotals sums(totals, width);
  for (std::int64_t row = 0; row < rows;) {
    auto const end_of_part = std::min(row + kTermsOfPart, rows);
    sums.begin_part();
    for (; row < end_of_part; ++row) {
      add_row(row);
    }
  }
  sums.finish();
}

}  // namespace msstream::ops::kernels
