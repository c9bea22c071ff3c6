// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/predict.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace msstream {

struct NamedGroup {
  std::string_view name;
  int group;
};

/// What the head of an assignment file says.
struct AssignmentHead {
  StepLaunch launch;
  std::size_t operations;
  int groups;
  double predicted_ns;
  double one_group_ns;
  double recorded_ns;
};

/// A regular expression that matches the name and nothing else, for a line of StreamAssignment.
/// Throws std::invalid_argument for a name that makes it too long.
[[nodiscard]] std::string expression_for(std::string_view name);

/// A file for StreamAssignment that gives each name its group.
[[nodiscard]] std::string assignment_text(std::vector<NamedGroup> const& names,
                                          AssignmentHead const& head);

}  // namespace msstream
