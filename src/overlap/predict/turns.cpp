// SPDX-License-Identifier: Apache-2.0
#include "overlap/predict/turns.hpp"

#include "overlap/predict/busy_times.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

BusyTimes busy_times(Program const& program, Index device) {
  BusyTimes times;
  for (auto const i : program.of_device(device)) {
    times.add(program.activity(i).time);
  }
  return times;
}

/// Whether two processes take turns: they hardly ever work at once, while each works in much of the
/// time that they share.
bool take_turns(BusyTimes const& own, BusyTimes const& others) {
  constexpr Ns kMostShared = 50;  // of the shorter time, divided by this
  constexpr Ns kLeastBusy = 10;   // of the time that they share, divided by this
  auto const both = std::min(own.extent().end, others.extent().end) -
                    std::max(own.extent().begin, others.extent().begin);
  auto const shorter = std::min(own.length(), others.length());
  return shorter > both / kLeastBusy && own.shared_with(others) < shorter / kMostShared;
}

/// Returns the times of the first of the other programs that uses a device in turn with one:
/// devices of one number may be one. Ranks of collectives have a device each, whatever its number.
BusyTimes turns_of_others(std::vector<Program> const& programs, Program const& own, Index device) {
  auto const number = own.recording().devices[device].number;
  auto const times = busy_times(own, device);
  if (times.empty() || number == kUnknown || !own.recording().collectives.empty()) {
    return {};
  }
  for (auto const& other : programs) {
    auto const& devices = other.recording().devices;
    if (&other == &own || !other.recording().collectives.empty()) {
      continue;
    }
    for (Index d = 0; d < devices.size(); ++d) {
      auto others = busy_times(other, d);
      if (devices[d].number == number && !others.empty() && take_turns(times, others)) {
        return others;
      }
    }
  }
  return {};
}

}  // namespace

void find_turns(std::vector<Program>& programs) {
  for (auto& own : programs) {
    for (Index device = 0; device < own.recording().devices.size(); ++device) {
      own.set_turns_of_others(device, turns_of_others(programs, own, device).take());
    }
  }
}

}  // namespace msstream::overlap
