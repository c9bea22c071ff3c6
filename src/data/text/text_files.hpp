// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/source_of_rows.hpp"
#include "data/text/parse_records.hpp"

#include <msstream/data/detail/line_chunks.hpp>
#include <msstream/data/text_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::data::detail {

/// A list of text files, read in chunks of whole records. The state is a file that is open, and the
/// chunk of it that begins behind the header, or that no file is open and the next one is number
/// file_.
class TextFiles {
 public:
  /// Leaves out up to `max_bad_rows` rows that cannot be read.
  TextFiles(std::vector<TextFile> files,
            std::size_t chunk_bytes,
            std::int64_t max_bad_rows,
            std::optional<Quoting> quoting);
  TextFiles(TextFiles const&) = delete;
  TextFiles& operator=(TextFiles const&) = delete;
  virtual ~TextFiles() = default;

  [[nodiscard]] Reader::Task next_task();
  /// Like next_task(), with the number of rows, those that are left out among them.
  [[nodiscard]] std::optional<Reader::CountedTask> next_counted_task();
  [[nodiscard]] bool may_leave_out_rows() const noexcept { return bad_rows_->accepts_rows(); }
  [[nodiscard]] Reader::Position position() const;
  void seek(Reader::Position const& position);
  /// Returns the name of the file for messages.
  [[nodiscard]] std::string const& name_of(std::size_t file) const { return files_.at(file).name; }
  [[nodiscard]] BadRows bad_rows() const { return bad_rows_->rows(); }
  /// Returns the source of the rows: the files, and what add_options() adds.
  [[nodiscard]] Reader::Source source() const;

 protected:
  /// Prepares the parsing of a file that is about to be read, and removes its header from the chunk
  /// `first`, its first one with text; there may be none.
  virtual void begin_file(std::size_t file, std::optional<LineChunk>& first) = 0;
  /// Returns the task that parses records of a file.
  [[nodiscard]] virtual Reader::Task task_of(std::size_t file, LineChunk records) = 0;
  /// Adds the options that decide what the rows of the files are.
  virtual void add_options(SourceOfRows& source) const = 0;
  /// Returns the number of rows in records.
  [[nodiscard]] virtual std::int64_t rows_of(std::string_view records) const;
  /// Returns what the parsing of records of a file needs to know.
  [[nodiscard]] RecordsOf records_of(std::size_t file) const {
    return {static_cast<std::int64_t>(file), name_of(file), quoting_, bad_rows_};
  }
  /// Opens the next file. A constructor calls it, to report early what is wrong.
  void open();

 private:
  [[nodiscard]] LineChunks chunks_of(std::size_t file) const;
  /// Returns the next records, which are those of the file number file_; empty at the end.
  [[nodiscard]] std::optional<LineChunk> next_records();

  std::vector<TextFile> files_;
  std::size_t chunk_bytes_;
  std::shared_ptr<BadRowLog> bad_rows_;
  std::optional<Quoting> quoting_;
  std::vector<bool> began_;  ///< whether begin_file() was called for each file
  std::size_t file_ = 0;
  std::optional<LineChunks> chunks_;
  std::optional<LineChunk> first_;
};

}  // namespace msstream::data::detail
