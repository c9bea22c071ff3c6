// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "row_vector.cuh"

#include <msstream/ops/kernels/bag_view.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

// How rows become one. A combiner is told of each place in order, also of those without a row,
// which come as zeros with a weight of 0.

/// The sum over the divisor; a divisor of 0 gives 0.
template <int Count>
__device__ Columns<Count> quotient(Columns<Count> sum, float divisor) {
  if (divisor == 0.0F) {
    return {};
  }
  if (divisor != 1.0F) {
    sum.divide(divisor);
  }
  return sum;
}

/// Where sums begin. What is not pooled begins with -0, which changes nothing that is added to it.
template <int Count>
__device__ Columns<Count> first_sum(Pooling pooling) {
  Columns<Count> sum;
#pragma unroll
  for (int c = 0; c < Count; ++c) {
    sum.at[c] = pooling == Pooling::none ? -0.0F : 0.0F;
  }
  return sum;
}

/// Sum, mean, square root of n and none, where all weights are 1.
template <int Count>
class SumCombiner {
 public:
  static constexpr bool kWeighted = false;
  static constexpr bool kTellsPlaces = false;

  __device__ explicit SumCombiner(Pooling pooling) : sum_(first_sum<Count>(pooling)) {}

  __device__ void add(Columns<Count> const& row, float, std::int64_t) {
    sum_.add(row);
    ++rows_;
  }
  [[nodiscard]] __device__ bool is_empty() const { return rows_ == 0; }
  [[nodiscard]] __device__ Columns<Count> finish(Pooling pooling) const {
    auto const count = static_cast<float>(rows_);
    return quotient(sum_,
                    is_empty()                  ? 0.0F
                    : pooling == Pooling::mean  ? count
                    : pooling == Pooling::sqrtn ? __fsqrt_rn(count)
                                                : 1.0F);
  }
  /// Of at most one row, which is its own mean.
  [[nodiscard]] __device__ Columns<Count> finish_one() const {
    return is_empty() ? Columns<Count>{} : sum_;
  }

 private:
  Columns<Count> sum_;
  unsigned rows_ = 0;
};

/// The same with weights.
template <int Count>
class WeightedCombiner {
 public:
  static constexpr bool kWeighted = true;
  static constexpr bool kTellsPlaces = false;

  __device__ explicit WeightedCombiner(Pooling pooling) : sum_(first_sum<Count>(pooling)) {}

  __device__ void add(Columns<Count> row, float weight, std::int64_t) {
    row.multiply(weight);
    sum_.add(row);
    weights_ = __fadd_rn(weights_, weight);
    squares_ = __fadd_rn(squares_, __fmul_rn(weight, weight));
    is_empty_ = false;
  }
  [[nodiscard]] __device__ bool is_empty() const { return is_empty_; }
  [[nodiscard]] __device__ Columns<Count> finish(Pooling pooling) const {
    return quotient(sum_,
                    is_empty()                  ? 0.0F
                    : pooling == Pooling::mean  ? weights_
                    : pooling == Pooling::sqrtn ? __fsqrt_rn(squares_)
                                                : 1.0F);
  }

 private:
  Columns<Count> sum_;
  float weights_ = 0.0F;
  float squares_ = 0.0F;
  bool is_empty_ = true;
};

/// The largest element of each column, and the place it is from: the first of equal ones.
template <int Count>
class MaxCombiner {
 public:
  static constexpr bool kWeighted = false;
  static constexpr bool kTellsPlaces = true;

  __device__ explicit MaxCombiner(Pooling) {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      places_[c] = -1;
    }
  }

  __device__ void add(Columns<Count> const& row, float, std::int64_t place) {
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      bool const is_first_nan = isnan(row.at[c]) && !isnan(most_.at[c]);
      if (is_empty_ || row.at[c] > most_.at[c] || is_first_nan) {
        most_.at[c] = row.at[c];
        places_[c] = static_cast<std::int32_t>(place);
      }
    }
    is_empty_ = false;
  }
  [[nodiscard]] __device__ bool is_empty() const {
    return is_empty_;
  }
  [[nodiscard]] __device__ Columns<Count> finish(Pooling) const {
    return most_;
  }
  [[nodiscard]] __device__ Columns<Count> finish_one() const {
    return most_;
  }
  /// As floats of the same bits, to be stored like them.
  [[nodiscard]] __device__ Columns<Count> places() const {
    Columns<Count> bits;
#pragma unroll
    for (int c = 0; c < Count; ++c) {
      bits.at[c] = __int_as_float(places_[c]);
    }
    return bits;
  }

 private:
  Columns<Count> most_;
  std::int32_t places_[Count];
  bool is_empty_ = true;
};

}  // namespace msstream::ops::kernels
