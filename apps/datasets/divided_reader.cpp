// SPDX-License-Identifier: Apache-2.0
#include "datasets/divided_reader.hpp"

#include "datasets/held_out_rows.hpp"
#include "datasets/split.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <utility>

namespace msstream::datasets {

DividedReader::DividedReader(std::unique_ptr<data::Reader> rows,
                             std::int64_t holdout,
                             Kept kept,
                             RowWatch watch)
    : rows_(std::move(rows)), holdout_(holdout), kept_(kept), watch_(std::move(watch)) {
  check_holdout(holdout);
  require(holdout > 0 || kept == Kept::training, "holdout 0: no row is held out");
}

bool DividedReader::next(data::Chunk& chunk) {
  auto const task = next_task();
  if (task) {
    task(chunk);
  }
  return task != nullptr;
}

data::Reader::Position DividedReader::position() const {
  auto position = rows_->position();
  position.row = row_;
  return position;
}

void DividedReader::seek(Position const& position) {
  rows_->seek(position);
  row_ = position.row;
}

data::Reader::Task DividedReader::next_task() {
  auto counted = rows_->next_counted_task();
  if (!counted) {
    if (watch_.count && row_ != *watch_.count) {
      throw data::DataError(
          fmt::format("{}: the data has {} rows, and had {} when they were counted; has a file "
                      "changed?",
                      rows_->file_name(0),
                      row_,
                      *watch_.count));
    }
    return {};
  }
  auto const place = rows_->position();
  if (watch_.place) {
    watch_.place(place);
  }
  auto const first = std::exchange(row_, row_ + counted->rows);
  return [this, counted = std::move(*counted), first, file = place.file](data::Chunk& chunk) {
    counted.task(chunk);
    chunk.check();
    require(chunk.rows() == counted.rows,
            "holdout: a task of the reader appended {} rows; its next_counted_task() said {}",
            chunk.rows(),
            counted.rows);
    if (watch_.rows) {
      watch_.rows(chunk, rows_->file_name(file));
    }
    if (holdout_ > 0) {
      auto held_out = take_held_out(chunk, first, holdout_);
      if (kept_ == Kept::held_out) {
        chunk = std::move(held_out);
      }
    }
  };
}

std::string DividedReader::file_name(std::int64_t file) const {
  return rows_->file_name(file);
}

std::string DividedReader::part() const {
  if (holdout_ == 0) {
    return rows_->part();
  }
  return fmt::format("{} every {}-th row of {}",
                     kept_ == Kept::training ? "all but" : "only",
                     holdout_,
                     rows_->part());
}

}  // namespace msstream::datasets
