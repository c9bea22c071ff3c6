// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/byte_source.hpp>
#include <msstream/data/reader.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::data {

/// A column that is read from the fields of a text file.
struct TextColumn {
  /// A conversion of a field of the user's own; null if the field cannot be converted.
  using ToFloat = std::function<std::optional<float>(std::string_view)>;
  /// A conversion of a field to an integer or a key; null if the field cannot be converted.
  using ToInt = std::function<std::optional<std::int64_t>(std::string_view)>;

  std::string name;                       ///< of the column in the schema
  ColumnType type = ColumnType::float32;  ///< to which the field is converted
  /// The names of the fields whose values make the column, of which each is one of its values in a
  /// row. Empty: the field `name`.
  std::vector<std::string> fields = {};
  /// The value of an empty field of type float32 or int64, which the type has. Null: an empty field
  /// is an error, or a number that is missing if a transform is fill_missing().
  std::optional<double> if_empty = {};
  /// If it is not 0, the field holds any number of values, with this character between them, and
  /// the column is jagged. An empty field has none.
  char value_separator = '\0';
  /// If it is not 0, each value of type hashed is reduced to its row in a table of so many rows, by
  /// bucket_of(). Otherwise it is a whole 64-bit key.
  std::int64_t buckets = 0;
  /// Replaces the conversion to float32. Called by several threads. What it throws, except
  /// std::bad_alloc, becomes the reason of the DataError for the field.
  ToFloat to_float = {};
  ToInt to_int = {};                       ///< replaces the conversion to int64 or hashed, likewise
  std::vector<Transform> transforms = {};  ///< of the column: see Column
  std::string aligned_with = {};           ///< likewise
  std::string expected = {};  ///< what `to_float` or `to_int` accepts, for messages: "a number"
};

/// The fields of text files, and the columns that are read from them.
struct TextOptions {
  std::vector<TextColumn> columns;  ///< in the order of the schema
  /// True if the first line of each file has the names of its fields. Then each file may have its
  /// fields in an order of its own.
  bool header = true;
  /// The names of the fields of files without a header. If files have one, it must be these names.
  std::vector<std::string> names = {};
  /// The character between fields, such as ';' or '|'. 0: a comma in a CsvReader, a tab in a
  /// TsvReader. Neither a quote, a line end nor, with `trim_spaces`, a space.
  char separator = '\0';
  /// The words that stand for a missing value: a field, or a value of a jagged column, that is one
  /// of them counts as empty, also in quotes. An empty one is always missing. See pandas_missing().
  std::vector<std::string> missing = {};
  bool trim_spaces = false;  ///< ignores spaces around a value, also before its quote
  /// The rows of all files together that may be left out because they cannot be read; the row after
  /// them is an error, and 0 makes each one an error. A row whose quotes span several lines counts
  /// as so many rows, which a stray quote may have joined. Reader::bad_rows() returns their number
  /// and the first errors. Each reader counts from 0, also one that continues at a saved position.
  /// Errors that are not of one row, such as those of the header, of NUL bytes and of damaged gzip
  /// streams, and those of transforms, are always errors.
  std::int64_t max_bad_rows = 0;
  /// The bytes that a task parses, at least 1. A line is never divided.
  std::size_t chunk_bytes = std::size_t{1} << 18U;
};

/// A text file: its name for messages, and a function that opens it, each time from its start.
struct TextFile {
  std::string name;                                   ///< for messages, such as its path
  std::function<std::unique_ptr<ByteSource>()> open;  ///< opens it at its start

  /// Opens a file by open_bytes().
  TextFile(std::filesystem::path path);  // NOLINT(google-explicit-constructor): a path is a file
  TextFile(std::string path) : TextFile(std::filesystem::path(path)) {}  // NOLINT
  TextFile(char const* path) : TextFile(std::filesystem::path(path)) {}  // NOLINT
  TextFile(std::string shown_name, std::function<std::unique_ptr<ByteSource>()> opens)
      : name(std::move(shown_name)), open(std::move(opens)) {}
};

namespace detail {

class TextRows;

/// Selects the rules of CSV or TSV files.
enum class TextKind : std::uint8_t { csv, tsv };

}  // namespace detail

/// Reads rows from lines of text, whose fields are separated by a character. The implementation of
/// CsvReader and TsvReader.
///
/// Files may be gzip-compressed: the contents decide, not the name. Line ends may be LF or CRLF,
/// the last one may be missing, blank lines do not count as rows, and a byte order mark (UTF-8) is
/// skipped. A gzip file may have several members, and zeros after the last one.
///
/// All other unexpected content is a DataError, `file:line: column N (name): expected …, found
/// '…'`: a missing or unreadable file, a folder, a header without the name of a field that is read,
/// too few or too many fields, a bad or infinite number, a quote that is not closed, a line of more
/// than 16 MiB, a NUL byte, a damaged or truncated gzip stream. All errors are those of the first
/// row that has one, whatever `chunk_bytes`. After an error, seek() makes the reader usable again.
class TextReader : public Reader {
 public:
  ~TextReader() override;

  [[nodiscard]] Schema const& schema() const override;
  bool next(Chunk& chunk) override;
  [[nodiscard]] Position position() const override;
  /// Continues at the position. In a gzip file, everything before it is inflated again.
  void seek(Position const& position) override;
  [[nodiscard]] Task next_task() override;
  [[nodiscard]] std::optional<CountedTask> next_counted_task() override;
  [[nodiscard]] std::string file_name(std::int64_t file) const override;
  [[nodiscard]] Source source() const override;
  [[nodiscard]] BadRows bad_rows() const override;

 protected:
  TextReader(detail::TextKind kind, std::vector<TextFile> files, TextOptions options);

 private:
  std::unique_ptr<detail::TextRows> rows_;
};

/// Reads files whose fields are separated by commas, or by TextOptions::separator. Fields may be
/// quoted as in RFC 4180: separators and line ends inside quotes are part of the value, and two
/// quotes stand for one.
class CsvReader final : public TextReader {
 public:
  /// Opens the first file, and reads its header. Throws DataError, and std::invalid_argument for
  /// options that cannot be satisfied.
  CsvReader(std::vector<TextFile> files, TextOptions options)
      : TextReader(detail::TextKind::csv, std::move(files), std::move(options)) {}
  CsvReader(TextFile file, TextOptions options)
      : CsvReader(std::vector{std::move(file)}, std::move(options)) {}
};

/// Reads files whose fields are separated by tabs, or by TextOptions::separator. Quotes are text.
class TsvReader final : public TextReader {
 public:
  /// Opens the first file, and reads its header. Throws DataError, and std::invalid_argument for
  /// options that cannot be satisfied.
  TsvReader(std::vector<TextFile> files, TextOptions options)
      : TextReader(detail::TextKind::tsv, std::move(files), std::move(options)) {}
  TsvReader(TextFile file, TextOptions options)
      : TsvReader(std::vector{std::move(file)}, std::move(options)) {}
};

/// Returns the words that pandas.read_csv() takes for missing values, as TextOptions::missing: NA,
/// N/A, n/a, NaN, nan, NULL, null, None, `<NA>`, `#N/A` and their like. The dash, ? and `\N` are
/// not among them.
[[nodiscard]] std::vector<std::string> pandas_missing();

/// Returns the columns of a schema with their transforms, each read from the field of its name.
/// Throws std::invalid_argument for a column that has not one value in each row.
[[nodiscard]] std::vector<TextColumn> text_columns(Schema const& schema);

/// Returns the names prefix + first … prefix + last, such as I1, I2 … I13.
[[nodiscard]] std::vector<std::string> numbered_names(std::string_view prefix, int first, int last);

}  // namespace msstream::data
