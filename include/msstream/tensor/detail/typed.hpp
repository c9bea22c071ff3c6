// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/tensor/tensor.hpp>

#include <optional>
#include <utility>
#include <vector>

/// Conversions between users' values, which have a runtime type, and the values without a runtime
/// type that the implementations of operations take and return. A Tensor<T, R> converts to a
/// TensorOf<T> implicitly.
namespace msstream::detail {

/// A tensor without a runtime type: on a device of any runtime.
template <Element T>
using TensorOf = Tensor<T, AnyRuntime>;
using Floats = TensorOf<float>;

/// Returns the tensor with the runtime type R, which must be that of its device.
template <Runtime R, Element T>
[[nodiscard]] Tensor<T, R> typed(TensorOf<T> tensor) {
  return {OfKnownType(), std::move(tensor)};
}
template <Runtime R, Element T>
[[nodiscard]] std::optional<Tensor<T, R>> typed(std::optional<TensorOf<T>> tensor) {
  return tensor ? std::optional(typed<R>(*std::move(tensor))) : std::nullopt;
}
template <Runtime R, Element T>
[[nodiscard]] std::vector<Tensor<T, R>> typed(std::vector<TensorOf<T>> tensors) {
  std::vector<Tensor<T, R>> result;
  result.reserve(tensors.size());
  for (auto& tensor : tensors) {
    result.push_back(typed<R>(std::move(tensor)));
  }
  return result;
}
template <Runtime R, Element T>
[[nodiscard]] std::vector<std::optional<Tensor<T, R>>> typed(
    std::vector<std::optional<TensorOf<T>>> tensors) {
  std::vector<std::optional<Tensor<T, R>>> result;
  result.reserve(tensors.size());
  for (auto& tensor : tensors) {
    result.push_back(typed<R>(std::move(tensor)));
  }
  return result;
}

/// Returns the tensors without their runtime type.
template <Element T, Runtime R>
[[nodiscard]] std::vector<TensorOf<T>> untyped(std::vector<Tensor<T, R>> const& tensors) {
  return {tensors.begin(), tensors.end()};
}

}  // namespace msstream::detail
