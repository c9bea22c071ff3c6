// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/choices.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <source_location>

namespace msstream::ops::detail {

/// Computes the gradient of the bias of one dense layer, and returns the gradient before its
/// activation. `saved` is what dense_gradient() takes, [batch, outputs], as
/// `output_gradient` is; `bias_gradient` is [outputs].
[[nodiscard]] AnyTensor sum_gradient(AnyTensor const& saved,
                                     Activation activation,
                                     AnyTensor const& output_gradient,
                                     Floats const& bias_gradient,
                                     std::source_location issued_at);

}  // namespace msstream::ops::detail
