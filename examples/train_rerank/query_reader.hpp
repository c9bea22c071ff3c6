// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rerank_shape.hpp"

#include <msstream/data/reader.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace train_rerank {

/// Reads the numbers of the queries to train on, in a column `query`, for a Loader that shuffles
/// them.
class QueryReader final : public ms::data::Reader {
 public:
  explicit QueryReader(std::vector<std::int64_t> queries) : queries_(std::move(queries)) {}

  [[nodiscard]] ms::data::Schema const& schema() const override { return schema_; }
  bool next(ms::data::Chunk& chunk) override {
    if (std::exchange(read_, true)) {
      return false;
    }
    chunk.ints("query").assign(queries_.begin(), queries_.end());
    return true;
  }
  [[nodiscard]] Position position() const override { return {.offset = read_ ? 1 : 0}; }
  void seek(Position const& position) override { read_ = position.offset != 0; }

 private:
  ms::data::Schema schema_{{{"query", ms::data::ColumnType::int64}}};
  std::vector<std::int64_t> queries_;
  bool read_ = false;
};

}  // namespace train_rerank
