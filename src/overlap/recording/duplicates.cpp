// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/recording.hpp"

#include <cstddef>
#include <tuple>
#include <vector>

namespace msstream::overlap {
namespace {

/// Leaves out elements that are equal to one before them which begins at the same time, and returns
/// the new places of all, those of the ones left out being the places of their equals.
template <class Element, class Equal>
std::vector<Index> leave_out_equals(std::vector<Element>& elements, Equal equal) {
  std::vector<Index> places(elements.size());
  Index kept = 0;
  for (Index i = 0; i < elements.size(); ++i) {
    constexpr Index kMostSteps = 64;
    Index same = kNone;
    for (Index j = kept; j-- > 0 && kept - j <= kMostSteps && same == kNone;) {
      if (elements[j].time.begin != elements[i].time.begin) {
        break;
      }
      same = equal(elements[j], elements[i]) ? j : kNone;
    }
    places[i] = same == kNone ? kept : same;
    if (same == kNone) {
      if (kept != i) {
        elements[kept] = elements[i];
      }
      ++kept;
    }
  }
  elements.resize(kept);
  return places;
}

void renumber_call(Index& call, std::vector<Index> const& places) {
  if (call != kNone) {
    call = places[call];
  }
}

}  // namespace

std::size_t Recording::leave_out_duplicates() {
  auto const before = calls.size() + activities.size() + syncs.size();
  auto const call_count = calls.size();
  // A thread makes one call at a time, and a stream runs one activity. Nodes of a graph may run at
  // once in one stream, and are in the file twice only if calls are.
  auto const calls_at = leave_out_equals(calls, [](Call const& a, Call const& b) {
    return a.time == b.time && a.time.length() > 0 && a.name == b.name && a.thread == b.thread;
  });
  bool const any_calls = calls.size() != call_count;
  if (any_calls) {
    for (auto& activity : activities) {
      renumber_call(activity.call, calls_at);
    }
    for (auto& sync : syncs) {
      renumber_call(sync.call, calls_at);
      renumber_call(sync.record_call, calls_at);
    }
    for (auto& record : event_records) {
      renumber_call(record.call, calls_at);
    }
  }
  if (dependencies.empty()) {
    leave_out_equals(activities, [&](Activity const& a, Activity const& b) {
      auto const facts = [](Activity const& one) {
        return std::tie(one.name, one.stream, one.kind, one.call, one.bytes, one.graph, one.shape);
      };
      bool const is_node = a.graph != kUnknown || a.is_graph_node;
      return a.time == b.time && a.time.length() > 0 && facts(a) == facts(b) &&
             (any_calls || !is_node);
    });
  }
  leave_out_equals(syncs, [](Sync const& a, Sync const& b) {
    return a.time == b.time && a.call == b.call && a.call != kNone && a.kind == b.kind &&
           a.stream == b.stream && a.record_call == b.record_call;
  });
  return before - calls.size() - activities.size() - syncs.size();
}

}  // namespace msstream::overlap
