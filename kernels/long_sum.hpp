// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise_math.hpp"

/// How sums of any length stay accurate, in both twins: parts of at most kTermsOfPart terms are
/// added in float32, one after the other or in several lanes, and the sums of the parts in float64.
/// The error is that of a part, relative to the sum of the magnitudes; docs/limits.md lists the
/// bounds. A sum of at most kTermsOfPart terms is one part, and so costs nothing more.
namespace msstream::ops::kernels {

/// A pairwise sum of 2^25 floats is no more accurate than parts of this many are.
inline constexpr int kTermsOfPart = 32;

/// A sum of floats, of which the caller folds each part.
class LongSum {
 public:
  MSSTREAM_HOST_DEVICE void add(float term) { part_ += term; }
  /// At the latest after kTermsOfPart terms.
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

/// A value as the unevaluated sum of two floats, the second what rounding leaves out of the first.
struct SplitFloat {
  float value;
  float rest;

  /// a + b without an error (Knuth, The Art of Computer Programming, vol. 2, 4.2.2, theorem B).
  [[nodiscard]] static MSSTREAM_HOST_DEVICE SplitFloat sum(float a, float b) {
    float const value = a + b;
    float const of_b = value - a;
    return {value, (a - (value - of_b)) + (b - of_b)};
  }
  /// x minus the value: with few roundings of the difference, however large both are.
  [[nodiscard]] MSSTREAM_HOST_DEVICE float deviation_of(float x) const {
    return (x - value) - rest;
  }
};

}  // namespace msstream::ops::kernels
