// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/host_device.hpp"
#include "elementwise/softmax.hpp"

#include <msstream/base/dtype.hpp>

#include <cstdint>
#include <limits>

/// Formulae of the softmax and the cross-entropy, and of their gradients, for both the CPU and the
/// CUDA implementation.
namespace msstream::ops::kernels {

/// Returns logit - largest, for a cross-entropy. Returns 0 for the largest logit even if it is
/// +infinity, so that the loss is the limit, 0 or infinity.
MSSTREAM_HOST_DEVICE inline float below_largest(float logit, float largest) {
  return logit == largest && largest > 0.0F ? 0.0F : logit - largest;
}
/// Returns an element's contribution to a row's sum of y * dy, for the gradient of a softmax: 0 if
/// y is 0, even if dy is infinite or NaN.
MSSTREAM_HOST_DEVICE inline float weighted(float y, float dy) {
  return y != 0.0F ? y * dy : 0.0F;
}
/// Returns the gradient of a softmax by one input. `total` is the row's sum of weighted(y, dy).
MSSTREAM_HOST_DEVICE inline float gradient_of(float y, float dy, float total) {
  return y != 0.0F ? y * (dy - total) : 0.0F;
}

/// The class of a row of a cross-entropy.
struct ClassOfRow {
  std::int64_t column = 0;
  float weight = 1.0F;
  float counted = 0.0F;  ///< in the divisor of a mean
  bool is_bad = false;   ///< whether the class is outside [0, columns), and must be reported
  bool counts = false;   ///< whether the row has a loss and gradients; otherwise they are 0

  MSSTREAM_HOST_DEVICE ClassOfRow(CrossEntropyArgs const& args, std::int64_t row)
      : column(args.classes[row]), weight(args.weights != nullptr ? args.weights[row] : 1.0F) {
    bool const is_ignored = args.ignores && column == args.ignored;
    bool const is_valid = column >= 0 && column < args.columns;
    counted = is_ignored ? 0.0F : args.counts_weights ? weight : 1.0F;
    is_bad = !is_valid && !is_ignored && weight != 0.0F;
    counts = is_valid && !is_ignored && weight != 0.0F;
  }
};

/// The logits, of type T, of a row of a cross-entropy whose class is valid.
template <class T>
struct LogitsOfRow {
  T const* logits;
  std::int64_t const* candidates;
  std::int64_t chosen;

  MSSTREAM_HOST_DEVICE LogitsOfRow(CrossEntropyArgs const& args,
                                   std::int64_t row,
                                   std::int64_t column)
      : logits(static_cast<T const*>(args.logits) + row * args.columns),
        candidates(args.candidates),
        chosen(column) {}

  /// Returns the logit of a column; -infinity if the column has the id of the class, but is
  /// another.
  [[nodiscard]] MSSTREAM_HOST_DEVICE float at(std::int64_t column) const {
    bool const is_hit =
        candidates != nullptr && column != chosen && candidates[column] == candidates[chosen];
    return is_hit ? -std::numeric_limits<float>::infinity() : to_float(logits[column]);
  }
};

/// The target distribution of a row of a cross-entropy.
struct SmoothedTarget {
  float smoothing;
  float of_each;  ///< smoothing / columns

  MSSTREAM_HOST_DEVICE explicit SmoothedTarget(CrossEntropyArgs const& args)
      : smoothing(args.smoothing),
        of_each(args.smoothing == 0.0F ? 0.0F : args.smoothing / static_cast<float>(args.columns)) {
  }
  [[nodiscard]] MSSTREAM_HOST_DEVICE float at(bool is_class) const {
    return is_class ? 1.0F - smoothing + of_each : of_each;
  }
  /// Returns the loss of a row from below_largest() of its class, and the sum of it over all
  /// columns, which is not used without smoothing.
  [[nodiscard]] MSSTREAM_HOST_DEVICE float loss(float log_sum, float of_class, float total) const {
    return log_sum -
           (smoothing == 0.0F ? of_class : (1.0F - smoothing) * of_class + of_each * total);
  }
};

}  // namespace msstream::ops::kernels
