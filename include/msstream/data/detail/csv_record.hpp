// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::data::detail {

/// The rules of quoting (RFC 4180): a value that begins with `"` extends to the next `"` that is
/// not doubled, across separators and line ends.
struct Quoting {
  char separator;
  bool padded;  ///< ignores spaces around a value, also before its quote
};

/// Finds the ends of records, which are the line ends outside quotes. Takes the bytes of a file in
/// pieces.
class RecordScanner {
 public:
  /// Starts before the first record. Without quoting, every line end is the end of a record.
  explicit RecordScanner(std::optional<Quoting> quoting = std::nullopt) : quoting_(quoting) {}

  /// Returns the position after the last record end in `bytes`, which follow those of earlier
  /// calls; 0 if there is none.
  [[nodiscard]] std::size_t last_end(std::string_view bytes);
  /// Returns the position after the first record end, or the number of bytes if there is none.
  /// `bytes` must start with the first bytes of a record.
  [[nodiscard]] std::size_t first_end(std::string_view bytes);
  [[nodiscard]] bool is_inside_quotes() const noexcept { return state_ == State::quoted; }

 private:
  enum class State : std::uint8_t { at_value, in_value, quoted, behind_quote };
  /// Takes the next byte, and returns whether a record ends with it.
  bool step(char byte);

  std::optional<Quoting> quoting_;
  State state_ = State::at_value;
};

/// A value of a CSV record without its quotes, and the number of line ends before it in the record.
struct RecordValue {
  std::string text;
  std::int64_t line = 0;
};
/// The values of a record, which has no line end. `bad` is the index, from 0, of the first value
/// whose closing quote is missing or followed by other text.
struct RecordValues {
  std::vector<RecordValue> values;
  std::optional<std::size_t> bad;
};
[[nodiscard]] RecordValues split_record(std::string_view record, Quoting quoting);

}  // namespace msstream::data::detail
