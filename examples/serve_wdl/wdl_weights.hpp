// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wdl_options.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace serve_wdl {

/// A Wide & Deep model in the host's memory.
struct WdlWeights {
  struct Table {
    std::int64_t rows;
    std::vector<float> deep;  ///< [rows, embedding_dim]
    std::vector<float> wide;  ///< [rows]
  };
  struct Layer {
    std::int64_t inputs;
    std::int64_t outputs;
    std::vector<float> weight;  ///< [inputs, outputs]
    std::vector<float> bias;    ///< [outputs]
  };

  std::int64_t embedding_dim = 0;
  std::int64_t continuous = 0;
  std::vector<Table> tables = {};
  /// The last one has one output. The first one's inputs are the embeddings, field by field, then
  /// dense_columns().
  std::vector<Layer> layers = {};
  Layer linear = {};  ///< of the wide part, from dense_columns()

  [[nodiscard]] std::int64_t fields() const noexcept {
    return static_cast<std::int64_t>(tables.size());
  }
  /// The continuous values and zeros behind them, so that rows begin where a product can load 16
  /// bytes at a time; at least one.
  [[nodiscard]] std::int64_t dense_columns() const noexcept;
};

/// Of the options' shape; which values depends on the seed alone.
[[nodiscard]] WdlWeights random_weights(WdlOptions const& options, std::uint64_t seed);
/// What train_wdl saved. Throws support::DataError for a file that is not of it.
[[nodiscard]] WdlWeights load_weights(std::filesystem::path const& path);
/// As the options say. Another variant is another model of the same shape.
[[nodiscard]] WdlWeights make_weights(WdlOptions const& options, int variant);

}  // namespace serve_wdl
