// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

/// Which stream group each operation goes to, by its name: the file that `TF_STREAM_FROM_FILE`
/// names in the multi-stream TensorFlow.
///
///     # group:expression,expression
///     1:user_tower/.*
///     2:attention/.*,tower_[01]/.*
///
/// A line gives one group its operations: those whose whole name one of the regular expressions
/// matches. The first line that matches, from the top of the file, wins; several lines may name one
/// group. The first colon ends the group, and every comma parts two expressions. Lines whose first
/// character is `#` and blank lines say nothing; spaces and tabs around a part do not count; line
/// ends may be LF or CRLF.
///
/// Expressions are ECMAScript's (std::regex), less what can take exponential time or an unbounded
/// stack: look-ahead and references to groups are refused, and so is an expression that is longer,
/// times the repetitions in its braces, than `kLongestExpression`. Matching a name takes time
/// proportional to its length.
///
/// A StreamPool that is given one asks it for the group of every operation of its device.
///
/// States: immutable but for a cache of the names asked for, and a mark on each line that matched.
/// Ownership: copies share both; the cache holds up to `kCachedNames` names, further ones are
/// matched each time. Ordering: a lock, shared by the lookups of names that are known, so all const
/// members may be called by several threads at once.
class StreamAssignment {
 public:
  static constexpr std::size_t kLongestExpression = 1024;
  static constexpr std::size_t kCachedNames = 65'536;

  /// Reads the text of such a file for a pool of `groups` groups; messages call it `file_name`.
  /// Throws std::invalid_argument that names the file, the line, what is wrong and what is
  /// accepted; and for `groups` below 1.
  [[nodiscard]] static StreamAssignment parse(std::string_view file_text,
                                              std::string const& file_name,
                                              int groups);

  /// Throws what parse() does, and std::invalid_argument for a file that cannot be read.
  [[nodiscard]] static StreamAssignment from_file(std::filesystem::path const& path, int groups);

  /// The file that MSSTREAM_STREAM_ASSIGNMENT names; nothing when it is not set. Throws what
  /// from_file() does, with the variable's name before it.
  [[nodiscard]] static std::optional<StreamAssignment> from_environment(int groups);

  /// The group of the operation of this name; nothing when no line matches.
  [[nodiscard]] std::optional<int> group_of(std::string_view operation) const;

  /// The same for those who only look, such as predictions: no line counts as matched, and nothing
  /// as asked. What nobody has asked for is matched each time.
  [[nodiscard]] std::optional<int> peek_group_of(std::string_view operation) const;

  /// How many groups the pool has that it was read for.
  [[nodiscard]] int groups() const noexcept;

  /// The lines, as `file:number: text`, that gave no operation its group so far: misspelt, out of
  /// date, or hidden by the lines above them. For a warning after the first step; a StreamPool says
  /// it when it goes.
  [[nodiscard]] std::vector<std::string> unmatched_lines() const;
  /// Whether it was asked for the group of any operation.
  [[nodiscard]] bool was_asked() const;

 private:
  struct State;
  explicit StreamAssignment(std::shared_ptr<State> state) noexcept;

  std::shared_ptr<State> state_;
};

}  // namespace msstream
