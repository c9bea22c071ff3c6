// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "elementwise/unary.hpp"

#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <source_location>
#include <vector>

/// Elementwise operations on tensors of float32, float16 or bfloat16, for other operations.
namespace msstream::ops::detail {

/// Returns the sum of tensors of one shape and type, added from first to last in float32. Sums of
/// half precision are rounded once, or once for each 32 terms.
[[nodiscard]] AnyTensor add(std::vector<AnyTensor> const& terms, std::source_location issued_at);

/// Returns left + right of one type, broadcast, computed in float32 and rounded once.
[[nodiscard]] AnyTensor add(AnyTensor const& left,
                            AnyTensor const& right,
                            std::source_location issued_at);
/// Returns left * right of one type, broadcast, computed in float32 and rounded once.
[[nodiscard]] AnyTensor multiply(AnyTensor const& left,
                                 AnyTensor const& right,
                                 std::source_location issued_at);
/// Returns the gradients of multiply(), rounded once. One launch if both are wanted and all shapes
/// are equal; operands that were broadcast are cast to float32 first.
[[nodiscard]] AnyOperandGradients multiply_gradient(AnyTensor const& left,
                                                    AnyTensor const& right,
                                                    AnyTensor const& output_gradient,
                                                    WantedOperands wanted,
                                                    std::source_location issued_at);
/// Returns the sum of a gradient over the dimensions along which an operand of `shape` was
/// broadcast, added in float32 and rounded once. Returns the gradient itself if it has the shape.
[[nodiscard]] AnyTensor sum_to(AnyTensor const& gradient,
                               Shape const& shape,
                               std::source_location issued_at);

[[nodiscard]] AnyTensor unary(char const* operation,
                              kernels::UnaryFunction function,
                              AnyTensor const& input,
                              std::source_location issued_at,
                              float parameter = 0.0F,
                              float limit = 0.0F);
/// Returns the gradient of unary() for its input. `saved` is the output if
/// gradient_reads_output(function), otherwise the input.
[[nodiscard]] AnyTensor unary_gradient(char const* operation,
                                       kernels::UnaryFunction function,
                                       AnyTensor const& saved,
                                       AnyTensor const& output_gradient,
                                       std::source_location issued_at,
                                       float parameter = 0.0F,
                                       float limit = 0.0F);

}  // namespace msstream::ops::detail
