// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/stored_rows.hpp"

#include <msstream/data/reader.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace msstream::training {

/// Opens the rows at their beginning, each time by a reader of its own. Called by any thread.
using OpenRows = std::function<std::unique_ptr<data::Reader>()>;

/// The rows that a training reads: in memory, or in files that each reader opens anew, of which
/// none stays in memory.
class TrainingRows {
 public:
  TrainingRows(datasets::StoredRows rows)  // NOLINT(google-explicit-constructor): rows are rows
      : stored_(std::move(rows)) {}
  /// `open` opens so many rows.
  TrainingRows(std::int64_t rows, OpenRows open) : streamed_rows_(rows), open_(std::move(open)) {}

  [[nodiscard]] bool is_streamed() const noexcept { return !stored_; }
  /// Returns the number of rows, and 0 after take() of rows in memory.
  [[nodiscard]] std::int64_t rows() const noexcept {
    return stored_ ? stored_->rows() : streamed_rows_;
  }
  /// Returns a reader of the rows. Those in memory are copied, and must stay here as long as it is
  /// used.
  [[nodiscard]] std::unique_ptr<data::Reader> reader() const {
    return stored_ ? stored_->reader() : open_();
  }
  /// Returns a reader that is given the rows in memory, as StoredRows::take(), or reader().
  [[nodiscard]] std::unique_ptr<data::Reader> take() { return stored_ ? stored_->take() : open_(); }

 private:
  std::optional<datasets::StoredRows> stored_;
  std::int64_t streamed_rows_ = 0;
  OpenRows open_;
};

}  // namespace msstream::training
