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
  require_rule("update_embedding", rule);
  require(table.shape().rank() == 2,
          "update_embedding: table of shape ",
          table.shape(),
          "; expected [rows, width]");
  auto const& device = table.device();
  auto read = detail::reads_of(bags);
  auto gradient = detail::row_gradient_args(
      "update_embedding", bags, unique, table.shape()[0], pooling, output_gradient, argmax, read);
  require(gradient.width == table.shape()[1],
          "update_embedding: table ",
          table.shape(),
          ", output gradient ",
          output_gradient.shape());
  detail::require_weights<T>("update_embedding");
  detail::require_state("update_embedding", rule.kind, state, table.shape());
  auto const workspace_bytes = kernels::embedding_update_workspace_bytes(
      detail::size_query<R>(*device), rule.kind, gradient);
  detail::Workspace<R> const workspace(device, workspace_bytes);
  gradient.workspace = workspace.data();
  kernels::EmbeddingUpdateArgs const args{.gradient = gradient,
                                          .unique_ids = unique.ids.data(),
                                          .table = table.data(),
                                          .table_dtype = dtype_of<T>,
                                          .state0 = state.first ? state.first->data() : nullptr,
                                          .state1 = state.second ? state.second->data() : nullptr};
  read.add(unique.ids);
  read.add(step.tensor());
  auto written = workspace.with(writes(table));
  for (auto const* const tensor : {&state.first, &state.second}) {
    if (*tensor) {
      written.add(**tensor);
    }
  }
  issue(
      "update_embedding",
      read,
      written,
      [rule, counter = step.data(), args](auto stream) {
        kernels::embedding_update(stream, rule, counter, args);
      },
      {},
      issued_at);
}

}  // namespace msstream::ops
