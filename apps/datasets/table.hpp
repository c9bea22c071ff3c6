// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace msstream::datasets {

/// The names of the fields of a row, in the order in which their values are stored.
struct Schema {
  std::vector<std::string> categorical;
  std::vector<std::string> continuous;
  std::vector<std::string> labels;  ///< one per task; the first is the main one
  std::int64_t hotness = 1;         ///< keys in each categorical field of a row

  [[nodiscard]] std::size_t keys_per_row() const noexcept {
    return categorical.size() * static_cast<std::size_t>(hotness);
  }
  friend bool operator==(Schema const&, Schema const&) = default;
};

/// Some consecutive rows, stored row by row. Shuffled batches are gathered from single rows: a
/// contiguous row costs a few cache lines, but a row that is spread over columns would cost one per
/// field. Batches are stored field by field instead; see StagedBatch.
struct RowBlock {
  std::int64_t rows = 0;
  std::vector<std::int64_t> keys;  ///< [rows][categorical][hotness]
  std::vector<float> continuous;   ///< [rows][continuous]
  std::vector<float> labels;       ///< [rows][labels]
};

/// A function that produces a block of rows. It may run on any thread.
using RowTask = std::function<RowBlock()>;

/// A source of rows in order, divided into tasks so that threads can share the parsing.
class RowSource {
 public:
  RowSource() = default;
  RowSource(RowSource const&) = delete;
  RowSource& operator=(RowSource const&) = delete;
  virtual ~RowSource() = default;

  [[nodiscard]] virtual Schema const& schema() const = 0;

  /// Returns the task for the rows that follow those of the task before, or an empty function after
  /// the last. Only one thread at a time may call it. The tasks themselves may run in any order, on
  /// any threads, and must not outlive the source. Throws DataError.
  [[nodiscard]] virtual RowTask next() = 0;
};

}  // namespace msstream::datasets
