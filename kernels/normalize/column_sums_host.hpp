// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/parallel_rows_host.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

/// Functions of the columns of a matrix on the host, which are divided among the threads by
/// columns, so that each sum is added row by row, whatever the number of threads.
namespace msstream::ops::kernels {

/// Calls function(first column, last column) for ranges of columns that together are [0, width).
template <class Function>
void for_each_columns(std::int64_t rows, std::int64_t width, Function const& function) {
  constexpr std::int64_t kLeastColumns = 16;
  auto const grain = grain_of(rows * std::int64_t{sizeof(float)});
  parallel_ranges(width, std::max(grain, kLeastColumns), function);
}

/// Sums `Count` terms of the elements of each column in float64: terms(row, column, sums). Calls
/// finish(column, sums) for each column, also without rows.
template <std::size_t Count, class Terms, class Finish>
void sum_columns(std::int64_t rows, std::int64_t width, Terms const& terms, Finish const& finish) {
  for_each_columns(rows, width, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::array<double, Count>> sums(static_cast<std::size_t>(end - begin));
    for (std::int64_t row = 0; row < rows; ++row) {
      for (auto column = begin; column < end; ++column) {
        terms(row, column, sums[static_cast<std::size_t>(column - begin)]);
      }
    }
    for (auto column = begin; column < end; ++column) {
      finish(column, sums[static_cast<std::size_t>(column - begin)]);
    }
  });
}

/// Calls function(row, column) for each element of the matrix.
template <class Function>
void map_columns(std::int64_t rows, std::int64_t width, Function const& function) {
  auto const grain = grain_of(width * std::int64_t{sizeof(float)});
  parallel_ranges(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = begin; row < end; ++row) {
      for (std::int64_t column = 0; column < width; ++column) {
        function(row, column);
      }
    }
  });
}

}  // namespace msstream::ops::kernels
