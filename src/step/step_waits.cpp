// SPDX-License-Identifier: Apache-2.0
#include "order/minimal_waits.hpp"
#include "order/vector_clock.hpp"

#include <msstream/order/detail/position_set.hpp>
#include <msstream/step/auto_assignment.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace msstream {

namespace {

using order::Position;
using order::VectorClock;

/// Tracks the vector clocks that waits provide if each operation has its own event, recorded
/// directly after it.
class OwnEvents {
 public:
  [[nodiscard]] VectorClock const& look(Position position) const {
    return after_[position.stream][position.number - 1];
  }
  [[nodiscard]] VectorClock const& wait_for(Position position) const { return look(position); }
  void issued(Position position, VectorClock const& clock) {
    after_.resize(std::max(after_.size(), position.stream + std::size_t{1}));
    after_[position.stream].push_back(clock);
  }

 private:
  std::vector<std::vector<VectorClock>> after_;
};

/// Tracks the vector clocks that waits provide if an event is recorded only when it is first waited
/// for, as DependencyTracker does. Such an event also covers later work of the stream.
class LateEvents {
 public:
  [[nodiscard]] VectorClock const& look(Position position) const {
    auto const* const event = earliest(position);
    return event != nullptr ? *event : now_[position.stream];
  }
  [[nodiscard]] VectorClock const& wait_for(Position position) {
    if (auto const* const event = earliest(position)) {
      return *event;
    }
    return events_[position.stream].emplace_back(now_[position.stream]);
  }
  void issued(Position position, VectorClock const& clock) {
    auto const streams = std::max(now_.size(), position.stream + std::size_t{1});
    now_.resize(streams);
    events_.resize(streams);
    now_[position.stream] = clock;
  }

 private:
  [[nodiscard]] VectorClock const* earliest(Position position) const {
    auto const& events = events_[position.stream];
    auto const found = std::lower_bound(
        events.begin(), events.end(), position, [](VectorClock const& clock, Position wanted) {
          return clock[wanted.stream] < wanted.number;
        });
    return found == events.end() ? nullptr : &*found;
  }

  std::vector<VectorClock> now_;
  std::vector<std::vector<VectorClock>> events_;
};

/// The position of an operation, and the positions on other streams that it depends on.
struct Issued {
  Position position;
  std::vector<Position> needed;  ///< ascending by stream
};

std::vector<Issued> in_issue_order(StepTrace const& trace,
                                   std::vector<std::size_t> const& streams) {
  std::vector<Issued> issued;
  std::vector<std::uint64_t> numbers(trace.operations().size() + trace.streams().size(), 0);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    Position const position{static_cast<order::StreamIndex>(streams[i]), ++numbers[streams[i]]};
    order::PositionSet needed;
    for (auto const earlier : trace.operations()[i].after) {
      if (issued[earlier].position.stream != position.stream) {
        needed.add(issued[earlier].position);
      }
    }
    issued.push_back({position, {needed.begin(), needed.end()}});
    std::sort(issued.back().needed.begin(),
              issued.back().needed.end(),
              [](Position const& a, Position const& b) { return a.stream < b.stream; });
  }
  return issued;
}

template <class Events>
std::size_t count_waits(std::vector<Issued> const& operations) {
  Events events;
  std::vector<VectorClock> clocks;
  std::size_t waits = 0;
  for (auto const& [position, all_needed] : operations) {
    clocks.resize(std::max(clocks.size(), position.stream + std::size_t{1}));
    auto& clock = clocks[position.stream];
    auto needed = all_needed;
    std::erase_if(needed, [&](Position const& wanted) { return clock.covers(wanted); });
    std::vector<VectorClock> brought;
    brought.reserve(needed.size());
    for (auto const& wanted : needed) {
      brought.push_back(events.look(wanted));
    }
    order::put_uncovered_first(needed, brought);
    for (auto const& wanted : needed) {
      if (!clock.covers(wanted)) {
        clock.merge(events.wait_for(wanted));
        ++waits;
      }
    }
    auto after = clock;
    after.raise(position);
    events.issued(position, after);
  }
  return waits;
}

StepWaits waits_on(StepTrace const& trace, std::vector<std::size_t> const& streams) {
  auto const operations = in_issue_order(trace, streams);
  StepWaits waits;
  for (auto const& operation : operations) {
    waits.hazards += operation.needed.size();
  }
  waits.necessary = count_waits<OwnEvents>(operations);
  waits.issued = count_waits<LateEvents>(operations);
  return waits;
}

}  // namespace

StepWaits minimal_waits(StepTrace const& trace) {
  std::vector<std::size_t> streams;
  for (auto const& operation : trace.operations()) {
    streams.push_back(operation.stream);
  }
  return waits_on(trace, streams);
}

StepWaits minimal_waits(StepTrace const& trace, StepGroups const& groups, bool merge_streams) {
  return waits_on(trace, streams_by(trace, groups, merge_streams));
}

}  // namespace msstream
