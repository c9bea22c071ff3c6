// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of files that assign operations to stream groups. A file must either be refused
// by an error that contains the line, or give the same groups regardless of line ends, comments and
// blank lines.
#include "fuzz.hpp"

#include <msstream/stream/stream_assignment.hpp>

#include <fmt/core.h>

#include <array>
#include <stdexcept>
#include <variant>

namespace {

using namespace msstream;
using fuzz::expect;

constexpr int kGroups = 5;
constexpr std::array<std::string_view, 10> kOperations{"",
                                                       "a",
                                                       "ab",
                                                       "aaaaaaaaaaaaaaaaaaaaaaaa",
                                                       "attention/query/score",
                                                       "tower_0/dense",
                                                       "tower_17/dense",
                                                       "user:item",
                                                       "x\ny",
                                                       "\xc3\xa9"};

using Groups = std::array<std::optional<int>, kOperations.size()>;

/// Returns the groups that the file assigns to all operations, or the error message if the file is
/// refused.
std::variant<Groups, std::string> groups_of(std::string_view file) {
  try {
    auto const assignment = StreamAssignment::parse(file, "f", kGroups);
    auto const lines = assignment.unmatched_lines();
    Groups groups;
    bool matched = false;
    for (std::size_t i = 0; i < kOperations.size(); ++i) {
      groups[i] = assignment.group_of(kOperations[i]);
      matched = matched || groups[i];
      expect(!groups[i] || (*groups[i] >= 0 && *groups[i] < kGroups),
             "group {}",
             groups[i].value_or(-1));
      expect(assignment.group_of(kOperations[i]) == groups[i], "another answer the second time");
    }
    expect((assignment.unmatched_lines().size() < lines.size()) == matched,
           "the lines that matched nothing are not those without an operation");
    return groups;
  } catch (std::invalid_argument const& error) {
    expect(std::string_view(error.what()).starts_with("f:"), "no place in: {}", error.what());
    return std::string(error.what());
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(std::uint8_t const* bytes, std::size_t count) {
  auto const file = fuzz::as_text(bytes, count);
  auto const outcome = groups_of(file);

  if (file.find('\r') == std::string_view::npos) {
    expect(groups_of(fuzz::replaced(file, "\n", "\r\n")) == outcome,
           "CRLF is read as something else");
  }
  auto const* groups = std::get_if<Groups>(&outcome);
  auto const below_comment = groups_of(fmt::format("# a comment: 9\n\n{}", file));
  expect((below_comment == outcome) == (groups != nullptr),
         "a comment and a blank line change the groups, or not the line number");
  if (groups == nullptr) {
    return 0;
  }
  // [^] matches any character, including line ends. A last line with it assigns a group to all
  // operations that no other line matches; a first line with it assigns one to all operations.
  Groups completed;
  Groups all;
  for (std::size_t i = 0; i < kOperations.size(); ++i) {
    completed[i] = (*groups)[i].value_or(3);
    all[i] = 4;
  }
  expect(groups_of(fmt::format("{}\n3:[^]*", file)) == std::variant<Groups, std::string>(completed),
         "the last line does not get what is left");
  expect(groups_of(fmt::format("4:[^]*\n{}", file)) == std::variant<Groups, std::string>(all),
         "the first line does not get all");
  return 0;
}
