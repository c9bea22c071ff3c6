// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient_host.hpp"
#include "optimizer_rows_host.hpp"

#include <msstream/ops/kernels/embedding_update.hpp>

#include <cstddef>

namespace msstream::ops::kernels {
namespace {

template <class Gradients>
void update_rows_of(OptimizerRule const& rule,
                    StepState const* step,
                    EmbeddingUpdateArgs const& args,
                    Gradients const& gradients) {
  auto const width = args.gradient.width;
  auto* const row_gradient = static_cast<float*>(args.gradient.workspace);
  HostTable const table{args.table, args.state0, args.state1, width};
  with_kind(rule.kind, [&](auto kind) {
    auto const step_rule = rule_of_step<kind()>(rule, step);
    with_table_type(args.table_dtype, [&](auto type) {
      with_columns(width, [&](auto columns) {
        for (std::int64_t u = 0; u < *args.gradient.unique_count; ++u) {
          gradients.sum(columns, u, row_gradient);
          move_row<kind(), typename decltype(type)::type>(
              step_rule, table, args.unique_ids[u], row_gradient);
        }
      });
    });
  });
}

}  // namespace

std::size_t embedding_update_workspace_bytes(HostStream,
                                             OptimizerKind,
                                             RowGradientArgs const& gradient) {
  return static_cast<std::size_t>(gradient.width) * sizeof(float);
}

void embedding_update(HostStream stream,
                      OptimizerRule const& rule,
                      StepState const* step,
                      EmbeddingUpdateArgs const& args) {
  with_table_type(args.table_dtype, [](auto) {});  // here, because the stream would throw too late
  with_row_gradients(args.gradient,
                     [&]<class Gradients>(std::type_identity<Gradients>, auto const& bags) {
                       stream.run([rule, step, args, bags] {
                         update_rows_of(rule, step, args, Gradients(args.gradient, bags));
                       });
                     });
}

}  // namespace msstream::ops::kernels
