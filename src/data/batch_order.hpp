// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/detail/counter_random.hpp>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace msstream::data::detail {

/// Returns the numbers [0, rows) in the order of one window of an epoch, by a Fisher-Yates shuffle
/// (Durstenfeld 1964) whose draws are random_bits(seed, epoch and window, i). The order depends
/// only on (rows, seed, epoch, window), so a resumed training sees the batches that it would have
/// seen.
[[nodiscard]] inline std::vector<std::uint32_t> shuffled_order(std::uint32_t rows,
                                                               std::uint64_t seed,
                                                               std::uint64_t epoch,
                                                               std::uint64_t window) {
  std::vector<std::uint32_t> order(rows);
  std::iota(order.begin(), order.end(), 0U);
  std::uint64_t const stream = epoch ^ (window << 32U);
  for (std::size_t i = rows; i > 1; --i) {
    // Takes a remainder, which biases the choice by less than i / 2^64.
    std::size_t const chosen = random_bits(seed, stream, i) % i;
    std::swap(order[i - 1], order[chosen]);
  }
  return order;
}

}  // namespace msstream::data::detail
