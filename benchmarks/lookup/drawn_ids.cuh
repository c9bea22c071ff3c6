// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shapes.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <vector>

// Ids drawn on the GPU, and times on a cold cache.

namespace benchmarks::lookups {

/// Draws ids of a shape: a hash of the position, for a power law through the inverse of its
/// distribution, with the frequent ids spread over the table.
template <class Id>
__global__ void draw_ids(Id* ids, std::int64_t count, std::int64_t rows, double alpha) {
  auto const place = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (place >= count) {
    return;
  }
  auto bits =
      static_cast<unsigned long long>(place) * 0x9E3779B97F4A7C15ULL + 0x632BE59BD9B4E019ULL;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBULL;
  bits ^= bits >> 31;
  auto const many = static_cast<unsigned long long>(rows);
  if (alpha == 0) {
    ids[place] = static_cast<Id>(bits % many);
    return;
  }
  double const uniform = static_cast<double>(bits >> 11) * 0x1p-53;
  double const power = 1 - alpha;
  double const rank = pow((pow(static_cast<double>(rows), power) - 1) * uniform + 1, 1 / power);
  ids[place] = static_cast<Id>(static_cast<unsigned long long>(rank) * 2654435761ULL % many);
}

/// Returns the middle of the values, which are reordered.
inline double median(std::vector<double>& values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace benchmarks::lookups
