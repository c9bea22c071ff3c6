// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"

/// The method that keeps sums of any length accurate, on the host and on CUDA: the terms are added
/// in float32 in parts of at most kTermsOfPart terms (in a lookup, kRowsOfPart rows of a bag), one
/// after the other or in several lanes, and the sums of the parts are added in float64. The error
/// is that of one part, relative to the sum of the magnitudes; docs/limits.md lists the bounds. A
/// sum of one part costs nothing more than plain float32 addition.
namespace msstream::ops::kernels {

/// The most terms of a sum that are added in float32 before the partial sum is added to a float64
/// total, except in bags. A pairwise sum of 2^25 floats is no more accurate than parts of this
/// length.
inline constexpr int kTermsOfPart = 32;
/// The most rows of a bag that a lookup adds in float32 before the partial sum is added to a
/// float64 total. More than kTermsOfPart, so that usual bags are one part: on a GPU, two parts of a
/// bag of 64 rows would take a tenth longer.
inline constexpr int kRowsOfPart = 64;

/// A sum of floats that stays accurate for many terms: a float32 partial sum and a float64 total.
/// The caller must call fold() after at most kTermsOfPart terms.
class LongSum {
 public:
  MSSTREAM_HOST_DEVICE void add(float term) { part_ += term; }
  /// Adds the float32 partial sum to the float64 total. Must be called after at most kTermsOfPart
  /// terms.
  MSSTREAM_HOST_DEVICE void fold() {
    whole_ += static_cast<double>(part_);
    part_ = 0.0F;
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float get() const {
    return static_cast<float>(whole_ + static_cast<double>(part_));
  }

 private:
  float part_ = 0.0F;
  double whole_ = 0.0;
};

/// A value as the unevaluated sum of two floats, of which the second is the rounding error of the
/// first.
struct SplitFloat {
  float value;
  float rest;

  /// Returns a + b without an error (Knuth, The Art of Computer Programming, vol. 2, 4.2.2, theorem
  /// B).
  [[nodiscard]] static MSSTREAM_HOST_DEVICE SplitFloat sum(float a, float b) {
    float const value = a + b;
    float const of_b = value - a;
    return {value, (a - (value - of_b)) + (b - of_b)};
  }
  /// Returns x minus the SplitFloat's value, with only a few roundings of the size of the
  /// difference, however large x and the value are.
  [[nodiscard]] MSSTREAM_HOST_DEVICE float deviation_of(float x) const {
    return (x - value) - rest;
  }
};

}  // namespace msstream::ops::kernels
