// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/text/remainder.hpp"

#include <msstream/data/detail/csv_record.hpp>
#include <msstream/data/detail/line_chunks.hpp>
#include <msstream/data/text_reader.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::data::detail {

/// The rules by which text is divided into fields.
struct TextRules {
  char separator;
  bool quotes;
  bool trim_spaces;

  [[nodiscard]] std::optional<Quoting> quoting() const {
    return quotes ? std::optional(Quoting{separator, trim_spaces}) : std::nullopt;
  }
};

/// The words that stand for an empty field.
class MissingWords {
 public:
  explicit MissingWords(std::vector<std::string> words);

  /// Returns the text, or an empty part of it if it is one of the words.
  [[nodiscard]] std::string_view without(std::string_view text) const noexcept {
    return is_word(text) ? text.substr(0, 0) : text;
  }
  [[nodiscard]] bool is_empty() const noexcept { return words_.empty(); }
  [[nodiscard]] std::vector<std::string> const& words() const noexcept { return words_; }

 private:
  /// Returns the bit of a length in lengths_, which long texts share.
  static std::uint64_t bit_of(std::size_t length) noexcept {
    return std::uint64_t{1} << std::min<std::size_t>(length, 63);
  }
  [[nodiscard]] bool is_word(std::string_view text) const noexcept {
    return !text.empty() &&
           (lengths_[static_cast<unsigned char>(text[0])] & bit_of(text.size())) != 0 &&
           std::ranges::find(words_, text) != words_.end();
  }

  std::vector<std::string> words_;
  std::array<std::uint64_t, 256> lengths_{};  ///< of the words that begin with a byte
};

/// The use of a field: which column it belongs to, and which of the column's values in a row it is.
struct FieldUse {
  std::size_t field;
  std::size_t column;
  std::int64_t slot;
  TextColumn const* how;
  MissingWords const* missing;
  Remainder row_of;  ///< of a key, by the column's buckets, if there are some
};

/// The conversions of the fields of one file. Shared by the tasks that parse the file.
struct TextPlan {
  std::string file;  ///< its name
  TextRules rules;
  std::shared_ptr<std::vector<TextColumn> const> columns;
  std::shared_ptr<MissingWords const> missing;
  std::vector<std::string> names;  ///< of all fields
  std::vector<FieldUse> uses;      ///< by field
};

/// Returns the schema of the columns. Throws std::invalid_argument for columns that cannot be read.
[[nodiscard]] Schema schema_of(TextOptions const& options);

/// Returns the plan for a file whose fields have the names, which are from the file's line number
/// `line`; 0 if the user gave them. Throws DataError, or std::invalid_argument if the user gave the
/// names, if the name of a field that a column needs is missing or occurs twice.
[[nodiscard]] std::shared_ptr<TextPlan const> plan_of(
    std::string file,
    TextRules rules,
    std::shared_ptr<std::vector<TextColumn> const> columns,
    std::shared_ptr<MissingWords const> missing,
    std::vector<std::string> names,
    std::int64_t line);

/// Returns the values of a record without quotes around them.
[[nodiscard]] std::vector<std::string> fields_of(std::string_view record, TextRules const& rules);

/// Appends the rows of `text` to the columns of `chunk`. Throws DataError for the first record that
/// is not a row. Thread-safe.
void parse_rows(TextPlan const& plan, LineChunk const& text, Chunk& chunk);

}  // namespace msstream::data::detail
