// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/dtype.hpp>
#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/detail/typed.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <optional>
#include <source_location>
#include <utility>

namespace msstream::ops {

namespace detail {

// The implementations of dot_interaction() and dot_interaction_gradient(), compiled once for all
// types and runtimes.

[[nodiscard]] AnyTensor dot_interaction(AnyTensor const& dense,
                                        AnyTensor const& embeddings,
                                        std::source_location issued_at);
[[nodiscard]] AnyOperandGradients dot_interaction_gradient(AnyTensor const& dense,
                                                           AnyTensor const& embeddings,
                                                           AnyTensor const& output_gradient,
                                                           WantedOperands wanted,
                                                           std::source_location issued_at);

[[nodiscard]] Floats dot_interaction(Floats const& dense,
                                     Floats const& embeddings,
                                     std::source_location issued_at);
[[nodiscard]] OperandGradients<AnyRuntime> dot_interaction_gradient(Floats const& dense,
                                                                    Floats const& embeddings,
                                                                    Floats const& output_gradient,
                                                                    WantedOperands wanted,
                                                                    std::source_location issued_at);

}  // namespace detail

/// Returns the dense vector of each sample, followed by the dot products of all pairs of its
/// vectors (Naumov et al.: Deep Learning Recommendation Model for Personalization and
/// Recommendation Systems, 2019): dense [batch, width] and embeddings [batch, features, width] or
/// [batch, features * width] → [batch, width + (features + 1) * features / 2], float32. Vector 0 is
/// the dense one; the products of vectors i > j follow row by row: (1, 0), (2, 0), (2, 1), (3, 0) …
///
/// A product is added over the columns in ascending order, in parts of 32 columns, whose sums are
/// added one after the other; CUDA fuses multiplications and additions, the host does not. One
/// launch without intermediate tensors, which reads each input once, unless the vectors of one
/// sample need more than 48 KiB. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument for bad shapes.
template <Runtime R>
[[nodiscard]] Tensor<float, R> dot_interaction(
    Tensor<float, R> const& dense,
    Tensor<float, R> const& embeddings,
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(detail::dot_interaction(dense, embeddings, issued_at));
}

/// Returns the gradients of dot_interaction() with respect to the dense vectors (left) and the
/// embeddings (right), each in its operand's shape. The gradient of a vector is added over the
/// other vectors in ascending order, in parts of 32. One launch for both, without intermediate
/// tensors; none if neither is wanted.
template <Runtime R>
[[nodiscard]] OperandGradients<R> dot_interaction_gradient(
    Tensor<float, R> const& dense,
    Tensor<float, R> const& embeddings,
    Tensor<float, R> const& output_gradient,
    WantedOperands wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R>(
      detail::dot_interaction_gradient(dense, embeddings, output_gradient, wanted, issued_at));
}

/// Computes dot_interaction() of vectors of half precision, with an output of their type. A product
/// is added in float32 and rounded once; CUDA adds the products of 16 columns at once on a tensor
/// core (from compute capability 8.0 on), the host one after the other, in parts of 32. One launch,
/// which reads each input once, unless there are more than 63 features or the vectors of one sample
/// need more than 48 KiB. Deterministic; asynchronous; capture-safe. Throws std::invalid_argument
/// for bad shapes.
template <HalfElement T, Runtime R>
[[nodiscard]] Tensor<T, R> dot_interaction(
    Tensor<T, R> const& dense,
    Tensor<T, R> const& embeddings,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::dot_interaction(dense.any(), embeddings.any(), issued_at)};
}

/// Returns the gradients of dot_interaction() of vectors of half precision, in their type. They are
/// added in float32 and rounded once. One launch for both, without intermediate tensors; none if
/// neither is wanted. On CUDA, an element of a vector that is infinite or NaN makes its own
/// gradient NaN.
template <HalfElement T, Runtime R>
[[nodiscard]] OperandGradients<R, T> dot_interaction_gradient(
    Tensor<T, R> const& dense,
    Tensor<T, R> const& embeddings,
    Tensor<T, R> const& output_gradient,
    WantedOperands wanted = {},
    std::source_location issued_at = std::source_location::current()) {
  return detail::typed<R, T>(detail::dot_interaction_gradient(
      dense.any(), embeddings.any(), output_gradient.any(), wanted, issued_at));
}

namespace detail {

// The implementations of factorization_machine() and its gradient, compiled once for all types and
// runtimes.

[[nodiscard]] AnyTensor factorization_machine(AnyTensor const& embeddings,
                                              std::source_location issued_at);
[[nodiscard]] AnyTensor factorization_machine_gradient(AnyTensor const& embeddings,
                                                       AnyTensor const& output_gradient,
                                                       std::source_location issued_at);

}  // namespace detail

/// Returns the second-order term of a factorization machine: the sum of the dot products of all
/// pairs of a sample's vectors, which is half the sum over the columns of (Σ v)² - Σ v² (Rendle:
/// Factorization Machines, 2010, lemma 3.1): embeddings [batch, features, width] → [batch, 1].
///
/// T is float32, float16 or bfloat16; sums over up to 32 features are float32, those of more and
/// those over columns float64, and the result is rounded to T once. No squares cancel: each vector
/// is multiplied with the sum of those before it. One launch without intermediate tensors, which
/// reads the embeddings once. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument for bad shapes.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> factorization_machine(
    Tensor<T, R> const& embeddings,
    std::source_location issued_at = std::source_location::current()) {
  return {msstream::detail::OfKnownType(),
          detail::factorization_machine(embeddings.any(), issued_at)};
}

/// Returns the gradient of factorization_machine() with respect to the embeddings, in their shape
/// and type: the output's gradient, [batch, 1], times the sum of the other vectors of the sample,
/// computed in float64 and rounded once. One launch.
template <RealElement T, Runtime R>
[[nodiscard]] Tensor<T, R> factorization_machine_gradient(
    Tensor<T, R> const& embeddings,
    Tensor<T, R> const& output_gradient,
    std::source_location issued_at = std::source_location::current()) {
  return {
      msstream::detail::OfKnownType(),
      detail::factorization_machine_gradient(embeddings.any(), output_gradient.any(), issued_at)};
}

}  // namespace msstream::ops
