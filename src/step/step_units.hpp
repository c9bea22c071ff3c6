// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/step/auto_assignment.hpp>
#include <msstream/step/step_trace.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream {

/// A partition of a step's operations into units; all operations of a unit run on the same stream
/// group. A unit has the operations of one name, or of one path of name scopes. Units are numbered
/// in the order of their first operations.
struct StepUnits {
  static constexpr std::size_t kByName = static_cast<std::size_t>(-1);

  /// Creates one unit for each path of the `depth` outermost name scopes. Operations without a
  /// scope form one unit, the trunk.
  StepUnits(StepTrace const& trace, std::size_t depth) {
    std::map<std::string_view, std::size_t> numbers;
    for (std::size_t i = 0; i < trace.operations().size(); ++i) {
      auto const& operation = trace.operations()[i];
      auto const key =
          depth == kByName ? std::string_view(operation.name) : scopes_of(operation.name, depth);
      auto const [found, is_new] = numbers.try_emplace(key, operations.size());
      if (is_new) {
        operations.emplace_back();
        busy_ns.push_back(0);
        is_trunk.push_back(key.empty());
      }
      of.push_back(found->second);
      operations[found->second].push_back(i);
      busy_ns[found->second] += operation.duration_ns();
    }
  }
  [[nodiscard]] std::size_t count() const noexcept { return operations.size(); }
  /// Returns the stream group of each operation, given the group of each unit.
  [[nodiscard]] StepGroups spread(std::vector<int> const& groups) const {
    StepGroups spread;
    for (auto const unit : of) {
      spread.push_back(groups[unit]);
    }
    return spread;
  }

  std::vector<std::size_t> of;  ///< the unit of each operation
  std::vector<std::vector<std::size_t>> operations;
  std::vector<double> busy_ns;
  std::vector<bool> is_trunk;

 private:
  /// Returns the `depth` outermost name scopes of an operation's name. A gradient operation has the
  /// scopes of its forward operation.
  static std::string_view scopes_of(std::string_view name, std::size_t depth) {
    constexpr std::string_view kGradients = "gradients/";
    if (name.starts_with(kGradients)) {
      name.remove_prefix(kGradients.size());
    }
    std::size_t end = 0;
    for (; depth != 0; --depth) {
      auto const next = name.find('/', end == 0 ? 0 : end + 1);
      if (next == std::string_view::npos) {
        break;
      }
      end = next;
    }
    return name.substr(0, end);
  }
};

/// Returns all partitions of the step into units: by scopes of increasing depth, and finally by
/// operation name.
inline std::vector<StepUnits> cuts_of(StepTrace const& trace) {
  std::ptrdiff_t most_scopes = 0;
  for (auto const& operation : trace.operations()) {
    auto const& name = operation.name;
    most_scopes = std::max(most_scopes, std::count(name.begin(), name.end(), '/'));
  }
  std::vector<StepUnits> cuts;
  for (std::size_t depth = 1; depth <= static_cast<std::size_t>(most_scopes); ++depth) {
    StepUnits units(trace, depth);
    if (cuts.empty() || units.count() != cuts.back().count()) {
      cuts.push_back(std::move(units));
    }
  }
  cuts.emplace_back(trace, StepUnits::kByName);
  return cuts;
}

}  // namespace msstream
