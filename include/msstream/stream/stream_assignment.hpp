// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// Assigns operations to stream groups by their names. The file format is that of the file named by
/// `TF_STREAM_FROM_FILE` in the multi-stream TensorFlow.
///
///     # group:expression,expression
///     1:user_tower/.*
///     2:attention/.*,tower_[01]/.*
///
/// A line assigns operations to one group: those whose whole name matches one of the line's regular
/// expressions. The first line of the file that matches wins; several lines may name one group. The
/// first colon ends the group, and every comma separates two expressions. Blank lines and lines
/// whose first character is `#` are ignored, as are spaces and tabs around each part. Line ends may
/// be LF or CRLF.
///
/// Expressions use the ECMAScript syntax of std::regex, without the features that can take
/// exponential time or an unbounded stack: look-ahead and back references are refused. An
/// expression is also refused if its length, multiplied by the repetitions in its braces, exceeds
/// `kLongestExpression`. Matching a name takes time proportional to its length.
///
/// A StreamPool with an assignment queries it for the group of every operation of its device.
///
/// States: immutable except for a cache of the names looked up, and a mark on each line that
/// matched. Ownership: copies share both. The cache holds up to `kCachedNames` names; further names
/// are matched each time. Memory ordering: lookups of cached names share a lock, so several threads
/// may call all const members at once.
class StreamAssignment {
 public:
  static constexpr std::size_t kLongestExpression = 1024;
  static constexpr std::size_t kCachedNames = 65'536;

  /// Parses the text of an assignment file for a pool of `groups` groups. Throws
  /// std::invalid_argument if the text is wrong, with a message that names `file_name`, the line,
  /// the problem and the accepted form, and also if `groups` is below 1.
  [[nodiscard]] static StreamAssignment parse(std::string_view file_text,
                                              std::string const& file_name,
                                              int groups);

  /// Reads and parses an assignment file. Throws as parse() does, and std::invalid_argument if the
  /// file cannot be read.
  [[nodiscard]] static StreamAssignment from_file(std::filesystem::path const& path, int groups);

  /// Reads the file that MSSTREAM_STREAM_ASSIGNMENT names; returns nothing if the variable is not
  /// set. Throws as from_file() does, with the variable's name at the start of the message.
  [[nodiscard]] static std::optional<StreamAssignment> from_environment(int groups);

  /// Returns the group of the operation with this name, or nothing if no line matches.
  [[nodiscard]] std::optional<int> group_of(std::string_view operation) const;

  /// Returns the number of the group of the operation with this name, or null if no line matches.
  /// For lookups that are not of real operations, such as predictions: marks no line as matched,
  /// and caches no name.
  [[nodiscard]] std::optional<int> peek_group_of(std::string_view operation) const;

  /// Returns the number of stream groups of the pool for which the assignment was read.
  [[nodiscard]] int groups() const noexcept;

  /// Returns the lines of the file, as `file:number: text`, that have assigned no operation so far,
  /// for example because they are misspelt, out of date, or hidden by lines above them. For a
  /// warning after the first step; a StreamPool reports them when it is destroyed.
  [[nodiscard]] std::vector<std::string> unmatched_lines() const;
  /// Returns whether group_of() has been called for any operation.
  [[nodiscard]] bool was_asked() const;

 private:
  struct State;
  explicit StreamAssignment(std::shared_ptr<State> state) noexcept;

  std::shared_ptr<State> state_;
};

}  // namespace msstream
