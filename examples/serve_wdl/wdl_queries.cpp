// SPDX-License-Identifier: Apache-2.0
#include "wdl_queries.hpp"

#include "datasets/counter_random.hpp"

#include <cstddef>
#include <span>

namespace serve_wdl {

WdlQueries::WdlQueries(WdlOptions const& options, WdlWeights const& weights) {
  using ms::datasets::random_bits;
  bool const by_field = options.tables == TableForm::branches;
  auto const fields = weights.fields();
  auto const hotness = options.hotness;
  auto const columns = weights.dense_columns();
  auto const seed = options.seed ^ 0x51A7E5U;
  for (int i = 0; i < options.queries; ++i) {
    auto const stream = 2 * static_cast<std::uint64_t>(i);
    auto& keys = keys_.emplace_back(static_cast<std::size_t>(options.batch * fields * hotness));
    auto& dense = dense_.emplace_back(static_cast<std::size_t>(options.batch * columns), 0.0F);
    std::uint64_t drawn = 0;
    for (std::int64_t row = 0; row < options.batch; ++row) {
      for (std::int64_t field = 0; field < fields; ++field) {
        auto const bag = by_field ? field * options.batch + row : row * fields + field;
        for (std::int64_t k = 0; k < hotness; ++k) {
          auto const key = random_bits(seed, stream, drawn++) >> 8U;
          keys[static_cast<std::size_t>(bag * hotness + k)] =
              static_cast<std::int64_t>(key) + field;
        }
      }
      for (std::int64_t k = 0; k < weights.continuous; ++k) {
        dense[static_cast<std::size_t>(row * columns + k)] =
            static_cast<float>(ms::datasets::uniform_of(random_bits(seed, stream + 1, drawn++)));
      }
    }
    auto& query = queries_.emplace_back(ms::serve::Query{.rows = options.batch});
    if (by_field) {
      auto const of_field = static_cast<std::size_t>(options.batch * hotness);
      for (std::int64_t field = 0; field < fields; ++field) {
        query.values.push_back(std::span<std::int64_t const>(keys).subspan(
            static_cast<std::size_t>(field) * of_field, of_field));
      }
    } else {
      query.values.push_back(keys);
    }
    query.values.push_back(dense);
  }
}

}  // namespace serve_wdl
