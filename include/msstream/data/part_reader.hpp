// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/reader.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace msstream::data {

namespace detail {
class ReaderUse;
}  // namespace detail

/// A part of the rows of a reader, chosen by a hash of each row's number, or of its value in a
/// column. Parts of one seed and key whose ranges do not overlap have no row in common:
///
///     PartReader training(open_rows(), {.end = 0.9, .key = "user"});
///     PartReader held_out(open_rows(), {.begin = 0.9, .key = "user"});
///
/// The part depends on nothing else: not on threads, chunks, ranks or the machine.
struct Part {
  double begin = 0;        ///< of the hashes in [0, 1) that belong to the part, at least 0
  double end = 1;          ///< their end, above `begin`, at most 1
  std::uint64_t seed = 1;  ///< of the division: parts of one seed do not overlap
  /// A column of integers or strings, of width 1: all rows with one raw value of it are in one
  /// part. Empty: each row for itself, by its number among all rows of the reader.
  std::string key = {};

  /// Returns whether the rows with that value of `key`, or the row with that number, belong to the
  /// part.
  [[nodiscard]] bool contains(std::int64_t value) const noexcept;
};

/// Gives the rows of another reader that belong to a part of them. Parts that are read at the same
/// time need a reader each. Threads parse the rows as they do those of the other reader; without a
/// key, only those of a reader that counts them by next_counted_task(), as the library's do, unless
/// they leave out bad rows.
class PartReader final : public Reader {
 public:
  /// Throws std::invalid_argument for a part outside its range, for a column that cannot be a key,
  /// if something else uses the reader, and for rows by number of a reader that gives a part by
  /// number.
  PartReader(std::shared_ptr<Reader> rows, Part part);
  /// Uses a reader that the caller owns, and that outlives this one.
  PartReader(Reader& rows, Part part);
  ~PartReader() override;

  [[nodiscard]] Schema const& schema() const override;
  bool next(Chunk& chunk) override;
  /// Returns the position of the other reader, with the number of its rows in front of it if the
  /// part is by number.
  [[nodiscard]] Position position() const override;
  void seek(Position const& position) override;
  [[nodiscard]] Task next_task() override;
  [[nodiscard]] std::optional<CountedTask> next_counted_task() override;
  [[nodiscard]] std::string file_name(std::int64_t file) const override;
  [[nodiscard]] Source source() const override;
  [[nodiscard]] BadRows bad_rows() const override;
  /// Returns the range, the seed and the key, and the part of the other reader if it has one.
  [[nodiscard]] std::string part() const override;

 private:
  /// Returns the number of the first of the next rows of the other reader, and a task that appends
  /// those of the part, if the part is by number; empty if there are no more rows.
  [[nodiscard]] std::optional<std::pair<std::int64_t, Task>> next_numbered_rows();

  std::shared_ptr<Reader> rows_;
  std::unique_ptr<detail::ReaderUse> use_;
  Part part_;
  std::optional<std::size_t> key_;  ///< number of the column
  std::int64_t row_ = 0;            ///< rows of the other reader so far, if there is no key
};

}  // namespace msstream::data
