// SPDX-License-Identifier: Apache-2.0
#include "common/long_sum_host.hpp"
#include "common/real_types.hpp"
#include "embedding_gradient/tables_gradient.hpp"

#include <cstdint>

namespace msstream::ops::kernels {
namespace {

template <class Row>
void write_weight_gradients(TablesWeightGradientArgs const& args, std::int64_t output_width) {
  for (std::int64_t place = 0; place < args.capacity; ++place) {
    std::int64_t const row = static_cast<Row const*>(args.rows)[place];
    float product = 0.0F;
    if (row >= 0) {
      auto const number = args.bags_of_places[place] / args.batch;
      auto const bag = args.bags_of_places[place] - number * args.batch;
      auto const& table = args.tables[number];
      auto const first = (row - args.first_rows[number]) * table.width;
      auto const* const gradient = args.output_gradient + bag * output_width + table.first_column;
      with_real_type("embedding_tables_weight_gradient: a table", table.dtype, [&](auto type) {
        using T = typename decltype(type)::type;
        auto const* const weights = static_cast<T const*>(table.table) + first;
        product = sum_of_terms(table.pooling == Pooling::sum ? table.width : 0,
                               [&](std::int64_t c) { return to_float(weights[c]) * gradient[c]; });
      });
    }
    args.weight_gradient[place] = product;
  }
}

}  // namespace

void embedding_tables_weight_gradient(HostStream stream, TablesWeightGradientArgs const& args) {
  stream.run([args, width = args.plan->width] {
    args.row_dtype == DType::int64 ? write_weight_gradients<std::int64_t>(args, width)
                                   : write_weight_gradients<std::int32_t>(args, width);
  });
}

}  // namespace msstream::ops::kernels
