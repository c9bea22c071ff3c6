// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/update.hpp"
#include "ops/common/workspace.hpp"
#include "ops/embedding/embedding.hpp"
#include "ops/embedding_gradient/row_gradient_args.hpp"
#include "ops/optimizer/optimizer_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/ops/optimizer.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstdint>
#include <optional>
#include <source_location>

namespace msstream::ops::detail {

void update_embedding(OptimizerRule const& rule,
                      StepCounter<AnyRuntime> const& step,
                      AnyTensor const& table,
                      OptimizerState<AnyRuntime> const& state,
                      AnyBags const& bags,
                      UniqueRows<AnyRuntime> const& unique,
                      Pooling pooling,
                      AnyTensor const& output_gradient,
                      std::optional<TensorOf<std::int32_t>> const& argmax,
                      std::source_location issued_at) {
  require_rule("update_embedding", rule);
  require(table.shape().rank() == 2,
          "update_embedding: table of shape {}; expected [rows, width]",
          table.shape());
  auto const& device = table.device();
  auto read = reads_of(bags);
  auto gradient = row_gradient_args(
      "update_embedding", bags, unique, table.shape()[0], pooling, output_gradient, argmax, read);
  require(gradient.width == table.shape()[1],
          "update_embedding: table {}, output gradient {}",
          table.shape(),
          output_gradient.shape());
  require_weights("update_embedding", table.dtype());
  require_state("update_embedding", rule.kind, state, table.shape());
  auto const workspace_bytes = ask_kernels(*device, [&](auto stream) {
    return kernels::embedding_update_workspace_bytes(stream, rule.kind, gradient);
  });
  Workspace const workspace(device, workspace_bytes);
  gradient.workspace = workspace.data();
  kernels::EmbeddingUpdateArgs const args{.gradient = gradient,
                                          .unique_ids = unique.ids.data(),
                                          .table = table.data(),
                                          .table_dtype = table.dtype(),
                                          .state0 = data_of(state.first),
                                          .state1 = data_of(state.second),
                                          .numbers = numbers_of(rule)};
  read.add(unique.ids);
  read.add(step.tensor());
  auto written = workspace.with(writes(table));
  add_state(state, written);
  issue(
      "update_embedding",
      read,
      written,
      [rule, counter = data_of(step), args](auto stream) {
        kernels::embedding_update(stream, rule, counter, args);
      },
      {},
      issued_at);
}

}  // namespace msstream::ops::detail
