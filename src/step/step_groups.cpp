// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/step/auto_assignment.hpp>

#include <map>
#include <string>
#include <tuple>

namespace msstream {

StepGroups recorded_groups(StepTrace const& trace) {
  StepGroups groups;
  for (std::size_t i = 0; i < trace.operations().size(); ++i) {
    groups.push_back(trace.group_of(i));
  }
  return groups;
}

StepGroups groups_by(StepTrace const& trace, StreamAssignment const& assignment) {
  auto groups = recorded_groups(trace);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i] = assignment.peek_group_of(trace.operations()[i].name).value_or(groups[i]);
  }
  return groups;
}

std::vector<std::size_t> streams_by(StepTrace const& trace,
                                    StepGroups const& groups,
                                    bool merge_streams) {
  require(groups.size() == trace.operations().size(),
          "groups for {} operations; expected one for each of the step's {}",
          groups.size(),
          trace.operations().size());
  // A communicator has a stream of its own, whatever the groups of the other operations.
  std::map<std::tuple<std::string, int, StreamKind>, std::size_t> numbers;
  std::vector<std::size_t> streams;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    require(groups[i] >= -1,
            "operation {}: expected a group, or -1 for the default group, found {}",
            i,
            groups[i]);
    auto const& operation = trace.operations()[i];
    auto const kind = merge_streams ? StreamKind::compute : operation.kind;
    auto const key = operation.collective ? std::tuple(operation.collective->communicator, -1, kind)
                                          : std::tuple(std::string(), groups[i], kind);
    streams.push_back(numbers.try_emplace(key, numbers.size()).first->second);
  }
  return streams;
}

}  // namespace msstream
