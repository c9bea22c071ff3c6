// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/chunk.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace msstream::data::detail {

/// The functions of a chunk that the library alone uses.
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
  static Values<std::int64_t>& ints(Chunk& chunk, std::size_t column) {
    return chunk.values_[column].ints;
  }
  /// Calls `function` with each of the vectors that may have the values of a column.
  template <class Function>
  static void for_each_kind(Chunk& chunk, std::size_t column, Function&& function) {
    function(chunk.values_[column].floats);
    function(chunk.values_[column].doubles);
    function(chunk.values_[column].ints);
  }
  /// Throws as Chunk::check(), and RowError for lists of unequal lengths.
  static void check(Chunk const& chunk) { chunk.check_rows(); }
  /// Calls `function(row, error)` for each row whose lists in aligned columns have unequal lengths.
  template <class Function>
  static void for_each_unaligned(Chunk const& chunk, Function const& function) {
    for (std::size_t i = 0; i < chunk.values_.size(); ++i) {
      auto const& column = chunk.schema().columns()[i];
      if (column.aligned_with.empty()) {
        continue;
      }
      auto const& found = chunk.values_[i].offsets;
      auto const& expected = chunk.offsets(column.aligned_with);
      auto const differ = std::ranges::mismatch(found, expected).in1 - found.begin();
      for (auto end = static_cast<std::size_t>(differ);
           end < std::min(found.size(), expected.size());
           ++end) {
        auto const count = found[end] - found[end - 1];
        auto const other = expected[end] - expected[end - 1];
        if (count != other) {
          function(static_cast<std::int64_t>(end) - 1,
                   fmt::format("column '{}' has {} values, column '{}' {}; expected equally many, "
                               "as they are aligned",
                               column.name,
                               count,
                               column.aligned_with,
                               other));
        }
      }
    }
  }
  /// Returns the number of a row among those that were read at once, of which some were left out.
  static std::int64_t number_of(Chunk const& chunk, std::int64_t row) {
    return chunk.numbers_.empty() ? row : chunk.numbers_[static_cast<std::size_t>(row)];
  }
  static void set_numbers(Chunk& chunk, std::vector<std::int64_t> numbers) {
    chunk.numbers_ = std::move(numbers);
  }
  /// Returns the rows that were left out in the reading of the chunk.
  static std::vector<BadRow>& bad_rows(Chunk& chunk) { return chunk.bad_rows_; }
  /// Returns the log to which they are to be added.
  static std::shared_ptr<BadRowLog>& bad_row_log(Chunk& chunk) { return chunk.bad_row_log_; }
  /// Releases the values of a column that are not integers.
  static void keep_ints_alone(Chunk& chunk, std::size_t column) {
    chunk.values_[column].floats = {};
    chunk.values_[column].doubles = {};
  }
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
