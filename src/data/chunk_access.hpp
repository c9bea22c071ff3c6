// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/chunk.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace msstream::data::detail {

/// The functions of a chunk that transforms alone use.
struct ChunkAccess {
  /// Keeps the strings behind the keys of a column, for a vocabulary.
  static void keep_words(Chunk& chunk, std::size_t column) {
    chunk.words_.resize(chunk.values_.size());
    chunk.words_[column].emplace();
  }
  /// Gives the columns other names, types of the same memory, or transforms.
  static void set_schema(Chunk& chunk, std::shared_ptr<Schema const> schema) {
    chunk.schema_ = std::move(schema);
  }
};

}  // namespace msstream::data::detail
