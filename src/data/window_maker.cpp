// SPDX-License-Identifier: Apache-2.0
#include "data/window_maker.hpp"

#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace msstream::data::detail {

void WindowMaker::add(std::shared_ptr<Chunk const> chunk, Reader::Position const& begin) {
  std::int64_t row = std::min(to_skip_, chunk->rows());
  to_skip_ -= row;
  while (row < chunk->rows()) {
    if (building_.rows == 0) {
      next_.reader = begin;
      next_.skipped = row;
    }
    auto const count = std::min(chunk->rows() - row, next_.window_rows - building_.rows);
    building_.parts.push_back({chunk, row, building_.rows});
    building_.rows += count;
    row += count;
    if (building_.rows == next_.window_rows) {
      finish(begin, row, false);
    }
  }
}

void WindowMaker::end_epoch() {
  if (to_skip_ > 0) {
    throw DataError(fmt::format(
        "the data ends {} rows before the position to continue at; is it other data?", to_skip_));
  }
  auto const left = building_.rows;
  if (left > 0) {
    bool const only_window = next_.window == 0;
    auto const last = finish({}, 0, true);
    all_rows_ = only_window ? last : nullptr;
  }
  if (batches_of_epoch_ == 0) {
    throw DataError(fmt::format("{} rows in an epoch; expected at least {}",
                                left,
                                last_batch_ == LastBatch::dropped ? next_.batch_size : 1));
  }
  batches_of_epoch_ = 0;
  begin_epoch(next_);
}

void WindowMaker::repeat() {
  building_ = {all_rows_->rows.parts, all_rows_->rows.rows, {}};
  end_epoch();
}

std::int64_t WindowMaker::rows_ahead() const noexcept {
  std::int64_t rows = building_.rows;
  for (auto const& window : ready_) {
    rows += window->rows.rows - window->next_batch * next_.batch_size;
  }
  return rows;
}

void WindowMaker::begin_epoch(LoaderPosition& position) {
  ++position.epoch;
  position.window = 0;
  position.reader = {};
  position.skipped = 0;
}

std::shared_ptr<ReadyWindow> WindowMaker::finish(Reader::Position const& chunk,
                                                 std::int64_t rows_of_chunk,
                                                 bool ends_epoch) {
  auto const window = std::make_shared<ReadyWindow>();
  window->rows = std::exchange(building_, {});
  auto const rows = window->rows.rows;
  if (rows > std::numeric_limits<std::uint32_t>::max()) {
    throw DataError(fmt::format("a window of {} rows to shuffle; expected at most 2^32 - 1", rows));
  }
  bool const counts_rest = last_batch_ != LastBatch::dropped && rows % next_.batch_size != 0;
  window->batches = rows / next_.batch_size + (counts_rest ? 1 : 0);
  window->start = next_;
  window->next_batch = std::exchange(next_.batch, 0);
  window->start.batch = 0;
  window->start.batches -= window->next_batch;
  batches_of_epoch_ += window->batches;
  next_.batches = window->start.batches + window->batches;
  next_.samples += std::min(rows, window->batches * next_.batch_size);
  ++next_.window;
  next_.reader = chunk;
  next_.skipped = rows_of_chunk;
  window->end = next_;
  if (ends_epoch) {
    begin_epoch(window->end);
  }
  if (window->next_batch < window->batches) {
    ready_.push_back(window);
  }
  return window;
}

}  // namespace msstream::data::detail
