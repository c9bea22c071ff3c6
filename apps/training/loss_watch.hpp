// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/diverged.hpp"

#include <cmath>
#include <cstdint>

namespace msstream::training {

/// Ends a training whose losses are not finite.
///
/// With a loss scale, a step that overflows is skipped, and the next batch may be fine: only many
/// such losses in a row end the training. Without one, NaN reaches the parameters, and the first
/// such loss ends it.
class LossWatch {
 public:
  /// The number of losses in a row that end a training with a loss scale: as many as halve a scale
  /// of 65,536 to 1.
  static constexpr std::int64_t kMostOverflows = 16;

  LossWatch(bool is_scaled, float learning_rate)
      : is_scaled_(is_scaled), learning_rate_(learning_rate) {}

  /// Notes the loss of step number `step`, from 1. Throws Diverged if it ends the training.
  /// `overflow()` returns where the first overflow was, in lines, or an empty text; it is called
  /// only then.
  template <class Overflow>
  void note(std::int64_t step, float loss, Overflow&& overflow) {
    if (std::isfinite(loss)) {
      overflows_ = 0;
      return;
    }
    if (++overflows_ < (is_scaled_ ? kMostOverflows : 1)) {
      return;
    }
    throw is_scaled_ ? Diverged::in_float16(step, loss, learning_rate_, overflows_, overflow())
                     : Diverged(step, loss, learning_rate_, overflow());
  }

 private:
  bool is_scaled_;
  float learning_rate_;
  std::int64_t overflows_ = 0;  ///< in a row, up to the newest loss
};

}  // namespace msstream::training
