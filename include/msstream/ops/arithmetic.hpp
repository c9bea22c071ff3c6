// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <optional>
#include <source_location>
#include <utility>

/// Element-wise arithmetic of two float32 tensors, whose shapes broadcast as in NumPy: they are
/// aligned at the last dimension, and an operand is repeated along a dimension that it lacks or in
/// which its extent is 1. One launch per operation. Asynchronous; capture-safe; deterministic.
/// Throws std::invalid_argument if the shapes do not broadcast.
namespace msstream::ops {

namespace detail {

// The implementations of add(), subtract(), multiply() and divide() of two tensors, compiled once
// for all runtimes.

[[nodiscard]] Floats add(Floats const& left, Floats const& right, std::source_location issued_at);
[[nodiscard]] Floats subtract(Floats const& left,
                              Floats const& right,
                              std::source_location issued_at);
[[nodiscard]] Floats multiply(Floats const& left,
                              Floats const& right,
                              std::source_location issued_at);
[[nodiscard]] Floats divide(Floats const& left,
                            Floats const& right,
                            std::source_location issued_at);

}  // namespace detail

/// Returns left + right, element by element, broadcast as in NumPy.
template <Runtime R>
[[nodiscard]] Tensor<float, R> add(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add(left, right, issued_at));
}
/// Returns left - right, element by element, broadcast as in NumPy.
template <Runtime R>
[[nodiscard]] Tensor<float, R> subtract(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::subtract(left, right, issued_at));
}
/// Returns left * right, element by element, broadcast as in NumPy.
template <Runtime R>
[[nodiscard]] Tensor<float, R> multiply(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::multiply(left, right, issued_at));
}
/// Returns left / right, element by element, broadcast as in NumPy. An element is infinite or NaN
/// where right is 0.
template <Runtime R>
[[nodiscard]] Tensor<float, R> divide(
    Tensor<float, R> const& left,
    Tensor<float, R> const& right,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::divide(left, right, issued_at));
}

/// Selects the operands whose gradients are computed. Nothing is launched for an operand that is
/// not selected.
struct WantedOperands {
  bool left = true;   ///< computes OperandGradients::left
  bool right = true;  ///< computes OperandGradients::right
};
/// The gradients of a binary operation with respect to its operands, each in its operand's shape.
/// Null for an operand that WantedOperands does not select.
template <Runtime R = DefaultRuntime, RealElement T = float>
struct OperandGradients {
  std::optional<Tensor<T, R>> left;   ///< in the shape of the first operand
  std::optional<Tensor<T, R>> right;  ///< in the shape of the second operand
};

namespace detail {

template <Runtime R>
[[nodiscard]] OperandGradients<R> typed(OperandGradients<AnyRuntime> gradients) {
  return {typed<R>(std::move(gradients.left)), typed<R>(std::move(gradients.right))};
}

/// The gradients of a binary operation, in the type of its operands.
struct AnyOperandGradients {
  std::optional<AnyTensor> left;
  std::optional<AnyTensor> right;
};

template <Runtime R, RealElement T>
[[nodiscard]] OperandGradients<R, T> typed(AnyOperandGradients gradients) {
  OperandGradients<R, T> result;
  if (gradients.left) {
    result.left.emplace(msstream::detail::OfKnownType(), *std::move(gradients.left));
  }
  if (gradients.right) {
    result.right.emplace(msstream::detail::OfKnownType(), *std::move(gradients.right));
  }
  return result;
}

// The implementations of the gradients of add(), subtract(), multiply() and divide(), compiled once
// for all runtimes.

[[nodiscard]] OperandGradients<AnyRuntime> add_gradient(Shape const& left,
                                                        Shape const& right,
                                                        Floats const& output_gradient,
                                                        WantedOperands wanted,
                                                        std::source_location issued_at);
[[nodiscard]] OperandGradients<AnyRuntime> subtract_gradient(Shape const& left,
                                                             Shape const& right,
                                                             Floats const& output_gradient,
                                                             WantedOperands wanted,
                                                             std::source_location issued_at);
[[nodiscard]] OperandGradients<AnyRuntime> multiply_gradient(Floats const& left,
                                                             Floats const& right,
                                                             Floats const& output_gradient,
                                                             WantedOperands wanted,
                                                             std::source_location issued_at);
[[nodiscard]] OperandGradients<AnyRuntime> divide_gradient(Shape const& left,
                                                           Floats const& right,
                                                           Floats const& quotient,
                                                           Floats const& output_gradient,
                                                           WantedOperands wanted,
                                                           std::source_location issued_at);

}  // namespace detail

/// Returns the gradients of add() with respect to its operands, from the operands' shapes and the
/// gradient of the sum.
template <Runtime R>
[[nodiscard]] OperandGradients<R> add_gradient(
    Shape const& left,
    Shape const& right,
    Tensor<float, R> const& output_gradient,
    WantedOperands wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::add_gradient(left, right, output_gradient, wanted, issued_at));
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
  return detail::typed<R>(
      detail::subtract_gradient(left, right, output_gradient, wanted, issued_at));
}
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
  return detail::typed<R>(
      detail::multiply_gradient(left, right, output_gradient, wanted, issued_at));
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
  return detail::typed<R>(
      detail::divide_gradient(left, right, quotient, output_gradient, wanted, issued_at));
}

}  // namespace msstream::ops
