// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/loss.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <optional>
#include <source_location>

namespace msstream::ops::detail {

/// Returns the mean of losses, which a tape that is not null records with their gradients in
/// float32: their sum divided by the divisor or, if there is none, by their number. The gradient of
/// the inputs is rounded to their type once.
[[nodiscard]] Floats recorded_mean(AnyTape* tape,
                                   char const* operation,
                                   AnyTensor const& inputs,
                                   AnyLosses const& each,
                                   std::optional<Floats> const& divisor,
                                   std::source_location issued_at);

}  // namespace msstream::ops::detail
