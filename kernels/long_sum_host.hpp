// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "long_sum.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

/// Sums of any length on the host, as long_sum.hpp says.
namespace msstream::ops::kernels {

/// The sum of term(i) for every i below `count`: lanes first, so that it vectorises.
template <class Term>
[[nodiscard]] float sum_of_terms(std::int64_t count, Term const& term) {
  constexpr std::int64_t kLanes = 16;
  double whole = 0.0;
  for (std::int64_t begin = 0; begin < count;) {
    auto const end = std::min(count, begin + kLanes * kTermsOfPart);
    float lanes[kLanes] = {};
    for (; begin + kLanes <= end; begin += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] += term(begin + lane);
      }
    }
    for (std::int64_t i = begin; i < end; ++i) {
      lanes[i - begin] += term(i);
    }
    begin = end;
    for (auto half = kLanes / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half; ++lane) {
        lanes[lane] += lanes[lane + half];
      }
    }
    whole += static_cast<double>(lanes[0]);
  }
  return static_cast<float>(whole);
}

/// Sums of rows into `totals` [width], which the caller adds to. begin_row() goes before each row,
/// finish() behind the last.
class RowTotals {
 public:
  RowTotals(float* totals, std::int64_t width)
      : totals_(totals), width_(static_cast<std::size_t>(width)) {
    std::fill_n(totals_, width_, 0.0F);
  }

  void begin_row() {
    if (++rows_of_part_ > kTermsOfPart) {
      fold();
      rows_of_part_ = 1;
    }
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
  void fold() {
    whole_.resize(width_);
    for (std::size_t c = 0; c < width_; ++c) {
      whole_[c] += static_cast<double>(totals_[c]);
      totals_[c] = 0.0F;
    }
  }

  float* totals_;
  std::size_t width_;
  int rows_of_part_ = 0;
  std::vector<double> whole_;  ///< of the parts before; none for a single one
};

}  // namespace msstream::ops::kernels
