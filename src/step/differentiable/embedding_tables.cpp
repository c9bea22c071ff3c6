// SPDX-License-Identifier: Apache-2.0
#include "ops/embedding/embedding_tables.hpp"

#include "ops/elementwise/columns.hpp"
#include "ops/embedding/table_gradient.hpp"
#include "step/differentiable/refuse_result.hpp"
#include "step/engine_queries.hpp"

#include <msstream/base/dtype.hpp>
#include <msstream/ops/cast.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/step/differentiable/embedding.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>

namespace msstream::ops::detail {

namespace {

/// Looks up pooled rows of `output`, beside `dense` if there is any, and records the backward.
AnyTensor look_up(AnyTape& tape,
                  DType output,
                  std::optional<AnyTensor> const& dense,
                  EmbeddingTables<AnyRuntime> const& tables,
                  TableBags<AnyRuntime> const& bags,
                  TablesLookupOptions<AnyRuntime> options,
                  std::source_location issued_at) {
  constexpr char const* kName = "embedding_tables_lookup";
  require_bags(kName, tables, bags);
  bool moves_tables = false;
  bool has_sums = false;
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    auto const& table = tables.table(t);
    moves_tables = moves_tables || tape.wants_gradient(weights_of(table));
    has_sums = has_sums || table.pooling == Pooling::sum;
  }
  bool const moves_weights = bags.weights && has_sums && tape.wants_gradient(bags.weights->any());
  if (bags.weights && !has_sums) {
    refuse_result(&tape, "embedding_lookup without Pooling::sum", "weights", &*bags.weights);
  }
  if (moves_tables && !options.argmax && needs_argmax(tables, bags)) {
    options.argmax.emplace(tables.device(), tables.argmax_shape(bags.batch));
  }
  auto const pooled = dense ? embedding_lookup_beside(*dense, tables, bags, options, issued_at)
                            : embedding_lookup(output, tables, bags, options, issued_at);
  bool const moves_dense = dense && tape.wants_gradient(*dense);
  if (!moves_tables && !moves_weights && !moves_dense) {
    return pooled;
  }
  auto play_back = [=, argmax = options.argmax](AnyTape& playing, AnyTensor const& gradient) {
    auto const columns_before = dense ? dense->shape()[1] : 0;
    // The grouping of the ids needs no gradient. It is issued before all that does, so that on a
    // stream group of its own it runs beside the rest of the step.
    if (moves_tables && !playing.take_pooled_gradient(tables, gradient, issued_at)) {
      auto const all = std::make_shared<TablesGradient const>(
          group_tables(tables, bags, gradient, argmax, columns_before, issued_at),
          msstream::detail::current_scope(*tables.device()).group(),
          issued_at);
      for (std::int64_t t = 0; t < tables.tables(); ++t) {
        playing.add_table_part(
            weights_of(tables.table(t)),
            TablePart{all, t, tables.first_row(t), most_rows_of(tables, bags, t)},
            issued_at);
      }
    }
    if (dense && playing.wants_gradient(*dense)) {
      playing.add_gradient(
          *dense, copy_of_columns(gradient, 0, columns_before, issued_at), issued_at);
    }
    if (moves_weights) {
      auto const of_tables =
          dense ? copy_of_columns(gradient, columns_before, tables.width(), issued_at) : gradient;
      Floats const floats(cast(of_tables, DType::float32, issued_at));
      playing.add_gradient(*bags.weights,
                           embedding_tables_weight_gradient(tables, bags, floats, issued_at),
                           issued_at);
    }
  };
  for (std::int64_t t = 0; t < tables.tables(); ++t) {
    tape.note_input(weights_of(tables.table(t)));
  }
  if (bags.weights) {
    tape.note_inputs(*bags.weights);
  }
  if (dense) {
    tape.note_input(*dense);
  }
  if (moves_tables) {
    tape.record_lookup(kName, tables, &bags, pooled, std::move(play_back), issued_at);
  } else {
    tape.record_any(kName, pooled, std::move(play_back), issued_at);
  }
  return pooled;
}

}  // namespace

AnyTensor embedding_lookup(AnyTape& tape,
                           DType output,
                           EmbeddingTables<AnyRuntime> const& tables,
                           TableBags<AnyRuntime> const& bags,
                           TablesLookupOptions<AnyRuntime> options,
                           std::source_location issued_at) {
  return look_up(tape, output, std::nullopt, tables, bags, std::move(options), issued_at);
}

AnyTensor embedding_lookup_beside(AnyTape& tape,
                                  AnyTensor const& dense,
                                  EmbeddingTables<AnyRuntime> const& tables,
                                  TableBags<AnyRuntime> const& bags,
                                  TablesLookupOptions<AnyRuntime> options,
                                  std::source_location issued_at) {
  return look_up(tape, dense.dtype(), dense, tables, bags, std::move(options), issued_at);
}

}  // namespace msstream::ops::detail
