// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/require.hpp>

#include <cstdint>
#include <vector>

namespace msstream::datasets {

/// The numbers of the rows to train on, and of the rows to evaluate on.
struct Split {
  std::vector<std::int64_t> training;
  std::vector<std::int64_t> held_out;
};

/// Holds out every `holdout`-th row: the rows whose number modulo `holdout` is `holdout` - 1. With
/// 0, holds out none. Throws std::invalid_argument for 1, which leaves nothing to train on, and
/// below 0.
[[nodiscard]] inline Split split_rows(std::int64_t rows, std::int64_t holdout) {
  require(holdout >= 0 && holdout != 1, "holdout: expected 0 or 2 and above, found {}", holdout);
  Split split;
  for (std::int64_t row = 0; row < rows; ++row) {
    bool const held_out = holdout > 0 && row % holdout == holdout - 1;
    (held_out ? split.held_out : split.training).push_back(row);
  }
  return split;
}

}  // namespace msstream::datasets
