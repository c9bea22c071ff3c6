// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/auto_assignment.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

struct NamedGroup {
  std::string_view name;
  int group;
};

/// The content of the comment at the head of an assignment file.
struct AssignmentHead {
  StepModel::Launch launch;
  std::size_t operations;
  int groups;
  double predicted_ns;
  double one_group_ns;
  double recorded_ns;
};

/// Returns a regular expression that matches exactly the name, for a line of a StreamAssignment.
/// Throws std::invalid_argument if the expression would be too long.
[[nodiscard]] std::string expression_for(std::string_view name);

/// Returns the text of a StreamAssignment that gives each name its group.
[[nodiscard]] std::string assignment_text(std::vector<NamedGroup> const& names,
                                          AssignmentHead const& head);

}  // namespace msstream
