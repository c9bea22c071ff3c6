// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/click_columns.hpp"
#include "datasets/distinct_values.hpp"

#include <msstream/data/chunk.hpp>
#include <msstream/data/schema.hpp>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace msstream::training {

/// The numbers of all rows of the training data that a training needs before it begins.
struct ClickCounts {
  std::int64_t rows = 0;
  std::vector<std::int64_t> most_keys;  ///< the most keys of each categorical field in a row
  /// The rows that each field's table should have for its number of keys. Empty: not asked for.
  std::vector<std::int64_t> table_rows;
};

/// Returns the counts as one line of text, for the metadata of a checkpoint.
[[nodiscard]] std::string to_string(ClickCounts const& counts);
/// Returns the counts that a checkpoint of a streamed training has, so that a run that resumes need
/// not read all rows to find them; null if the file has none. Throws as SafetensorsFile, and
/// std::invalid_argument for a text that to_string() does not write.
[[nodiscard]] std::optional<ClickCounts> counts_in_checkpoint(std::string const& path);

/// Returns how many rows a table should have for so many distinct keys.
[[nodiscard]] std::int64_t table_rows_for(std::int64_t distinct_keys) noexcept;

/// Throws DataError, which names `origin` and the column, for a label that is neither 0 nor 1.
void require_labels(data::Chunk const& chunk,
                    std::vector<std::string> const& labels,
                    std::string const& origin);

/// Finds the counts of rows that it sees in any order, in memory that does not grow with them. Its
/// functions are thread-safe.
class ClickScan {
 public:
  /// Counts distinct keys too, as far as they make tables larger, if `counts_keys`.
  ClickScan(data::Schema const& schema, bool counts_keys);

  void add(data::Chunk const& chunk);
  [[nodiscard]] ClickCounts counts() const;

 private:
  datasets::ClickColumns const columns_;
  bool const counts_keys_;
  mutable std::mutex mutex_;  ///< guards all below
  std::int64_t rows_ = 0;
  std::vector<std::int64_t> most_keys_;
  std::vector<datasets::DistinctValues> keys_;  ///< of each field
};

}  // namespace msstream::training
