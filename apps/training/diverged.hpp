// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace msstream::training {

/// Says that a training has losses that are not finite.
class Diverged : public std::runtime_error {
 public:
  /// `overflow` says where the first overflow was, in lines, or is empty.
  Diverged(std::int64_t step, float loss, float learning_rate, std::string const& overflow = {})
      : Diverged(
            fmt::format("training diverged: the loss of step {} is {}; try a smaller --lr than "
                        "{}, and look for values in the data that are far too large",
                        step,
                        loss,
                        learning_rate),
            overflow,
            step) {}

  /// Returns the error of a training in float16 whose loss scale has skipped steps in vain: the
  /// losses of `count` steps in a row, up to `step`, are not finite.
  [[nodiscard]] static Diverged in_float16(std::int64_t step,
                                           float loss,
                                           float learning_rate,
                                           std::int64_t count,
                                           std::string const& overflow) {
    return {fmt::format("training diverged: the losses of {} steps in a row overflow in float16, "
                        "that of step {} is {}; no loss scale mends an overflow of a forward pass: "
                        "try --precision bf16, or a smaller --lr than {}",
                        count,
                        step,
                        loss,
                        learning_rate),
            overflow,
            step};
  }

  /// Returns the number of the step, from 1.
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }

 private:
  Diverged(std::string const& message, std::string const& overflow, std::int64_t step)
      : std::runtime_error(overflow.empty() ? message : message + "\n" + overflow), step_(step) {}

  std::int64_t step_;
};

}  // namespace msstream::training
