// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient_host.hpp"
#include "optimizer_rows_host.hpp"

#include <msstream/ops/kernels/embedding_update.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels {
namespace {

template <class Gradients>
void update_rows_of(OptimizerRule const& rule,
                    StepState const* step,
                    EmbeddingUpdateArgs const& args,
                    Gradients const& gradients) {
  auto const width = args.gradient.width;
  HostTable const table{args.table, args.state0, args.state1, width};
  with_kind(rule.kind, [&](auto kind) {
    auto const step_rule = rule_of_step<kind()>(rule, step);
    with_table_type(args.table_dtype, [&](auto type) {
      with_columns(width, [&](auto columns) {
        gradients.for_ranges([&](std::int64_t begin, std::int64_t end) {
          std::vector<float> row_gradient(static_cast<std::size_t>(width));
          for (auto u = begin; u < end; ++u) {
            gradients.sum(columns, u, row_gradient.data());
            move_row<kind(), typename decltype(type)::type>(
                step_rule, table, args.unique_ids[u], row_gradient.data());
          }
        });
      });
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
  with_table_type(args.table_dtype, [](auto) {});  // here, because the stream would throw too late
  with_row_gradients(args.gradient,
                     [&]<class Gradients>(std::type_identity<Gradients>, auto const& bags) {
                       stream.run([rule, step, args, bags] {
                         update_rows_of(rule, step, args, Gradients(args.gradient, bags));
                       });
                     });
}

}  // namespace msstream::ops::kernels
