// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/embedding_gradient.hpp>
#include <msstream/ops/kernels/embedding_update.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/ops/workspace.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops {

/// One optimizer step for the rows of `table` [rows, width] that a lookup has read, from the
/// gradient of its output: the same bits as update_rows() with embedding_gradient(), but the
/// gradients of rows are not written. `unique` groups the ids of `bags`; each row moves once.
///
/// A maximum, an output gradient that is not float32, up to 2,048 places, widths that are no
/// multiple of 4 and rows wider than 128 that share a state still take memory for gradients on
/// CUDA; for the others table, state and output gradient must begin at a multiple of four elements,
/// as tensors and their rows do. Deterministic; asynchronous; capture-safe. Throws
/// std::invalid_argument for shapes and state that do not fit.
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
  auto const workspace_bytes =
      kernels::embedding_update_workspace_bytes(detail::size_query(*device), rule.kind, gradient);
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
