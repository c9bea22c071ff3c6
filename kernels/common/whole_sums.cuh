// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/long_sum.hpp"
#include "common/row_vector.cuh"

namespace msstream::ops::kernels {

/// The float64 totals of sums of many rows, to which float32 partial sums are added
/// (common/long_sum.hpp). The totals are in local memory, which leaves the registers to the rows in
/// flight, and are accessed once per part.
template <int Count>
class WholeSums {
 public:
  /// Adds float32 partial sums to the float64 totals and clears the partial sums. The first part
  /// initializes the totals.
  __device__ void fold(Columns<Count>& part, bool is_first) {
    int const base = opaque_zero();
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      auto& whole = at_[base + c];
      whole = __dadd_rn(is_first ? 0.0 : whole, static_cast<double>(part.at[c]));
      part.at[c] = 0.0F;
    }
  }
  /// Returns the float64 totals plus the partial sums of the last part, as floats.
  __device__ Columns<Count> get(Columns<Count> const& part) const {
    int const base = opaque_zero();
    Columns<Count> sums;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      sums.at[c] = static_cast<float>(__dadd_rn(at_[base + c], static_cast<double>(part.at[c])));
    }
    return sums;
  }

 private:
  /// Returns 0 in a way that the compiler cannot see, so that an array indexed with it is kept in
  /// local memory instead of registers.
  static __device__ int opaque_zero() {
    int zero;
    asm volatile("mov.u32 %0, 0;" : "=r"(zero));
    return zero;
  }

  double at_[Count];
};

}  // namespace msstream::ops::kernels
