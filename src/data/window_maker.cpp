// SPDX-License-Identifier: Apache-2.0
#include "data/window_maker.hpp"

#include "data/batch_order.hpp"

#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace msstream::data::detail {

void WindowMaker::add(std::shared_ptr<Chunk const> chunk,
                      Reader::Position const& begin,
                      std::vector<std::int64_t> const& dealt) {
  if (rules_.group) {
    add_groups(chunk, begin);
    return;
  }
  auto const window_rows = batch_rows_ * batches_per_window_;
  std::int64_t row = std::min(to_skip_, chunk->rows());
  to_skip_ -= row;
  while (row < chunk->rows()) {
    if (building_.rows == 0) {
      next_.reader = begin;
      next_.skipped = row;
      next_.dealt = dealt;
    }
    auto const count = std::min(chunk->rows() - row, window_rows - building_.rows);
    building_.parts.push_back({chunk, row, building_.rows});
    building_.rows += count;
    row += count;
    if (building_.rows == window_rows) {
      finish(begin, row, false)->end.dealt = dealt;
      next_.dealt = dealt;
    }
  }
}

void WindowMaker::add_groups(std::shared_ptr<Chunk const> const& chunk,
                             Reader::Position const& begin) {
  auto const& values = chunk->ints(*rules_.group);
  auto const rows = chunk->rows();
  std::int64_t row = std::min(to_skip_, rows);
  to_skip_ -= row;
  while (row < rows) {
    auto const value = values[static_cast<std::size_t>(row)];
    auto end = row + 1;
    while (end < rows && values[static_cast<std::size_t>(end)] == value) {
      ++end;
    }
    if (open_.rows > 0 && open_.value != value) {
      close_group();
    }
    open_.value = value;
    open_.parts.push_back({chunk, row, open_.rows, begin});
    open_.rows += end - row;
    auto const most = next_.batch_size / rules_.ranks;
    if (open_.rows > most) {
      throw DataError(fmt::format(
          "column '{}': a group of more than {} rows of the value {}; expected groups that fit "
          "into a batch of a rank",
          chunk->schema().columns()[*rules_.group].name,
          most,
          value));
    }
    row = end;
  }
}

void WindowMaker::append(RowWindow::Part part, std::int64_t rows) {
  bool const continues =
      !building_.parts.empty() && building_.parts.back().chunk == part.chunk &&
      part.begin - building_.parts.back().begin == building_.rows - building_.parts.back().first;
  if (!continues) {
    part.first = building_.rows;
    building_.parts.push_back(std::move(part));
  }
  building_.rows += rows;
}

void WindowMaker::close_group() {
  if (open_.rows == 0) {
    return;
  }
  auto group = std::exchange(open_, {});
  auto const& first = group.parts.front();
  if (rows_of_part_ > 0 && rows_of_part_ + group.rows > next_.batch_size / rules_.ranks) {
    ++parts_used_;
    rows_of_part_ = 0;
    if (parts_used_ / rules_.ranks == batches_per_window_) {
      finish(first.place, first.begin, false);
    }
  }
  if (building_.rows == 0) {
    next_.reader = first.place;
    next_.skipped = first.begin;
  }
  building_.groups.push_back(static_cast<std::uint32_t>(building_.rows));
  rows_of_part_ += group.rows;
  for (std::size_t i = 0; i < group.parts.size(); ++i) {
    auto const end = i + 1 < group.parts.size() ? group.parts[i + 1].first : group.rows;
    auto const rows = end - group.parts[i].first;
    append(std::move(group.parts[i]), rows);
  }
}

std::int64_t WindowMaker::pack(RowWindow& rows, bool ends_epoch) const {
  auto const count = rows.groups.size();
  auto const most = next_.batch_size / rules_.ranks;
  auto const ranks = static_cast<std::size_t>(rules_.ranks);
  auto const size_of = [&](std::size_t group) {
    auto const end = group + 1 < count ? std::int64_t{rows.groups[group + 1]} : rows.rows;
    return end - rows.groups[group];
  };
  std::vector<std::uint32_t> order;
  if (rules_.shuffled) {
    order = shuffled_order(static_cast<std::uint32_t>(count),
                           next_.seed,
                           static_cast<std::uint64_t>(next_.epoch),
                           static_cast<std::uint64_t>(next_.window));
    rows.order.reserve(static_cast<std::size_t>(rows.rows));
  }
  rows.has_groups = true;
  rows.cuts.assign(1, 0);
  std::vector<std::int64_t> ends{0};  // the places behind groups, in their order
  for (std::size_t i = 0; i < count; ++i) {
    auto const group = rules_.shuffled ? order[i] : i;
    auto const size = size_of(group);
    if (ends.back() + size - rows.cuts.back() > most) {
      rows.cuts.push_back(static_cast<std::uint32_t>(ends.back()));
    }
    for (std::int64_t row = 0; rules_.shuffled && row < size; ++row) {
      rows.order.push_back(rows.groups[group] + static_cast<std::uint32_t>(row));
    }
    rows.starts.push_back(static_cast<std::uint32_t>(ends.back()));
    ends.push_back(ends.back() + size);
  }
  // The last part, which is open, ends with the window.
  auto const parts = rows.cuts.size();
  bool const is_full = parts % ranks == 0 && rows.rows - rows.cuts.back() == most;
  auto const batches = (parts + ranks - 1) / ranks;
  if (ends_epoch && rules_.last_batch == LastBatch::dropped && !is_full) {
    rows.cuts.resize((batches - 1) * ranks + 1);
    return static_cast<std::int64_t>(batches) - 1;
  }
  // The groups of the last batch are divided among the ranks by the places of their middles, if no
  // rank gets more rows than a batch has.
  auto const first_part = (batches - 1) * ranks;
  std::int64_t const begin = rows.cuts[first_part];
  auto const in_batch = rows.rows - begin;
  std::vector<std::uint32_t> even(ranks + 1, static_cast<std::uint32_t>(rows.rows));
  even[0] = static_cast<std::uint32_t>(begin);
  auto group = static_cast<std::size_t>(std::ranges::lower_bound(ends, begin) - ends.begin());
  for (std::size_t rank = 0; rank + 1 < ranks; ++rank) {
    while (group + 1 < ends.size() && (ends[group] + ends[group + 1] - 2 * begin) * rules_.ranks <
                                          2 * in_batch * static_cast<std::int64_t>(rank + 1)) {
      ++group;
    }
    even[rank + 1] = static_cast<std::uint32_t>(ends[group]);
  }
  bool fits = true;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    fits = fits && even[rank + 1] - even[rank] <= most;
  }
  rows.cuts.resize(batches * ranks + 1, static_cast<std::uint32_t>(rows.rows));
  if (fits) {
    std::ranges::copy(even, rows.cuts.begin() + static_cast<std::ptrdiff_t>(first_part));
  }
  return static_cast<std::int64_t>(batches);
}

void WindowMaker::end_epoch(std::vector<std::int64_t> const& dealt) {
  if (to_skip_ > 0) {
    throw DataError(fmt::format(
        "the data ends {} rows before the position to continue at; is it other data?", to_skip_));
  }
  close_group();
  auto const left = building_.rows;
  // All ranks have as many batches as the one with the most rows.
  std::int64_t least_batches = 0;
  for (auto const rows : dealt) {
    auto const batches = (rows + batch_rows_ - 1) / batch_rows_;
    least_batches = std::max(least_batches, batches - next_.window * batches_per_window_);
  }
  if (left > 0 || least_batches > 0) {
    bool const only_window = next_.window == 0;
    auto const last = finish({}, 0, true, least_batches);
    all_rows_ = only_window ? last : nullptr;
    dealt_in_epoch_ = dealt;
  }
  if (batches_of_epoch_ == 0) {
    throw DataError(fmt::format("{} rows in an epoch; expected at least {}",
                                left,
                                rules_.last_batch == LastBatch::dropped ? next_.batch_size : 1));
  }
  batches_of_epoch_ = 0;
  begin_epoch(next_);
}

void WindowMaker::repeat() {
  auto const& all = all_rows_->rows;
  building_.parts = all.parts;
  building_.rows = all.rows;
  building_.groups = all.groups;
  end_epoch(std::vector(dealt_in_epoch_));
}

std::int64_t WindowMaker::rows_ahead() const noexcept {
  std::int64_t rows = building_.rows + open_.rows;
  for (auto const& window : ready_) {
    rows += std::max<std::int64_t>(0, window->rows.rows - window->next_batch * batch_rows_);
  }
  return rows;
}

Places WindowMaker::places_of(ReadyWindow const& window,
                              std::int64_t batch,
                              std::int64_t rank) const noexcept {
  auto const& rows = window.rows;
  if (rules_.group) {
    auto const part = static_cast<std::size_t>(batch * rules_.ranks + rank);
    return {rows.cuts[part], std::int64_t{rows.cuts[part + 1]} - rows.cuts[part]};
  }
  auto const first = std::min(batch * batch_rows_, rows.rows);
  auto const count = std::min(batch_rows_, rows.rows - first);
  if (rules_.deals_tasks) {
    return {first, count};
  }
  auto const begin = count * rank / rules_.ranks;
  return {first + begin, count * (rank + 1) / rules_.ranks - begin};
}

void WindowMaker::begin_epoch(LoaderPosition& position) {
  ++position.epoch;
  position.window = 0;
  position.reader = {};
  position.skipped = 0;
  position.dealt = {};
}

std::shared_ptr<ReadyWindow> WindowMaker::finish(Reader::Position const& chunk,
                                                 std::int64_t rows_of_chunk,
                                                 bool ends_epoch,
                                                 std::int64_t least_batches) {
  auto const window = std::make_shared<ReadyWindow>();
  window->rows = std::exchange(building_, {});
  parts_used_ = 0;
  rows_of_part_ = 0;
  auto const rows = window->rows.rows;
  if (rows > std::numeric_limits<std::uint32_t>::max()) {
    throw DataError(fmt::format("a window of {} rows to shuffle; expected at most 2^32 - 1", rows));
  }
  if (rules_.group) {
    window->batches = pack(window->rows, ends_epoch);
    window->order = ReadyWindow::Order::complete;
  } else {
    bool const counts_rest = rules_.last_batch != LastBatch::dropped && rows % batch_rows_ != 0;
    window->batches = std::max(rows / batch_rows_ + (counts_rest ? 1 : 0), least_batches);
  }
  window->start = next_;
  window->next_batch = std::exchange(next_.batch, 0);
  window->start.batch = 0;
  window->start.batches -= window->next_batch;
  batches_of_epoch_ += window->batches;
  next_.batches = window->start.batches + window->batches;
  next_.samples += rules_.group ? std::int64_t{window->rows.cuts.back()}
                                : std::min(rows, window->batches * batch_rows_);
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
