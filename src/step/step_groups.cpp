// SPDX-License-Identifier: Apache-2.0
#include "simulated_step.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/step/auto_assignment.hpp>

#include <map>
#include <string>
#include <string_view>
#include <tuple>

namespace msstream {

StepGroups recorded_groups(StepTrace const& trace) {
  StepGroups groups;
  for (std::size_t i = 0; i < trace.operations().size(); ++i) {
    groups.push_back(trace.group_of(i));
  }
  return groups;
}

std::string stream_of_communicator(StepTrace const& trace, std::size_t operation) {
  constexpr std::string_view kBegin = "comm ";  // of the names of communicators' streams
  auto const& one = trace.operations()[operation];
  if (one.collective) {
    return std::string(kBegin) + one.collective->communicator;
  }
  auto const& stream = trace.streams()[one.stream].name;
  return stream.starts_with(kBegin) ? stream : std::string();
}

namespace {

/// Returns the name of a stream on which an operation stays whatever its group is: a
/// communicator's, or that of lookups ahead; empty for others.
[[nodiscard]] std::string own_stream_of(StepTrace const& trace, std::size_t operation) {
  constexpr std::string_view kAhead = "ahead of ";
  auto const& stream = trace.streams()[trace.operations()[operation].stream].name;
  return stream.starts_with(kAhead) ? stream : stream_of_communicator(trace, operation);
}

}  // namespace

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
  std::map<std::tuple<std::string, int, StreamKind>, std::size_t> numbers;
  std::vector<std::size_t> streams;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    require(groups[i] >= -1,
            "operation {}: expected a group, or -1 for the default group, found {}",
            i,
            groups[i]);
    auto const& operation = trace.operations()[i];
    auto const kind = merge_streams ? StreamKind::compute : operation.kind;
    auto const own = own_stream_of(trace, i);
    auto const key =
        own.empty() ? std::tuple(own, groups[i], kind) : std::tuple(own, -1, StreamKind::compute);
    streams.push_back(numbers.try_emplace(key, numbers.size()).first->second);
  }
  return streams;
}

}  // namespace msstream
