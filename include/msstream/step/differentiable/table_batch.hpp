// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/choices.hpp>
#include <msstream/ops/table_batch.hpp>
#include <msstream/step/differentiable/embedding.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <source_location>

namespace msstream::ops {

/// Like embedding_lookup() in a TableBatch, but the tape records the backward. The gradient is that
/// of TableBatch::weights() and is row-sparse: GradientTape::row_gradients().
template <Element T, Runtime R>
[[nodiscard]] Tensor<float, R> embedding_lookup(
    GradientTape<R>& tape,
    TableBatch<T, R> const& tables,
    Bags<R> const& rows,
    Pooling pooling = Pooling::sum,
    std::source_location issued_at = std::source_location::current()) {
  return embedding_lookup(
             tape, tables.weights(), rows, LookupOptions<R>{.pooling = pooling}, issued_at)
      .reshaped({rows.bags() / tables.tables(), tables.tables() * tables.weights().shape()[1]});
}

}  // namespace msstream::ops
