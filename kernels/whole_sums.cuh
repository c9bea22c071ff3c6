// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "long_sum.hpp"
#include "row_vector.cuh"

namespace msstream::ops::kernels {

/// The sums of the parts of a sum of many rows (long_sum.hpp). Each is an unevaluated sum of two
/// floats, about as exact as a float64, because a GPU converts between float and float64 at a small
/// fraction of the rate of its additions. They are in local memory, which leaves the registers to
/// the rows in flight, and are accessed once every kTermsOfPart rows.
template <int Count>
class WholeSums {
 public:
  /// Adds the sums of a part and clears them. The first part initializes the whole sums.
  __device__ void fold(Columns<Count>& part, bool is_first) {
    int const base = opaque_zero();
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      auto& whole = at_[base + c];
      if (is_first) {
        whole = {part.at[c], 0.0F};
      } else {
        auto const sum = SplitFloat::sum(whole.value, part.at[c]);
        whole = {sum.value, whole.rest + sum.rest};
      }
      part.at[c] = 0.0F;
    }
  }
  /// Returns the sums of all folded parts and of the last part.
  __device__ Columns<Count> get(Columns<Count> const& part) const {
    int const base = opaque_zero();
    Columns<Count> sums;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      auto const whole = at_[base + c];
      auto const sum = SplitFloat::sum(whole.value, part.at[c]);
      // The rests of a sum that is infinite or NaN mean nothing.
      sums.at[c] = isfinite(sum.value) ? sum.value + (whole.rest + sum.rest) : sum.value;
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

  SplitFloat at_[Count];
};

}  // namespace msstream::ops::kernels
