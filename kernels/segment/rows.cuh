// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// The mapping from the positions of segments to the rows of the values.
namespace msstream::ops::kernels {

/// Maps position i to row i of the values. A batch gives, relative to `rows_from(origin)`, the rows
/// of the positions origin + from + k below origin + end. Its row numbers have 32 bits, which saves
/// registers for the rows in flight.
struct ContiguousRows {
  float const* rows;

  template <int InFlight>
  struct Batch {
    int from;
    __device__ int row(int k) const { return from + k; }
  };
  template <int InFlight>
  __device__ Batch<InFlight> batch(std::int64_t /*origin*/, int from, int /*end*/) const {
    return {from};
  }
  __device__ float const* rows_from(std::int64_t origin, std::int64_t width) const {
    return rows + origin * width;
  }
};

/// Maps position i to row positions[i] of the values.
struct PermutedRows {
  float const* rows;
  std::int32_t const* positions;

  template <int InFlight>
  struct Batch {
    int rows[InFlight];
    __device__ int row(int k) const { return rows[k]; }
  };
  template <int InFlight>
  __device__ Batch<InFlight> batch(std::int64_t origin, int from, int end) const {
    Batch<InFlight> found;
#pragma unroll
    for (int k = 0; k < InFlight; ++k) {
      found.rows[k] = from + k < end ? __ldg(positions + origin + from + k) : 0;
    }
    return found;
  }
  __device__ float const* rows_from(std::int64_t /*origin*/, std::int64_t /*width*/) const {
    return rows;
  }
};

}  // namespace msstream::ops::kernels
