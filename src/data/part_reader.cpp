// SPDX-License-Identifier: Apache-2.0
#include "data/keep_rows.hpp"
#include "data/next_rows.hpp"
#include "data/reader_use.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/detail/counter_random.hpp>
#include <msstream/data/part_reader.hpp>

#include <fmt/core.h>

#include <utility>

namespace msstream::data {

namespace {

std::optional<std::size_t> key_of(Schema const& schema, std::string const& name) {
  if (name.empty()) {
    return std::nullopt;
  }
  auto const key = schema.index_of(name);
  auto const& column = schema.columns()[key];
  require(
      !column.is_float() && column.width == 1,
      "part: column '{}' has values of type {}{}; expected a key of integers or strings, one in "
      "each row",
      name,
      to_string(column.type),
      column.width == 1 ? "" : ", not one in each row");
  return key;
}

}  // namespace

bool Part::contains(std::int64_t value) const noexcept {
  // Another function than that of ids and of the order of rows, so that they are independent.
  constexpr std::uint64_t own = 0x70617274'6f66'726fULL;
  auto const hash = detail::mix64(static_cast<std::uint64_t>(value) ^ detail::mix64(seed + own));
  auto const place = static_cast<double>(hash >> 11U) * 0x1p-53;
  return place >= begin && place < end;
}

PartReader::PartReader(std::shared_ptr<Reader> rows, Part part)
    : rows_(std::move(rows)), part_(std::move(part)) {
  require(rows_ != nullptr, "part: there is no reader");
  require(part_.begin >= 0 && part_.begin < part_.end && part_.end <= 1,
          "part: from {} to {}; expected a range within [0, 1], which is not empty",
          part_.begin,
          part_.end);
  key_ = key_of(rows_->schema(), part_.key);
  auto const* const inner = dynamic_cast<PartReader const*>(rows_.get());
  require(key_ || inner == nullptr || inner->key_,
          "part: rows by number of a reader that gives a part by number; expected a key, or one "
          "part with a range of its own");
  use_ = std::make_unique<detail::ReaderUse>(*rows_, "a PartReader");
  use_->begin();
}

PartReader::PartReader(Reader& rows, Part part)
    : PartReader(std::shared_ptr<Reader>(std::shared_ptr<Reader>(), &rows), std::move(part)) {}

PartReader::~PartReader() {
  rows_->words_.clear();
}

Schema const& PartReader::schema() const {
  return rows_->schema();
}

bool PartReader::next(Chunk& chunk) {
  return detail::next_rows(*this, chunk);
}

Reader::Position PartReader::position() const {
  auto position = rows_->position();
  position.row = key_ ? position.row : row_;
  return position;
}

void PartReader::seek(Position const& position) {
  rows_->seek(position);
  row_ = position.row;
}

Reader::Task PartReader::next_task() {
  rows_->words_ = words_;
  if (key_) {
    auto task = rows_->next_task();
    if (!task) {
      return {};
    }
    return [task = std::move(task), part = part_, key = *key_](Chunk& chunk) {
      task(chunk);
      detail::ChunkAccess::check(chunk);
      auto const& keys = chunk.ints(key);
      detail::keep_rows(chunk, [&](std::int64_t row) {
        return part.contains(keys[static_cast<std::size_t>(row)]);
      });
    };
  }
  auto numbered = next_numbered_rows();
  return numbered ? std::move(numbered->second) : Task();
}

std::optional<Reader::CountedTask> PartReader::next_counted_task() {
  if (key_) {
    return Reader::next_counted_task();
  }
  auto numbered = next_numbered_rows();
  if (!numbered) {
    return std::nullopt;
  }
  std::int64_t rows = 0;
  for (auto row = numbered->first; row < row_; ++row) {
    rows += part_.contains(row) ? 1 : 0;
  }
  return CountedTask{std::move(numbered->second), rows};
}

std::optional<std::pair<std::int64_t, Reader::Task>> PartReader::next_numbered_rows() {
  rows_->words_ = words_;
  auto counted = rows_->next_counted_task();
  if (!counted) {
    return std::nullopt;
  }
  auto const first = std::exchange(row_, row_ + counted->rows);
  auto task = [counted = std::move(*counted), part = part_, first](Chunk& chunk) {
    counted.task(chunk);
    detail::ChunkAccess::check(chunk);
    require(chunk.rows() == counted.rows,
            "part: a task of the reader appended {} rows; its next_counted_task() said {}",
            chunk.rows(),
            counted.rows);
    detail::keep_rows(chunk, [&](std::int64_t row) { return part.contains(first + row); });
  };
  return std::pair(first, Task(std::move(task)));
}

std::string PartReader::file_name(std::int64_t file) const {
  return rows_->file_name(file);
}

Reader::Source PartReader::source() const {
  return rows_->source();
}

BadRows PartReader::bad_rows() const {
  return rows_->bad_rows();
}

std::string PartReader::part() const {
  auto const range = fmt::format("{} to {} of seed {}", part_.begin, part_.end, part_.seed);
  return fmt::format("{} by {} of {}",
                     range,
                     key_ ? fmt::format("column '{}'", part_.key) : "number",
                     rows_->part());
}

}  // namespace msstream::data
