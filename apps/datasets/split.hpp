// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/require.hpp>

#include <cstdint>
#include <vector>

namespace msstream::datasets {

/// Returns whether row number `row` is among every `holdout`-th row: those whose number modulo
/// `holdout` is `holdout` - 1. With 0, no row is.
[[nodiscard]] constexpr bool is_held_out(std::int64_t row, std::int64_t holdout) noexcept {
  return holdout > 0 && row % holdout == holdout - 1;
}

/// Throws std::invalid_argument for a holdout of 1, which leaves nothing to train on, and below 0.
inline void check_holdout(std::int64_t holdout) {
  require(holdout >= 0 && holdout != 1, "holdout: expected 0 or 2 and above, found {}", holdout);
}

/// The numbers of the rows to train on, and of the rows to evaluate on.
struct Split {
  std::vector<std::int64_t> training;
  std::vector<std::int64_t> held_out;
};

/// Holds out every `holdout`-th row; with 0, none. Throws as check_holdout().
[[nodiscard]] inline Split split_rows(std::int64_t rows, std::int64_t holdout) {
  check_holdout(holdout);
  Split split;
  for (std::int64_t row = 0; row < rows; ++row) {
    (is_held_out(row, holdout) ? split.held_out : split.training).push_back(row);
  }
  return split;
}

}  // namespace msstream::datasets
