// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/embedding.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>

namespace msstream::ops {

/// The table's gradient is row-sparse: GradientTape::row_gradients().
template <Element T, Runtime R>
[[nodiscard]] Tensor<float, R> embedding_lookup(GradientTape<R>& tape,
                                                Tensor<T, R> const& table,
                                                Bags<R> const& bags,
                                                LookupOptions<R> const& options = {}) {
  auto pooled = embedding_lookup(table, bags, options);
  if (tape.wants_gradient(table)) {
    tape.record("embedding_lookup",
                pooled,
                [table, bags, pooling = options.pooling](GradientTape<R>& playing,
                                                         Tensor<float, R> const& gradient) {
                  std::int64_t const rows = table.shape()[0];
                  auto const& unique = playing.unique_rows(bags, rows);
                  playing.add_row_gradient(
                      table, embedding_gradient(bags, unique, rows, pooling, gradient));
                });
  }
  return pooled;
}
template <Element T, Runtime R>
[[nodiscard]] Tensor<float, R> embedding_lookup(GradientTape<R>& tape,
                                                Tensor<T, R> const& table,
                                                Tensor<std::int64_t, R> const& ids,
                                                Tensor<std::int64_t, R> const& offsets,
                                                Pooling pooling) {
  return embedding_lookup(tape, table, Bags<R>(ids, offsets), LookupOptions<R>{.pooling = pooling});
}

}  // namespace msstream::ops
