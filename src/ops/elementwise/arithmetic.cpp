// SPDX-License-Identifier: Apache-2.0
#include "elementwise/binary.hpp"
#include "elementwise/broadcast_plan.hpp"
#include "ops/elementwise/any_elementwise.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/base/dtype.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <source_location>
#include <utility>
#include <vector>

namespace msstream::ops::detail {
namespace {

[[nodiscard]] AnyTensor binary(char const* operation,
                               kernels::BinaryFunction function,
                               AnyTensor const& left,
                               AnyTensor const& right,
                               std::source_location issued_at) {
  auto const shape = kernels::broadcast_shape(left.shape(), right.shape());
  require(shape.has_value(),
          "{}: {} and {} do not broadcast to one shape",
          operation,
          left.shape(),
          right.shape());
  require(left.dtype() == right.dtype(),
          "{}: {} beside {}; expected one type",
          operation,
          name_of(left.dtype()),
          name_of(right.dtype()));
  AnyTensor output(left.device(), left.dtype(), *shape);
  kernels::BinaryArgs const args{function,
                                 kernels::plan_broadcast(left.shape(), right.shape()),
                                 left.data(),
                                 right.data(),
                                 output.data(),
                                 left.dtype()};
  issue(
      operation,
      reads(left, right),
      writes(output),
      [args](auto stream) { kernels::binary(stream, args); },
      {},
      issued_at);
  return output;
}

/// Computes the gradients of both factors of multiply() in one launch. The factors and the gradient
/// of the product have the same shape.
[[nodiscard]] AnyOperandGradients both_gradients(AnyTensor const& left,
                                                 AnyTensor const& right,
                                                 AnyTensor const& output_gradient,
                                                 std::source_location issued_at) {
  AnyTensor left_gradient(left.device(), left.dtype(), left.shape());
  AnyTensor right_gradient(right.device(), right.dtype(), right.shape());
  kernels::MultiplyGradientArgs const args{left.data(),
                                           right.data(),
                                           output_gradient.data(),
                                           left_gradient.data(),
                                           right_gradient.data(),
                                           left.count(),
                                           left.dtype()};
  issue(
      "multiply_gradient",
      reads(left, right, output_gradient),
      writes(left_gradient, right_gradient),
      [args](auto stream) { kernels::multiply_gradient(stream, args); },
      {},
      issued_at);
  return {std::move(left_gradient), std::move(right_gradient)};
}

[[nodiscard]] Floats binary(char const* operation,
                            kernels::BinaryFunction function,
                            Floats const& left,
                            Floats const& right,
                            std::source_location issued_at) {
  return {msstream::detail::OfKnownType(),
          binary(operation, function, left.any(), right.any(), issued_at)};
}

}  // namespace

Floats add(Floats const& left, Floats const& right, std::source_location issued_at) {
  return binary("add", kernels::BinaryFunction::add, left, right, issued_at);
}

AnyTensor add(AnyTensor const& left, AnyTensor const& right, std::source_location issued_at) {
  return binary("add", kernels::BinaryFunction::add, left, right, issued_at);
}

Floats subtract(Floats const& left, Floats const& right, std::source_location issued_at) {
  return binary("subtract", kernels::BinaryFunction::subtract, left, right, issued_at);
}

Floats multiply(Floats const& left, Floats const& right, std::source_location issued_at) {
  return binary("multiply", kernels::BinaryFunction::multiply, left, right, issued_at);
}

AnyTensor multiply(AnyTensor const& left, AnyTensor const& right, std::source_location issued_at) {
  return binary("multiply", kernels::BinaryFunction::multiply, left, right, issued_at);
}

Floats divide(Floats const& left, Floats const& right, std::source_location issued_at) {
  return binary("divide", kernels::BinaryFunction::divide, left, right, issued_at);
}

AnyTensor sum_to(AnyTensor const& gradient, Shape const& shape, std::source_location issued_at) {
  if (gradient.shape() == shape) {
    return gradient;
  }
  Floats const wide(cast(gradient, DType::float32, issued_at));
  return cast(sum_to(wide, shape, 1.0F, issued_at).any(), gradient.dtype(), issued_at);
}

OperandGradients<AnyRuntime> add_gradient(Shape const& left,
                                          Shape const& right,
                                          Floats const& output_gradient,
                                          WantedOperands wanted,
                                          std::source_location issued_at) {
  OperandGradients<AnyRuntime> gradients;
  if (wanted.left) {
    gradients.left = sum_to(output_gradient, left, 1.0F, issued_at);
  }
  if (wanted.right) {
    gradients.right = sum_to(output_gradient, right, 1.0F, issued_at);
  }
  return gradients;
}

OperandGradients<AnyRuntime> subtract_gradient(Shape const& left,
                                               Shape const& right,
                                               Floats const& output_gradient,
                                               WantedOperands wanted,
                                               std::source_location issued_at) {
  OperandGradients<AnyRuntime> gradients;
  if (wanted.left) {
    gradients.left = sum_to(output_gradient, left, 1.0F, issued_at);
  }
  if (wanted.right) {
    gradients.right = sum_to(output_gradient, right, -1.0F, issued_at);
  }
  return gradients;
}

OperandGradients<AnyRuntime> multiply_gradient(Floats const& left,
                                               Floats const& right,
                                               Floats const& output_gradient,
                                               WantedOperands wanted,
                                               std::source_location issued_at) {
  if (wanted.left && wanted.right && left.shape() == right.shape() &&
      left.shape() == output_gradient.shape()) {
    auto gradients = both_gradients(left.any(), right.any(), output_gradient.any(), issued_at);
    return {Floats(*std::move(gradients.left)), Floats(*std::move(gradients.right))};
  }
  OperandGradients<AnyRuntime> gradients;
  if (wanted.left) {
    gradients.left =
        sum_to(multiply(output_gradient, right, issued_at), left.shape(), 1.0F, issued_at);
  }
  if (wanted.right) {
    gradients.right =
        sum_to(multiply(output_gradient, left, issued_at), right.shape(), 1.0F, issued_at);
  }
  return gradients;
}

AnyOperandGradients multiply_gradient(AnyTensor const& left,
                                      AnyTensor const& right,
                                      AnyTensor const& output_gradient,
                                      WantedOperands wanted,
                                      std::source_location issued_at) {
  auto const& shape = output_gradient.shape();
  if (wanted.left && wanted.right && left.shape() == shape && right.shape() == shape) {
    return both_gradients(left, right, output_gradient, issued_at);
  }
  // A product with an operand that was broadcast is summed before it is rounded.
  auto const gradient_of = [&](AnyTensor const& operand, AnyTensor const& other) {
    if (operand.shape() == shape) {
      return multiply(output_gradient, other, issued_at);
    }
    auto const wide = cast(std::vector{output_gradient, other}, DType::float32, issued_at);
    return cast(sum_to(multiply(wide[0], wide[1], issued_at), operand.shape(), issued_at),
                operand.dtype(),
                issued_at);
  };
  AnyOperandGradients gradients;
  if (wanted.left) {
    gradients.left = gradient_of(left, right);
  }
  if (wanted.right) {
    gradients.right = gradient_of(right, left);
  }
  return gradients;
}

OperandGradients<AnyRuntime> divide_gradient(Shape const& left,
                                             Floats const& right,
                                             Floats const& quotient,
                                             Floats const& output_gradient,
                                             WantedOperands wanted,
                                             std::source_location issued_at) {
  OperandGradients<AnyRuntime> gradients;
  if (!wanted.left && !wanted.right) {
    return gradients;
  }
  auto const shared = divide(output_gradient, right, issued_at);
  if (wanted.left) {
    gradients.left = sum_to(shared, left, 1.0F, issued_at);
  }
  if (wanted.right) {
    gradients.right = sum_to(binary("divide_gradient",
                                    kernels::BinaryFunction::negative_product,
                                    shared,
                                    quotient,
                                    issued_at),
                             right.shape(),
                             1.0F,
                             issued_at);
  }
  return gradients;
}

}  // namespace msstream::ops::detail
