// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/row_gradients_host.hpp"
#include "embedding_gradient/update.hpp"
#include "optimizer/row_mover_host.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels {
namespace {

template <class Gradients>
void update_rows_of(RowMover mover,
                    StepRule const& rule,
                    EmbeddingUpdateArgs const& args,
                    Gradients const& gradients) {
  auto const width = args.gradient.width;
  HostTable const table{args.table, args.state0, args.state1, width};
  with_columns(width, [&](auto columns) {
    gradients.for_ranges([&](std::int64_t begin, std::int64_t end) {
      std::vector<float> row_gradient(static_cast<std::size_t>(width));
      for (auto u = begin; u < end; ++u) {
        gradients.sum(columns, u, row_gradient.data());
        mover(rule, table, args.unique_ids[u], row_gradient.data());
      }
    });
  });
}

}  // namespace

std::size_t embedding_update_workspace_bytes(HostStream, OptimizerKind, RowGradientArgs const&) {
  return 0;
}

void embedding_update(HostStream stream,
                      OptimizerRule const& rule,
                      StepState const* step,
                      EmbeddingUpdateArgs const& args) {
  auto const mover = row_mover("embedding_update: a table", rule.kind, args.table_dtype);
  with_row_gradients(
      args.gradient, [&]<class Gradients>(std::type_identity<Gradients>, auto const& bags) {
        stream.run([mover, rule, step, args, bags] {
          update_rows_of(
              mover, step_rule_of(rule, args.numbers, step), args, Gradients(args.gradient, bags));
        });
      });
}

}  // namespace msstream::ops::kernels
