// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wdl_options.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace serve_wdl {

/// The weights of a Wide & Deep model in host memory.
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
  ms::Precision precision = ms::Precision::fp32;  ///< in which `layers` are served
  TableForm form = TableForm::branches;           ///< in which the tables are served
  std::vector<Table> tables = {};
  /// The layers of the deep part. The last one has one output. The inputs of the first one are the
  /// embeddings, field by field, followed by dense_columns().
  std::vector<Layer> layers = {};
  Layer linear = {};  ///< the wide part's layer, with dense_columns() inputs

  [[nodiscard]] std::int64_t fields() const noexcept {
    return static_cast<std::int64_t>(tables.size());
  }
  /// Returns the width of a row of the joined tables of TableForm::fused: the deep weights, the
  /// wide one, and zeros up to a multiple of 16 bytes, the size of a vector load.
  [[nodiscard]] std::int64_t packed_width() const noexcept;
  /// Returns the number of dense columns: the continuous values, then zeros such that the rows of
  /// the first layer's input begin at multiples of 16 bytes, which a matrix product can load at a
  /// time. At least one.
  [[nodiscard]] std::int64_t dense_columns() const noexcept;
};

/// Returns random weights of the shape that the options give. The values depend only on the seed.
[[nodiscard]] WdlWeights random_weights(WdlOptions const& options, std::uint64_t seed);
/// Loads the weights that train_wdl saved, from the file of --model. Throws std::invalid_argument
/// for any other file.
[[nodiscard]] WdlWeights load_weights(WdlOptions const& options);
/// Throws std::invalid_argument if a weight of the layers is infinite as float16.
void require_float16(WdlWeights const& weights);
/// Returns the weights that the options choose, from a file or random. Each `variant` gives other
/// weights of the same shape. Throws what require_float16() throws, if the layers are served in it.
[[nodiscard]] WdlWeights make_weights(WdlOptions const& options, int variant);

}  // namespace serve_wdl
