// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/binary.hpp>
#include <msstream/ops/reduce.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <optional>
#include <source_location>
#include <utility>

/// Element-wise arithmetic of two float32 tensors, whose shapes broadcast as in NumPy: shapes are
/// aligned at the last dimension, and an operand is repeated along a dimension that it lacks or in
/// which its extent is 1. One launch per operation. Asynchronous; capture-safe; deterministic.
/// Throws std::invalid_argument if the shapes do not broadcast.
namespace msstream::ops {

namespace detail {

template <Runtime R>
[[nodiscard]] Tensor<float, R> binary(char const* operation,
                                      kernels::BinaryFunction function,
                                      Tensor<float, R> const& left,
                                      Tensor<float, R> const& right,
                                      std::source_location issued_at) {
  auto const shape = kernels::broadcast_shape(left.shape(), right.shape());
  require(shape.has_value(),
          operation,
          ": ",
          left.shape(),
          " and ",
          right.shape(),
          " do not broadcast to one shape");
  Tensor<float, R> output(left.device(), *shape);
  kernels::BinaryArgs const args{function,
                                 kernels::plan_broadcast(left.shape(), right.shape()),
                                 left.data(),
                                 right.data(),
                                 output.data()};
  issue(
      operation,
      reads(left, right),
      writes(output),
      [args](auto stream) { kernels::binary(stream, args); },
      {},
      issued_at);
  return output;
}

}  // namespace detail

/// Returns left + right, element by element, broadcast as in NumPy.
template <Runtime R>
[[nodiscard]] Tensor<float, R> add(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::binary("add", kernels::BinaryFunction::add, left, right, issued_at);
}
/// Returns left - right, element by element, broadcast as in NumPy.
template <Runtime R>
[[nodiscard]] Tensor<float, R> subtract(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::binary("subtract", kernels::BinaryFunction::subtract, left, right, issued_at);
}
/// Returns left * right, element by element, broadcast as in NumPy.
template <Runtime R>
[[nodiscard]] Tensor<float, R> multiply(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::binary("multiply", kernels::BinaryFunction::multiply, left, right, issued_at);
}
/// Returns left / right, element by element, broadcast as in NumPy. An element is infinite or NaN
/// where right is 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> divide(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::binary("divide", kernels::BinaryFunction::divide, left, right, issued_at);
}

/// Selects the operands whose gradients are computed. Nothing is launched for an operand that is
/// not selected.
struct WantedOperands {
  bool left = true;
  bool right = true;
};
/// The gradients of a binary operation with respect to its operands, each in its operand's shape.
/// Null for an operand that WantedOperands does not select.
template <Runtime R = DefaultRuntime>
struct OperandGradients {
  std::optional<Tensor<float, R>> left;
  std::optional<Tensor<float, R>> right;
};

/// Returns the gradients of add() with respect to its operands, from the operands' shapes and the
/// gradient of the sum.
template <Runtime R>
[[nodiscard]] OperandGradients<R> add_gradient(
    Shape const& left,
    Shape const& right,
    Tensor<float, R> const& output_gradient,
    WantedOperands wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  OperandGradients<R> gradients;
  if (wanted.left) {
    gradients.left = sum_to(output_gradient, left, 1.0F, issued_at);
  }
  if (wanted.right) {
    gradients.right = sum_to(output_gradient, right, 1.0F, issued_at);
  }
  return gradients;
}
/// Returns the gradients of subtract() with respect to its operands, from the operands' shapes and
/// the gradient of the difference.
template <Runtime R>
[[nodiscard]] OperandGradients<R> subtract_gradient(
    Shape const& left,
    Shape const& right,
    Tensor<float, R> const& output_gradient,
    WantedOperands wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  OperandGradients<R> gradients;
  if (wanted.left) {
    gradients.left = sum_to(output_gradient, left, 1.0F, issued_at);
  }
  if (wanted.right) {
    gradients.right = sum_to(output_gradient, right, -1.0F, issued_at);
  }
  return gradients;
}
namespace detail {

/// Computes both gradients of multiply() in one launch. The operands and the gradient of the
/// product have one shape.
template <Runtime R>
[[nodiscard]] OperandGradients<R> multiply_gradient(Tensor<float, R> const& left,
                                                    Tensor<float, R> const& right,
                                                    Tensor<float, R> const& output_gradient,
                                                    std::source_location issued_at) {
  Tensor<float, R> left_gradient(left.device(), left.shape());
  Tensor<float, R> right_gradient(right.device(), right.shape());
  kernels::MultiplyGradientArgs const args{left.data(),
                                           right.data(),
                                           output_gradient.data(),
                                           left_gradient.data(),
                                           right_gradient.data(),
                                           left.count()};
  issue(
      "multiply_gradient",
      reads(left, right, output_gradient),
      writes(left_gradient, right_gradient),
      [args](auto stream) { kernels::multiply_gradient(stream, args); },
      {},
      issued_at);
  return {std::move(left_gradient), std::move(right_gradient)};
}

}  // namespace detail

/// Returns the gradients of multiply() with respect to its operands, from the operands and the
/// gradient of the product. If both gradients are wanted and all shapes are equal, one launch
/// computes both.
template <Runtime R>
[[nodiscard]] OperandGradients<R> multiply_gradient(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    Tensor<float, R> const& output_gradient,
    WantedOperands wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  if (wanted.left && wanted.right && left.shape() == right.shape() &&
      left.shape() == output_gradient.shape()) {
    return detail::multiply_gradient(left, right, output_gradient, issued_at);
  }
  OperandGradients<R> gradients;
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
/// Returns the gradients of divide() with respect to its operands, from the dividend's shape, the
/// divisor, the quotient and the quotient's gradient g. The dividend's gradient is g / right, the
/// divisor's is -(g / right) * quotient, each summed to its operand's shape.
template <Runtime R>
[[nodiscard]] OperandGradients<R> divide_gradient(
    Shape const& left,
    Tensor<float, R> const& right,
    Tensor<float, R> const& quotient,
    Tensor<float, R> const& output_gradient,
    WantedOperands wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  OperandGradients<R> gradients;
  if (!wanted.left && !wanted.right) {
    return gradients;
  }
  auto const shared = divide(output_gradient, right, issued_at);
  if (wanted.left) {
    gradients.left = sum_to(shared, left, 1.0F, issued_at);
  }
  if (wanted.right) {
    gradients.right = sum_to(detail::binary("divide_gradient",
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

}  // namespace msstream::ops
