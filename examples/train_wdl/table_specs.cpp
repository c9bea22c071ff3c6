// SPDX-License-Identifier: Apache-2.0
#include "table_specs.hpp"

#include <cstddef>

namespace train_wdl {

WideDeepShape shape_of(TrainOptions const& options, TrainingData const& data) {
  return {.fields = data.columns.categorical,
          .table_rows = data.table_rows,
          .continuous = data.columns.continuous,
          .embedding_dim = options.embedding_dim,
          .layers = options.layers,
          .seed = options.seed,
          .fused = options.tables == TableForm::fused,
          .precision = options.precision};
}

std::vector<ms::TableSpec> table_specs(WideDeepShape const& shape) {
  std::vector<ms::TableSpec> specs;
  for (std::size_t i = 0; i < shape.fields.size(); ++i) {
    specs.push_back({.name = "deep/" + shape.fields[i],
                     .rows = shape.table_rows[i],
                     .width = shape.embedding_dim});
  }
  for (std::size_t i = 0; i < shape.fields.size(); ++i) {
    specs.push_back({.name = "wide/" + shape.fields[i],
                     .rows = shape.table_rows[i],
                     .width = 1,
                     .initializer = ms::init::zeros()});
  }
  return specs;
}

}  // namespace train_wdl
