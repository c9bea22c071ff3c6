// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/row_vector.cuh"
#include "common/whole_sums.cuh"

#include <msstream/ops/choices.hpp>

#include <cstdint>

namespace msstream::ops::kernels {

// Combiners pool the rows of a bag into one row. A combiner receives the rows of the bag's valid
// ids in the order of their positions.

/// Returns sum / divisor, or 0 if the divisor is 0.
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

/// Returns the value at which the sum of a bag starts: 0 or, if nothing is pooled, -0, which keeps
/// the sign of any value that is added to it.
template <int Count>
__device__ Columns<Count> first_sum(Pooling pooling) {
  Columns<Count> sum;
#pragma unroll
  for (int c = 0; c < Count; ++c) {
    sum.at[c] = pooling == Pooling::none ? -0.0F : 0.0F;
  }
  return sum;
}

/// Pools rows without weights, for the poolings sum, mean, sqrtn and none.
template <int Count>
class SumCombiner {
 public:
  static constexpr bool kWeighted = false;
  static constexpr bool kTellsPlaces = false;
  using Whole = WholeSums<Count>;

  __device__ explicit SumCombiner(Pooling pooling) : sum_(first_sum<Count>(pooling)) {}

  __device__ void add(Columns<Count> const& row, float, std::int64_t) {
    sum_.add(row);
    ++rows_;
  }
  /// Adds the float32 sum of a part of a bag to the float64 total `whole`. Called after each
  /// kRowsOfPart positions of a longer bag.
  __device__ void fold(Whole& whole, bool is_first) { whole.fold(sum_, is_first); }
  /// Replaces the sum by the float64 total `whole`. Called after the last position of a bag of more
  /// than kRowsOfPart positions.
  __device__ void unfold(Whole const& whole) { sum_ = whole.get(sum_); }
  [[nodiscard]] __device__ bool is_empty() const { return rows_ == 0; }
  [[nodiscard]] __device__ Columns<Count> finish(Pooling pooling) const {
    auto const count = static_cast<float>(rows_);
    return quotient(sum_,
                    is_empty()                  ? 0.0F
                    : pooling == Pooling::mean  ? count
                    : pooling == Pooling::sqrtn ? __fsqrt_rn(count)
                                                : 1.0F);
  }
  /// Returns the result of a bag of at most one row: the row, which is its own mean, or zeros.
  [[nodiscard]] __device__ Columns<Count> finish_one() const {
    return is_empty() ? Columns<Count>{} : sum_;
  }

 private:
  Columns<Count> sum_;
  unsigned rows_ = 0;
};

/// Pools rows with weights, for the poolings sum, mean, sqrtn and none.
template <int Count>
class WeightedCombiner {
 public:
  static constexpr bool kWeighted = true;
  static constexpr bool kTellsPlaces = false;
  using Whole = WholeSums<Count>;

  __device__ explicit WeightedCombiner(Pooling pooling)
      : sum_(first_sum<Count>(pooling)), squares_weights_(pooling == Pooling::sqrtn) {}

  __device__ void add(Columns<Count> row, float weight, std::int64_t) {
    row.multiply(weight);
    sum_.add(row);
    auto const term = squares_weights_ ? __fmul_rn(weight, weight) : weight;
    weights_ = __dadd_rn(weights_, static_cast<double>(term));
    is_empty_ = false;
  }
  __device__ void fold(Whole& whole, bool is_first) { whole.fold(sum_, is_first); }
  __device__ void unfold(Whole const& whole) { sum_ = whole.get(sum_); }
  [[nodiscard]] __device__ bool is_empty() const { return is_empty_; }
  [[nodiscard]] __device__ Columns<Count> finish(Pooling pooling) const {
    auto const weights = static_cast<float>(weights_);
    return quotient(sum_,
                    is_empty()                  ? 0.0F
                    : pooling == Pooling::mean  ? weights
                    : pooling == Pooling::sqrtn ? __fsqrt_rn(weights)
                                                : 1.0F);
  }

 private:
  Columns<Count> sum_;
  double weights_ = 0.0;  ///< sum of the weights; for sqrtn, sum of their squares
  bool squares_weights_;
  bool is_empty_ = true;
};

/// Pools by maximum: keeps the largest element of each column and the position of its id, the first
/// position of equal elements.
template <int Count>
class MaxCombiner {
 public:
  static constexpr bool kWeighted = false;
  static constexpr bool kTellsPlaces = true;
  struct Whole {};

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
  /// Does nothing, because a maximum needs no float64 total.
  __device__ void fold(Whole const&, bool) {}
  __device__ void unfold(Whole const&) {}
  [[nodiscard]] __device__ bool is_empty() const {
    return is_empty_;
  }
  [[nodiscard]] __device__ Columns<Count> finish(Pooling) const {
    return most_;
  }
  [[nodiscard]] __device__ Columns<Count> finish_one() const {
    return most_;
  }
  /// Returns the positions of the largest elements as floats with the bits of the integers, so that
  /// they can be stored like floats.
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
