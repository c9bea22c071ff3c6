// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/dtype.hpp>
#include <msstream/ops/bags.hpp>
#include <msstream/ops/choices.hpp>
#include <msstream/ops/embedding.hpp>
#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/matrix.hpp>
#include <msstream/step/differentiable/embedding.hpp>
#include <msstream/step/gradient_tape.hpp>
#include <msstream/tensor/detail/typed.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <variant>
#include <vector>

namespace msstream::ops::detail {
namespace {

[[nodiscard]] AnyTensor weights_of_table(EmbeddingTable<AnyRuntime> const& table) {
  return std::visit([](auto const& weights) { return weights.any(); }, table.weights);
}

/// Returns ids of int64 or int32.
[[nodiscard]] AnyIds ids_of(AnyTensor const& ids) {
  return ids.dtype() == DType::int32 ? AnyIds(TensorOf<std::int32_t>(ids))
                                     : AnyIds(TensorOf<std::int64_t>(ids));
}

/// Returns the bags of one table.
[[nodiscard]] AnyBags bags_of_table(EmbeddingTables<AnyRuntime> const& tables,
                                    TableBags<AnyRuntime> const& bags,
                                    std::int64_t number) {
  auto const& table = tables.table(number);
  auto const all_ids = bags.ids.any().reshaped({bags.ids.count()});
  std::optional<AnyBags> of_table;
  if (bags.offsets) {
    auto const first = number * bags.batch;
    of_table.emplace(ids_of(all_ids),
                     ids_of(bags.offsets->any().rows(first, first + bags.batch + 1)));
    of_table->weights = bags.weights;
  } else {
    auto const first = tables.first_place(number, bags.batch);
    auto const last = first + bags.batch * table.hotness;
    Shape const shape{bags.batch, table.hotness};
    of_table.emplace(ids_of(all_ids.rows(first, last).reshaped(shape)));
    if (bags.weights) {
      of_table->weights = Floats(
          bags.weights->any().reshaped({bags.ids.count()}).rows(first, last).reshaped(shape));
    }
  }
  of_table->bag_count = bags.batch_count;
  of_table->default_id = table.default_id;
  return *of_table;
}

/// Adds the gradients of one table, and of the weights of its bags, to those of the tape.
void add_table_gradients(AnyTape& playing,
                         EmbeddingTable<AnyRuntime> const& table,
                         AnyBags const& bags,
                         Floats const& gradient,
                         std::source_location issued_at) {
  auto const weights = weights_of_table(table);
  auto const rows = weights.shape()[0];
  if (bags.weights && table.pooling == Pooling::sum &&
      playing.wants_gradient(bags.weights->any())) {
    playing.add_gradient(
        *bags.weights,
        embedding_weight_gradient(weights, bags, table.pooling, gradient, issued_at),
        issued_at);
  }
  if (!playing.wants_gradient(weights)) {
    return;
  }
  LookupOptions<AnyRuntime> options{.pooling = table.pooling};
  if (table.pooling == Pooling::max) {
    options.argmax.emplace(weights.device(), gradient.shape());
    (void)embedding_lookup(DType::float32, weights, bags, options, issued_at);
  }
  auto const& unique = playing.unique_rows(bags, rows, table.pooling, issued_at);
  playing.add_row_gradient(
      weights,
      embedding_gradient(
          bags, unique, rows, table.pooling, gradient.any(), options.argmax, issued_at),
      issued_at);
}

}  // namespace

Floats embedding_lookup(AnyTape& tape,
                        EmbeddingTables<AnyRuntime> const& tables,
                        TableBags<AnyRuntime> const& bags,
                        TablesLookupOptions<AnyRuntime> const& options,
                        std::source_location issued_at) {
  auto pooled = embedding_lookup(NoTape(), tables, bags, options, issued_at);
  tape.record(
      "embedding_lookup",
      pooled,
      [tables, bags, issued_at](AnyTape& playing, Floats const& gradient) {
        std::vector<std::int64_t> widths;
        for (std::int64_t t = 0; t < tables.tables(); ++t) {
          widths.push_back(weights_of_table(tables.table(t)).shape()[1]);
        }
        auto const parts =
            split(gradient, widths, std::vector<bool>(widths.size(), true), issued_at);
        for (std::int64_t t = 0; t < tables.tables(); ++t) {
          add_table_gradients(playing,
                              tables.table(t),
                              bags_of_table(tables, bags, t),
                              *parts[static_cast<std::size_t>(t)],
                              issued_at);
        }
      },
      issued_at);
  return pooled;
}

}  // namespace msstream::ops::detail
