// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/chunk.hpp>
#include <msstream/data/schema.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace msstream::data {

namespace detail {
class ReaderUse;
class TransformState;
}  // namespace detail

class PartReader;

/// Rows that a reader has left out because they cannot be read.
struct BadRows {
  std::int64_t count = 0;          ///< a row whose quotes span several lines counts as so many
  std::vector<std::string> first;  ///< the errors of the first ones, at most 10
};

/// A source of rows in order, which users implement for data of their own. The library implements
/// it for files: CsvReader, TsvReader, LibSvmReader, BinaryReader and ParquetReader.
///
/// A Loader calls the functions of a reader from its threads, but never two of them at the same
/// time; only the tasks of next_task() run beside each other and beside the reader. A reader gives
/// each row once, so that it has one user at a time: a Loader, a PartReader or Transforms::fit(),
/// which refuse one that another of them is using.
class Reader {
 public:
  /// A place in front of a row. What the numbers mean is known to the reader alone, except that
  /// Position() is the beginning. A small reader needs only `offset`, for example a row's number.
  struct Position {
    std::int64_t file = 0;  ///< number of the file, from 0, if there are several
    std::int64_t offset = 0;
    std::int64_t line = 0;  ///< number of the line, for messages
    std::int64_t row = 0;   ///< the rows in front of the place, if a PartReader counts them
    friend bool operator==(Position const&, Position const&) = default;
  };
  /// A function that appends rows to a chunk without rows.
  using Task = std::function<void(Chunk&)>;

  Reader() = default;
  Reader(Reader const&) = delete;
  Reader& operator=(Reader const&) = delete;
  virtual ~Reader() = default;

  /// Returns the columns of the rows, always the same ones.
  [[nodiscard]] virtual Schema const& schema() const = 0;

  /// Appends the next rows to `chunk`, which has no rows, and returns true; false if there are no
  /// more rows. A chunk of some thousand rows costs the least per row. An exception ends the
  /// reading, and is passed on to the caller of the loader: a std::runtime_error as a DataError
  /// that names the file and the place in front of the rows, and has it as nested exception, unless
  /// it is a DataError itself; any other one as it is.
  virtual bool next(Chunk& chunk) = 0;

  /// Returns the place in front of the rows that next() or next_task() returns next.
  [[nodiscard]] virtual Position position() const = 0;

  /// Continues at a place that position() has returned, in this process or an earlier one.
  virtual void seek(Position const& position) = 0;

  /// Returns a task that appends the next rows to a chunk, or an empty function if there are no
  /// more rows. Tasks may run in any order, on any threads, at the same time, and while the reader
  /// reads on; they do not outlive the reader. A reader that spends its time on parsing overrides
  /// the function, to let threads share that work: it reads the bytes now and parses them in the
  /// task. By default, calls next() now, and the task passes its rows on.
  [[nodiscard]] virtual Task next_task();

  /// A task, and the number of rows that it appends.
  struct CountedTask {
    Task task;          ///< appends the rows
    std::int64_t rows;  ///< that the task appends
  };
  /// Like next_task(), for a PartReader without a key, which numbers the rows. A reader that can
  /// count rows before they are parsed overrides the function, so that threads share the parsing.
  /// By default, parses the rows now, and the task passes them on.
  [[nodiscard]] virtual std::optional<CountedTask> next_counted_task();

  /// Returns the name of the file with number Position::file, for messages. Called by any thread,
  /// also while the reader reads.
  [[nodiscard]] virtual std::string file_name(std::int64_t file) const;

  /// Returns the part of the rows that the reader gives, or "all". A saved position names the part,
  /// and continues no other. A reader that passes on the rows of another one returns its part.
  [[nodiscard]] virtual std::string part() const;

  /// Tells where the rows come from. A saved position has it, and continues no other rows.
  struct Source {
    std::int64_t files = 0;  ///< their number; 0 if the rows are of no file
    std::int64_t bytes = 0;  ///< of all files as they are stored
    std::uint64_t hash = 0;  ///< of what decides which rows there are, and in which order
    friend bool operator==(Source const&, Source const&) = default;
  };
  /// Returns the source of the rows. The readers of files count the files' names without folders,
  /// their order and their sizes, and options such as buckets. By default, Source(), which fits any
  /// position. A reader that passes on the rows of another one returns its source.
  [[nodiscard]] virtual Source source() const;

  /// Returns the bad rows among those that have been read, each once, however often its file is
  /// read: see TextOptions::max_bad_rows. By default, there are none. A reader that passes on the
  /// rows of another one returns its bad rows. Thread-safe.
  [[nodiscard]] virtual BadRows bad_rows() const;

 private:
  friend PartReader;
  friend detail::ReaderUse;
  friend detail::TransformState;
  std::atomic<char const*> user_ = nullptr;  ///< the name of what uses the reader
  bool used_ = false;                        ///< whether something has used the reader
  std::vector<std::size_t> words_;           ///< columns whose strings a fit needs, for next_task()
};

}  // namespace msstream::data
