// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/pooling.hpp>
#include <msstream/step/gradient_tape.hpp>

#include <cstdint>
#include <source_location>
#include <utility>

namespace msstream::ops {

/// Like ops::embedding_lookup(), but the tape records the backward. The gradient of the table is
/// row-sparse: GradientTape::row_gradients(). The bags' weights have a gradient for Pooling::sum
/// and Pooling::none, unless they are excluded.
template <Element T, Runtime R>
[[nodiscard]] Tensor<float, R> embedding_lookup(
    GradientTape<R>& tape,
    Tensor<T, R> const& table,
    Bags<R> const& bags,
    LookupOptions<R> options = {},
    std::source_location issued_at = std::source_location::current()) {
  bool const moves_table = tape.wants_gradient(table);
  bool const moves_weights = bags.weights && tape.wants_gradient(*bags.weights) &&
                             (options.pooling == Pooling::sum || options.pooling == Pooling::none);
  if (moves_table && options.pooling == Pooling::max && !options.argmax) {
    require(table.shape().rank() == 2, "embedding_lookup: table of shape ", table.shape());
    options.argmax.emplace(table.device(),
                           detail::pooled_shape(bags, options.pooling, table.shape()[1]));
  }
  auto pooled = embedding_lookup(table, bags, options, issued_at);
  if (moves_table || moves_weights) {
    auto play_back = [table,
                      bags,
                      moves_table,
                      moves_weights,
                      pooling = options.pooling,
                      argmax = options.argmax,
                      issued_at](GradientTape<R>& playing, Tensor<float, R> const& gradient) {
      std::int64_t const rows = table.shape()[0];
      if (moves_weights) {
        playing.add_gradient(*bags.weights,
                             embedding_weight_gradient(table, bags, pooling, gradient, issued_at),
                             issued_at);
      }
      if (moves_table) {
        auto const& unique = playing.unique_rows(bags, rows, pooling, issued_at);
        playing.add_row_gradient(
            table,
            embedding_gradient(bags, unique, rows, pooling, gradient, argmax, issued_at),
            issued_at);
      }
    };
    if (moves_table) {
      tape.record_lookup("embedding_lookup", table, pooled, std::move(play_back), issued_at);
    } else {
      tape.record("embedding_lookup", pooled, std::move(play_back), issued_at);
    }
  }
  return pooled;
}
template <Element T, Runtime R>
[[nodiscard]] Tensor<float, R> embedding_lookup(
    GradientTape<R>& tape,
    Tensor<T, R> const& table,
    Tensor<std::int64_t, R> const& ids,
    Tensor<std::int64_t, R> const& offsets,
    Pooling pooling,
    std::source_location issued_at = std::source_location::current()) {
  return embedding_lookup(
      tape, table, Bags<R>(ids, offsets), LookupOptions<R>{.pooling = pooling}, issued_at);
}

}  // namespace msstream::ops
