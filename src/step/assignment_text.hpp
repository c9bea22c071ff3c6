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

/// The facts about an automatic assignment that the comment at the beginning of its file states.
struct AssignmentHead {
  StepModel::Launch launch;
  std::size_t operations;
  int groups;
  double predicted_ns;
  double one_group_ns;
  double recorded_ns;
};

/// Returns a regular expression that matches exactly this operation name, for a line of a
/// StreamAssignment file. Throws std::invalid_argument if the expression would be too long.
[[nodiscard]] std::string expression_for(std::string_view name);

/// Returns the text of a StreamAssignment file that assigns each operation name to its group.
[[nodiscard]] std::string assignment_text(std::vector<NamedGroup> const& names,
                                          AssignmentHead const& head);

}  // namespace msstream
