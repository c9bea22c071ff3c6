// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/long_sum.hpp"
#include "common/row_vector.cuh"

namespace msstream::ops::kernels {

/// The float64 sums of the parts of a sum of many rows (common/long_sum.hpp). They are in local
/// memory, which leaves the registers to the rows in flight, and are accessed once per part.
template <int Count>
class WholeSums {
 public:
  /// Adds the sums of a part and clears them. The first part initializes the float64 sums.
  __device__ void fold(Columns<Count>& part, bool is_first) {
    int const base = opaque_zero();
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      auto& whole = at_[base + c];
      whole = __dadd_rn(is_first ? 0.0 : whole, static_cast<double>(part.at[c]));
      part.at[c] = 0.0F;
    }
  }
  /// Returns the sums of all folded parts and of the last part.
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
  /// Returns 0, unknown to the compiler, so that an array that is indexed with it is not kept in
  /// registers.
  static __device__ int opaque_zero() {
    int zero;
    asm volatile("mov.u32 %0, 0;" : "=r"(zero));
    return zero;
  }

  double at_[Count];
};

}  // namespace msstream::ops::kernels
