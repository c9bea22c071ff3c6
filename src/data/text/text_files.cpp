// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_files.hpp"

#include <msstream/base/detail/require.hpp>

#include <utility>

namespace msstream::data::detail {

namespace {

/// Returns the next chunk with text, without the blank lines at its start.
std::optional<LineChunk> next_with_text(LineChunks& chunks) {
  auto chunk = chunks.next();
  while (chunk && (skip_blank_lines(*chunk), chunk->lines.empty())) {
    chunk = chunks.next();
  }
  return chunk;
}

}  // namespace

TextFiles::TextFiles(std::vector<TextFile> files,
                     std::size_t chunk_bytes,
                     std::int64_t max_bad_rows,
                     std::optional<Quoting> quoting)
    : files_(std::move(files)),
      chunk_bytes_(chunk_bytes),
      bad_rows_(std::make_shared<BadRowLog>(max_bad_rows)),
      quoting_(quoting),
      began_(files_.size()) {
  require(!files_.empty(), "expected at least one file to read");
  require(chunk_bytes > 0 && chunk_bytes <= std::size_t{1} << 30U,
          "chunk_bytes: expected 1 to 2^30, found {}",
          chunk_bytes);
}

LineChunks TextFiles::chunks_of(std::size_t file) const {
  return {files_[file].open(), files_[file].name, chunk_bytes_, quoting_};
}

Reader::Source TextFiles::source() const {
  SourceOfRows source;
  for (auto const& file : files_) {
    source.add_file(file.name);
  }
  add_options(source);
  return source.source();
}

void TextFiles::open() {
  auto chunks = chunks_of(file_);
  auto first = next_with_text(chunks);
  begin_file(file_, first);
  began_[file_] = true;
  first_ = std::move(first);
  chunks_ = std::move(chunks);
}

std::optional<LineChunk> TextFiles::next_records() {
  while (chunks_ || file_ < files_.size()) {
    if (!chunks_) {
      open();
    }
    auto records = first_ ? std::exchange(first_, std::nullopt) : next_with_text(*chunks_);
    if (records) {
      return records;
    }
    chunks_.reset();
    ++file_;
  }
  return std::nullopt;
}

Reader::Task TextFiles::next_task() {
  auto records = next_records();
  return records ? task_of(file_, std::move(*records)) : Reader::Task();
}

std::optional<Reader::CountedTask> TextFiles::next_counted_task() {
  auto records = next_records();
  if (!records) {
    return std::nullopt;
  }
  auto const rows = rows_of(records->lines);
  return Reader::CountedTask{task_of(file_, std::move(*records)), rows};
}

std::int64_t TextFiles::rows_of(std::string_view records) const {
  // Most texts have no quotes, and lines are found more quickly than quoted records.
  auto const quoting = records.find('"') == std::string_view::npos ? std::nullopt : quoting_;
  std::int64_t rows = 0;
  while (!records.empty()) {
    rows += take_record(records, quoting).empty() ? 0 : 1;
  }
  return rows;
}

Reader::Position TextFiles::position() const {
  Reader::Position position{.file = static_cast<std::int64_t>(file_)};
  if (chunks_) {
    position.offset = first_ ? first_->offset : chunks_->offset();
    position.line = first_ ? first_->first_line : chunks_->line();
  }
  return position;
}

void TextFiles::seek(Reader::Position const& position) {
  require(position.file >= 0 && position.file <= static_cast<std::int64_t>(files_.size()) &&
              position.offset >= 0,
          "position: file {} at byte {}; there are {} files",
          position.file,
          position.offset,
          files_.size());
  chunks_.reset();
  first_.reset();
  file_ = static_cast<std::size_t>(position.file);
  if (position.offset == 0 || file_ == files_.size()) {
    return;
  }
  if (!began_[file_]) {
    open();
    chunks_.reset();
    first_.reset();
  }
  auto chunks = chunks_of(file_);
  chunks.skip_to(position.offset, position.line);
  chunks_ = std::move(chunks);
}

}  // namespace msstream::data::detail
