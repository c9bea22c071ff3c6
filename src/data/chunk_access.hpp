// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/chunk.hpp>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::data::detail {

/// The functions of a chunk that transforms alone use.
struct ChunkAccess {
  /// Keeps the strings behind the keys of some columns, for vocabularies.
  static void keep_words(Chunk& chunk, std::vector<std::size_t> const& columns) {
    chunk.words_.resize(columns.empty() ? 0 : chunk.values_.size());
    for (auto const column : columns) {
      chunk.words_[column].emplace();
    }
  }
  /// Returns the floats of a column of any type.
  static Values<float>& floats(Chunk& chunk, std::size_t column) {
    return chunk.values_[column].floats;
  }
  /// Returns the number of values of a column.
  static std::size_t count(Chunk const& chunk, std::size_t column) { return chunk.count(column); }
  /// Releases the values of a column that are not floats.
  static void keep_floats_alone(Chunk& chunk, std::size_t column) {
    chunk.values_[column].doubles = {};
    chunk.values_[column].ints = {};
  }
  /// Gives the columns other names, types of the same memory, or transforms.
  static void set_schema(Chunk& chunk, std::shared_ptr<Schema const> schema) {
    chunk.schema_ = std::move(schema);
  }
};

}  // namespace msstream::data::detail
