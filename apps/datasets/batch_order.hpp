// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/counter_random.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::datasets {

/// Returns the rows in the order of one epoch, by a Fisher-Yates shuffle (Durstenfeld 1964) whose
/// draws are random_bits(seed, epoch, i). The order depends only on (rows, seed, epoch), so a
/// resumed training sees the batches that it would have seen.
[[nodiscard]] inline std::vector<std::int64_t> shuffled(std::vector<std::int64_t> rows,
                                                        std::uint64_t seed,
                                                        std::uint64_t epoch) {
  for (std::size_t i = rows.size(); i > 1; --i) {
    // Takes a remainder, which biases the choice by less than i / 2^64.
    std::size_t const chosen = random_bits(seed, epoch, i) % i;
    std::swap(rows[i - 1], rows[chosen]);
  }
  return rows;
}

}  // namespace msstream::datasets
