// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/chunk.hpp>
#include <msstream/data/reader.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace msstream::datasets {

/// The rows that a DividedReader gives.
enum class Kept : std::uint8_t { training, held_out };

/// Functions that see what a DividedReader reads, or null, and what is expected of it.
struct RowWatch {
  /// Called with all rows that were read at once, those of both parts, and the name of their file.
  /// Threads call it at the same time and in any order. What it throws is an error of the rows.
  std::function<void(data::Chunk const& rows, std::string const& file)> rows = {};
  /// Called with the place that is reached, before its rows are parsed. One call at a time.
  std::function<void(data::Reader::Position const& place)> place = {};
  /// The rows of both parts together. If there are others in number, their end is a DataError.
  std::optional<std::int64_t> count = {};
};

/// Gives those rows of another reader that are to train on, or those that are held out: every
/// `holdout`-th of all its files, as divide() does for rows in memory. Keeps no row. Threads parse
/// the rows as they do those of the other reader.
class DividedReader final : public data::Reader {
 public:
  /// Throws std::invalid_argument for a holdout of 1 and below 0, and for rows that are held out
  /// without a holdout.
  DividedReader(std::unique_ptr<data::Reader> rows,
                std::int64_t holdout,
                Kept kept,
                RowWatch watch = {});

  [[nodiscard]] data::Schema const& schema() const override { return rows_->schema(); }
  bool next(data::Chunk& chunk) override;
  /// Returns the position of the other reader, with the number of its rows in front of it.
  [[nodiscard]] Position position() const override;
  void seek(Position const& position) override;
  [[nodiscard]] Task next_task() override;
  [[nodiscard]] std::string file_name(std::int64_t file) const override;
  [[nodiscard]] Source source() const override { return rows_->source(); }
  [[nodiscard]] data::BadRows bad_rows() const override { return rows_->bad_rows(); }
  /// Returns the holdout, and the part of the other reader.
  [[nodiscard]] std::string part() const override;

 private:
  std::unique_ptr<data::Reader> rows_;
  std::int64_t holdout_;
  Kept kept_;
  RowWatch watch_;
  std::int64_t row_ = 0;  ///< rows of the other reader so far
};

}  // namespace msstream::datasets
