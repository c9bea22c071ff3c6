// SPDX-License-Identifier: Apache-2.0
#include "common/real_types.hpp"
#include "embedding_gradient/row_gradients_host.hpp"
#include "embedding_gradient/update.hpp"
#include "optimizer/optimizer_rows_host.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msstream::ops::kernels {
namespace {

using RowMover = void (*)(StepRule const&,
                          HostTable const&,
                          std::int64_t row,
                          float const* gradient);

/// Returns the function that updates rows of a table of type `dtype` by an optimizer of `kind`. The
/// result is a pointer, so that the code that sums gradients is not compiled once per optimizer and
/// type.
RowMover row_mover(OptimizerKind kind, DType dtype) {
  RowMover mover = nullptr;
  with_kind(kind, [&](auto known_kind) {
    with_real_type("embedding_update: a table", dtype, [&](auto type) {
      mover = move_row<known_kind(), typename decltype(type)::type>;
    });
  });
  require(mover != nullptr, "embedding_update: an optimizer that does not exist");
  return mover;
}

StepRule step_rule_of(OptimizerRule const& rule,
                      GroupNumbers const& numbers,
                      StepState const* step) {
  StepRule of_step{};
  with_kind(rule.kind, [&](auto kind) { of_step = rule_of_step<kind()>(rule, numbers, step); });
  return of_step;
}

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
  auto const mover = row_mover(rule.kind, args.table_dtype);
  with_row_gradients(
      args.gradient, [&]<class Gradients>(std::type_identity<Gradients>, auto const& bags) {
        stream.run([mover, rule, step, args, bags] {
          update_rows_of(
              mover, step_rule_of(rule, args.numbers, step), args, Gradients(args.gradient, bags));
        });
      });
}

}  // namespace msstream::ops::kernels
