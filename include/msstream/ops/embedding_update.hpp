// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/detail/typed.hpp>
#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/ops/optimizer_rule.hpp>
#include <msstream/ops/pooling.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops {

namespace detail {

// The body of the function below.

void update_embedding(OptimizerRule const& rule,
                      StepCounter<AnyRuntime> const& step,
                      AnyTensor const& table,
                      OptimizerState<AnyRuntime> const& state,
                      AnyBags const& bags,
                      UniqueRows<AnyRuntime> const& unique,
                      Pooling pooling,
                      AnyTensor const& output_gradient,
                      std::optional<TensorOf<std::int32_t>> const& argmax,
                      std::source_location issued_at);

}  // namespace detail

/// Applies one optimizer step to the rows of `table` [rows, width] that a lookup has read, from the
/// gradient of the lookup's output. Gives the same bits as embedding_gradient() followed by
/// update_rows(), without writing the rows' gradients to memory. `unique` is deduplicate() of
/// `bags`; each row is updated once.
///
/// On CUDA these cases need workspace for gradients all the same: Pooling::max, an output gradient
/// that is not float32, up to 2,048 places of ids, a width that is not a multiple of 4, and a width
/// above 128 with a rule that has one state per row. In the other cases table, state and output
/// gradient must begin at a multiple of four elements, as tensors and their rows do. Deterministic;
/// asynchronous; capture-safe. Throws std::invalid_argument for shapes and state that do not fit.
template <Element T, Element G, Runtime R>
void update_embedding(OptimizerRule const& rule,
                      StepCounter<R> const& step,
                      Tensor<T, R> const& table,
                      OptimizerState<R> const& state,
                      Bags<R> const& bags,
                      UniqueRows<R> const& unique,
                      Pooling pooling,
                      Tensor<G, R> const& output_gradient,
                      std::optional<Tensor<std::int32_t, R>> const& argmax = {},
                      std::source_location issued_at = std::source_location::current()) {
  detail::update_embedding(rule,
                           step,
                           table.any(),
                           state,
                           bags,
                           unique,
                           pooling,
                           output_gradient.any(),
                           argmax,
                           issued_at);
}

}  // namespace msstream::ops
