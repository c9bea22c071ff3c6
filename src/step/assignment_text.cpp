// SPDX-License-Identifier: Apache-2.0
#include "assignment_text.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/stream/stream_assignment.hpp>

#include <fmt/core.h>

#include <cmath>
#include <cstdint>
#include <map>

namespace msstream {

namespace {

constexpr std::size_t kLineBytes = 100;

bool is_plain(unsigned char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '_' || letter == '/' || letter == '-' ||
         letter >= 0x80;
}

std::string rounded_us(double ns) {
  return fmt::format("{} us", static_cast<double>(std::llround(ns / 100)) / 10);
}

}  // namespace

std::string expression_for(std::string_view name) {
  constexpr char const* hex = "0123456789abcdef";
  std::string out;
  for (char const letter : name) {
    auto const code = static_cast<unsigned char>(letter);
    if (is_plain(code)) {
      out += letter;
    } else if (code <= 0x20 || code == 0x7F || letter == ',') {
      // Escapes characters that cannot be in a line of the file, or that would end the expression.
      out += fmt::format("\\x{}{}", hex[code >> 4U], hex[code & 15U]);
    } else {
      out += fmt::format("\\{}", letter);
    }
  }
  require(out.size() <= StreamAssignment::kLongestExpression,
          "an operation's name of {} bytes cannot be written as an expression of at most {}: '{}'",
          name.size(),
          StreamAssignment::kLongestExpression,
          name.substr(0, 60));
  return out;
}

std::string assignment_text(std::vector<NamedGroup> const& names, AssignmentHead const& head) {
  auto out = fmt::format(
      "# Groups for a step of {} operations and a pool of {}, by msstream::auto_assignment().\n# "
      "Predicted, {}: {}; on one group {}; as recorded {}.\n",
      head.operations,
      head.groups,
      head.launch == StepModel::Launch::graph ? "replayed as a graph" : "issued by one thread",
      rounded_us(head.predicted_ns),
      rounded_us(head.one_group_ns),
      rounded_us(head.recorded_ns));
  if (names.empty()) {
    return out + "# No better groups than the recorded ones were found.\n";
  }
  std::map<int, std::vector<std::string>> by_group;
  for (auto const& [name, group] : names) {
    by_group[group].push_back(expression_for(name));
  }
  for (auto const& [group, expressions] : by_group) {
    std::string line;
    for (auto const& expression : expressions) {
      if (!line.empty() && line.size() + expression.size() >= kLineBytes) {
        out += line + "\n";
        line.clear();
      }
      line += line.empty() ? fmt::format("{}:{}", group, expression) : "," + expression;
    }
    out += line + "\n";
  }
  return out;
}

}  // namespace msstream
