// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/detail/typed.hpp>

#include <source_location>

namespace msstream::ops {

namespace detail {

// The implementations of dot_interaction() and dot_interaction_gradient(), compiled once for all
// runtimes.

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

}  // namespace msstream::ops
