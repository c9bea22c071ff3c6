// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace msstream::training {

/// Says that a training has a loss that is not finite.
class Diverged : public std::runtime_error {
 public:
  /// `overflow` says where the first overflow was, in lines, or is empty.
  Diverged(std::int64_t step, float loss, float learning_rate, std::string const& overflow = {})
      : std::runtime_error(fmt::format("training diverged: the loss of step {} is {}; try a "
                                       "smaller --lr than {}, and look for "
                                       "values in the data that are far too large{}{}",
                                       step,
                                       loss,
                                       learning_rate,
                                       overflow.empty() ? "" : "\n",
                                       overflow)),
        step_(step) {}

  /// Returns the number of the step, from 1.
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }

 private:
  std::int64_t step_;
};

}  // namespace msstream::training
