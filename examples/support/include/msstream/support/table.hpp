// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace msstream::support {

/// What a row holds: the names of its fields, in the order in which they are stored.
struct Schema {
  std::vector<std::string> categorical;
  std::vector<std::string> continuous;
  std::vector<std::string> labels;  ///< one a task; the first is the main one
  std::int64_t hotness = 1;         ///< keys in each categorical field of a row

  [[nodiscard]] std::size_t keys_per_row() const noexcept {
    return categorical.size() * static_cast<std::size_t>(hotness);
  }
  friend bool operator==(Schema const&, Schema const&) = default;
};

/// Some consecutive rows, row by row: shuffled batches are gathered from it, and a row that is
/// contiguous costs a few cache lines where one that is spread over columns costs one a field.
/// Batches are stored the other way round, a field at a time; see StagedBatch.
struct RowBlock {
  std::int64_t rows = 0;
  std::vector<std::int64_t> keys;  ///< [rows][categorical][hotness]
  std::vector<float> continuous;   ///< [rows][continuous]
  std::vector<float> labels;       ///< [rows][labels]
};

/// Produces the next block of rows; may run on any thread.
using RowTask = std::function<RowBlock()>;

/// Data from the first row to the last, cut into tasks so that threads can share the parsing.
class RowSource {
 public:
  RowSource() = default;
  RowSource(RowSource const&) = delete;
  RowSource& operator=(RowSource const&) = delete;
  virtual ~RowSource() = default;

  [[nodiscard]] virtual Schema const& schema() const = 0;

  /// The task for the rows after those of the task before, or an empty function after the last.
  /// One caller at a time; the tasks themselves run in any order, on any threads, and must not
  /// outlive the source. Throws DataError.
  [[nodiscard]] virtual RowTask next() = 0;
};

}  // namespace msstream::support
