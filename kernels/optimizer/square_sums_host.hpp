// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "optimizer/square_sums.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace msstream::ops::kernels {

using SumLanes = std::array<double, kSumLanes>;

/// Returns the sum of the lanes, in the order that square_sums.hpp describes.
inline double sum_of_lanes(SumLanes& lanes) {
  for (std::size_t distance = kSumLanes / 2; distance > 0; distance /= 2) {
    for (std::size_t lane = 0; lane < distance; ++lane) {
      lanes[lane] += lanes[lane + distance];
    }
  }
  return lanes[0];
}
/// Returns the sum of the squares of value(i) for the elements i in [begin, end) of one chunk,
/// which starts with `begin`.
template <class Value>
double sum_of_chunk(std::int64_t begin, std::int64_t end, Value const& value) {
  SumLanes lanes{};
  for (auto i = begin; i < end; ++i) {
    auto const x = static_cast<double>(value(i));
    lanes[static_cast<std::size_t>((i - begin) / 4 % kSumLanes)] += x * x;
  }
  return sum_of_lanes(lanes);
}
/// Returns the sum of the sums of `count` chunks.
inline double sum_of_chunks(double const* sums, std::int64_t count) {
  SumLanes lanes{};
  for (std::int64_t i = 0; i < count; ++i) {
    lanes[static_cast<std::size_t>(i % kSumLanes)] += sums[i];
  }
  return sum_of_lanes(lanes);
}

}  // namespace msstream::ops::kernels
