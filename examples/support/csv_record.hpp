// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::support {

/// How values are quoted (RFC 4180): a value that begins with `"` goes on to the next `"` that is
/// not doubled, over separators and line ends.
struct Quoting {
  char separator;
  bool padded;  ///< spaces around a value, and so before its quote, do not count
};

/// Finds where records end: at line ends outside quotes. Takes the bytes of a file in pieces.
class RecordScanner {
 public:
  /// Without quoting every line end is one.
  explicit RecordScanner(std::optional<Quoting> quoting = std::nullopt) : quoting_(quoting) {}

  /// The position behind the last record end in `bytes`, which follow those of earlier calls; 0
  /// when there is none.
  [[nodiscard]] std::size_t last_end(std::string_view bytes);
  /// The position behind the first record end, or the number of bytes. For the first bytes of a
  /// record alone.
  [[nodiscard]] std::size_t first_end(std::string_view bytes);
  [[nodiscard]] bool is_inside_quotes() const noexcept { return state_ == State::quoted; }

 private:
  enum class State : std::uint8_t { at_value, in_value, quoted, behind_quote };
  /// Whether a record ends with this byte.
  bool step(char byte);

  std::optional<Quoting> quoting_;
  State state_ = State::at_value;
};

/// A value without its quotes, and how many line ends of its record are before it.
struct RecordValue {
  std::string text;
  std::int64_t line = 0;
};
/// The values of a record without its line end. `bad` is the first value whose closing quote is
/// missing or followed by something else, counted from 0.
struct RecordValues {
  std::vector<RecordValue> values;
  std::optional<std::size_t> bad;
};
[[nodiscard]] RecordValues split_record(std::string_view record, Quoting quoting);

}  // namespace msstream::support
