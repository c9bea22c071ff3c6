// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/likeness.hpp"

#include <algorithm>
#include <set>

namespace msstream::overlap {
namespace {

std::set<std::int64_t> processes_of(Recording const& recording) {
  std::set<std::int64_t> processes;
  for (auto const& thread : recording.threads) {
    processes.insert(thread.process);
  }
  return processes;
}

/// Whether elements have equal times and names, in their order.
template <class Element>
bool are_equal(Recording const& first,
               Recording const& second,
               std::vector<Element> Recording::*elements) {
  return std::ranges::equal(
      first.*elements, second.*elements, [&](Element const& a, Element const& b) {
        return a.time == b.time && first.names[a.name] == second.names[b.name];
      });
}

}  // namespace

Likeness likeness(Recording const& first, Recording const& second) {
  auto const processes = processes_of(first);
  if (first.start_unix_ns != 0 && first.start_unix_ns == second.start_unix_ns &&
      !processes.empty() && processes == processes_of(second)) {
    return Likeness::same_process;
  }
  return are_equal(first, second, &Recording::activities) &&
                 are_equal(first, second, &Recording::calls)
             ? Likeness::equal_contents
             : Likeness::different;
}

}  // namespace msstream::overlap
