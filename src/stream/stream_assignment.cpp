// SPDX-License-Identifier: Apache-2.0
#include "base/read_file.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/base/detail/require.hpp>
#include <msstream/stream/stream_assignment.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <regex>
#include <shared_mutex>
#include <system_error>
#include <unordered_map>
#include <utility>

namespace msstream {

namespace detail {

struct AssignmentLine {
  std::int64_t number;
  std::string text;
  int group;
  std::vector<std::regex> expressions;
  bool matched = false;
};

struct TransparentHash {
  using is_transparent = void;
  [[nodiscard]] std::size_t operator()(std::string_view name) const noexcept {
    return std::hash<std::string_view>{}(name);
  }
};

}  // namespace detail

namespace {

using Line = detail::AssignmentLine;

constexpr auto kSyntax = std::regex::ECMAScript |
                         std::regex::nosubs
#ifdef __GLIBCXX__
                         // Selects the breadth-first matcher, whose time and stack do not grow with
                         // the number of ways to match
                         | std::regex_constants::__polynomial
#endif
    ;

std::string_view trim(std::string_view value) {
  constexpr auto blank = " \t";
  auto const begin = value.find_first_not_of(blank);
  if (begin == std::string_view::npos) {
    return {};
  }
  return value.substr(begin, value.find_last_not_of(blank) - begin + 1);
}

/// Returns the text in quotes, shortened and with unprintable characters replaced, for messages.
std::string shown(std::string_view value) {
  constexpr std::size_t most = 60;
  std::string out = "'";
  for (char const character : value.substr(0, most)) {
    bool const printable = static_cast<unsigned char>(character) >= 0x20 && character != 0x7F;
    out.push_back(printable ? character : '?');
  }
  return out + (value.size() > most ? "…'" : "'");
}

/// Removes the text before the first separator, and the separator, from the front of `rest`.
/// Returns the text without the separator.
std::string_view take(std::string_view& rest, char separator) {
  auto const end = std::min(rest.find(separator), rest.size());
  auto const part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}

/// Returns an upper bound of the regular expression's length with the repetitions in its braces
/// written out. Braces within brackets count too; a user can escape them with a backslash.
std::size_t written_out_bytes(std::string_view expression) {
  std::size_t bytes = expression.size();
  for (std::size_t i = 0; i < expression.size(); ++i) {
    if (expression[i] == '\\') {
      ++i;
    } else if (expression[i] == '{') {
      auto const* begin = expression.data() + i + 1;
      std::size_t count = 0;
      auto const result = std::from_chars(begin, expression.data() + expression.size(), count);
      bool const too_large = result.ec == std::errc::result_out_of_range ||
                             count > StreamAssignment::kLongestExpression;
      bytes *=
          too_large ? StreamAssignment::kLongestExpression + 1 : std::max<std::size_t>(count, 1);
      bytes = std::min(bytes, StreamAssignment::kLongestExpression + 1);
    }
  }
  return bytes;
}

/// Returns the name of a feature in the regular expression for which std::regex may take
/// exponential time; empty if there is none.
std::string_view refused_part(std::string_view expression) {
  for (std::size_t i = 0; i + 1 < expression.size(); ++i) {
    auto const pair = expression.substr(i, 2);
    if (pair[0] == '\\') {
      if (pair[1] >= '1' && pair[1] <= '9') {
        return "references to groups";
      }
      ++i;
    } else if (auto const opening = expression.substr(i, 3); opening == "(?=" || opening == "(?!") {
      return "look-ahead";
    }
  }
  return {};
}

std::regex parse_expression(std::string_view expression, std::string_view place) {
  require(!expression.empty(),
          "{}: expected an expression, found nothing before or after a comma or colon",
          place);
  require(written_out_bytes(expression) <= StreamAssignment::kLongestExpression,
          "{}: expected an expression of at most {} bytes, repetitions written out, found {}",
          place,
          StreamAssignment::kLongestExpression,
          shown(expression));
  auto const refused = refused_part(expression);
  require(refused.empty(),
          "{}: expected an expression without {}, found {}",
          place,
          refused,
          shown(expression));
  // The expression is copied into a string that ends in NUL, because libstdc++ reads one character
  // behind its end.
  std::string const terminated(expression);
  try {
    return {terminated.data(), terminated.size(), kSyntax};
  } catch (std::regex_error const& error) {
    throw std::invalid_argument(fmt::format(
        "{}: expected a regular expression, found {}: {}", place, shown(expression), error.what()));
  }
}

Line parse_line(std::string_view content, std::int64_t number, std::string_view place, int groups) {
  require(
      content.find('\0') == std::string_view::npos, "{}: expected text, found a NUL byte", place);
  std::string_view rest = content;
  require(rest.find(':') != std::string_view::npos,
          "{}: expected group:expression,expression, found no colon in {}",
          place,
          shown(content));
  auto const number_text = trim(take(rest, ':'));
  int group = -1;
  auto const* end = number_text.data() + number_text.size();
  auto const parsed = std::from_chars(number_text.data(), end, group);
  require(parsed.ec == std::errc{} && parsed.ptr == end && group >= 0 && group < groups,
          "{}: expected a group from 0 to {}, found {}",
          place,
          groups - 1,
          shown(number_text));
  Line line{number, std::string(content), group, {}};
  // The line has one more expression than commas: "1:a," has an empty second one, which
  // parse_expression() refuses.
  for (auto left = std::ranges::count(rest, ',') + 1; left > 0; --left) {
    line.expressions.push_back(parse_expression(trim(take(rest, ',')), place));
  }
  return line;
}

}  // namespace

struct StreamAssignment::State {
  std::string file_name;
  int groups = 1;
  std::shared_mutex mutex;  ///< guards the names, and the marks of the lines
  std::vector<detail::AssignmentLine> lines;
  std::unordered_map<std::string, std::optional<int>, detail::TransparentHash, std::equal_to<>>
      names;

  [[nodiscard]] detail::AssignmentLine* first_match(std::string_view operation) {
    for (auto& line : lines) {
      for (auto const& expression : line.expressions) {
        if (std::regex_match(operation.begin(), operation.end(), expression)) {
          return &line;
        }
      }
    }
    return nullptr;
  }
};

StreamAssignment::StreamAssignment(std::shared_ptr<State> state) noexcept
    : state_(std::move(state)) {}

StreamAssignment StreamAssignment::parse(std::string_view file_text,
                                         std::string const& file_name,
                                         int groups) {
  require(groups >= 1, "{}: expected a pool of at least 1 group, found {}", file_name, groups);
  auto state = std::make_shared<State>();
  state->file_name = file_name;
  state->groups = groups;
  for (std::int64_t number = 1; !file_text.empty(); ++number) {
    auto line = take(file_text, '\n');
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    line = trim(line);
    if (!line.empty() && !line.starts_with('#')) {
      state->lines.push_back(
          parse_line(line, number, fmt::format("{}:{}", file_name, number), groups));
    }
  }
  return StreamAssignment(std::move(state));
}

StreamAssignment StreamAssignment::from_file(std::filesystem::path const& path, int groups) {
  constexpr std::size_t most_bytes = std::size_t{1} << 26U;
  return parse(detail::read_file(path, most_bytes), path.string(), groups);
}

std::optional<StreamAssignment> StreamAssignment::from_environment(int groups) {
  constexpr char const* variable = "MSSTREAM_STREAM_ASSIGNMENT";
  auto const path = env::value_of(variable);
  if (path.empty()) {
    return std::nullopt;
  }
  try {
    return from_file(path, groups);
  } catch (std::invalid_argument const& error) {
    throw env::BadValue(fmt::format("{}: {}", variable, error.what()));
  }
}

std::optional<int> StreamAssignment::peek_group_of(std::string_view operation) const {
  {
    std::shared_lock const lock(state_->mutex);
    if (auto const known = state_->names.find(operation); known != state_->names.end()) {
      return known->second;
    }
  }
  Line const* const line = state_->first_match(operation);
  return line != nullptr ? std::optional(line->group) : std::nullopt;
}

int StreamAssignment::groups() const noexcept {
  return state_->groups;
}

std::optional<int> StreamAssignment::group_of(std::string_view operation) const {
  {
    std::shared_lock const lock(state_->mutex);
    if (auto const known = state_->names.find(operation); known != state_->names.end()) {
      return known->second;
    }
  }
  // Matching runs without the lock, because it is slow compared with a lookup, and the regular
  // expressions never change. Two threads that match the same name find the same line.
  Line* const line = state_->first_match(operation);
  auto const group = line != nullptr ? std::optional(line->group) : std::nullopt;
  std::lock_guard const lock(state_->mutex);
  if (line != nullptr) {
    line->matched = true;
  }
  if (state_->names.size() < kCachedNames) {
    state_->names.emplace(operation, group);
  }
  return group;
}

std::vector<std::string> StreamAssignment::unmatched_lines() const {
  std::shared_lock const lock(state_->mutex);
  std::vector<std::string> unmatched;
  for (auto const& line : state_->lines) {
    if (!line.matched) {
      unmatched.push_back(fmt::format("{}:{}: {}", state_->file_name, line.number, line.text));
    }
  }
  return unmatched;
}

bool StreamAssignment::was_asked() const {
  std::shared_lock const lock(state_->mutex);
  return !state_->names.empty();
}

}  // namespace msstream
