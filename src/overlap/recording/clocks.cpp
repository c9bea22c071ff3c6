// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/clocks.hpp"

#include "overlap/recording/duration_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

constexpr Ns kUnset = std::numeric_limits<Ns>::max() / 4;
/// Clocks that are less apart change nothing that the report tells.
constexpr Ns kApart = 10'000;
/// Work that finds the device idle begins sooner after its call.
constexpr Ns kLongLatency = 100'000;
constexpr std::size_t kFewestIssued = 8;  ///< activities that tell that
/// Work that begins by more before its call has another call if most work does not.
constexpr Ns kFarApart = 10'000'000;

/// The bounds that the order of calls and work gives to the clock of one device.
struct ClockFacts {
  Ns earliest = kUnset;    ///< the begin of work after the begin of its call, at least
  Ns slack = kUnset;       ///< the end of a synchronisation after the end of its work, at least
  std::size_t issued = 0;  ///< activities with a call
  std::size_t early = 0;   ///< those that begin before it
};

/// Activities with calls, in the order of these.
std::vector<Index> in_order_of_calls(Recording const& recording) {
  std::vector<Index> place(recording.calls.size() + 1, 0);
  for (auto const& activity : recording.activities) {
    if (activity.call != kNone) {
      ++place[activity.call + 1];
    }
  }
  for (std::size_t i = 1; i < place.size(); ++i) {
    place[i] += place[i - 1];
  }
  std::vector<Index> order(place.back());
  for (Index i = 0; i < recording.activities.size(); ++i) {
    if (auto const call = recording.activities[i].call; call != kNone) {
      order[place[call]++] = i;
    }
  }
  return order;
}

/// Whether all work of a device belongs to one context, for which a synchronisation of the device
/// waits.
std::vector<bool> have_one_context(Recording const& recording) {
  std::vector<std::int64_t> context(recording.devices.size(), kUnknown - 1);
  std::vector<bool> one(recording.devices.size(), recording.devices.size() == 1);
  for (auto const& stream : recording.streams) {
    auto& known = context[stream.device];
    if (known != kUnknown - 1 && known != stream.context) {
      one[stream.device] = false;
    }
    known = stream.context;
  }
  return one;
}

/// Finds by how much each synchronisation of a stream or of a device ended after its work.
void find_slack(Recording const& recording, std::vector<ClockFacts>& facts) {
  std::vector<std::pair<Index, Index>> syncs;  // calls and synchronisations
  for (Index i = 0; i < recording.syncs.size(); ++i) {
    auto const& sync = recording.syncs[i];
    bool const waits =
        sync.kind == SyncKind::device || (sync.kind == SyncKind::stream && sync.stream != kNone);
    if (waits && sync.call != kNone && recording.calls[sync.call].kind == CallKind::synchronize) {
      syncs.emplace_back(sync.call, i);
    }
  }
  if (syncs.empty()) {
    return;
  }
  std::ranges::sort(syncs);
  auto const one_context = have_one_context(recording);
  auto const order = in_order_of_calls(recording);
  std::vector<Ns> of_stream(recording.streams.size(), -kUnset);
  std::vector<Ns> of_device(recording.devices.size(), -kUnset);
  auto next = order.begin();
  for (auto const& [call, place] : syncs) {
    auto const begin = recording.calls[call].time.begin;
    for (; next != order.end(); ++next) {
      auto const& activity = recording.activities[*next];
      if (recording.calls[activity.call].time.end > begin) {
        break;
      }
      auto const device = recording.streams[activity.stream].device;
      of_stream[activity.stream] = std::max(of_stream[activity.stream], activity.time.end);
      of_device[device] = std::max(of_device[device], activity.time.end);
    }
    auto const end = recording.calls[call].time.end;
    auto const look_at = [&](Index device, Ns work) {
      if (work != -kUnset) {
        facts[device].slack = std::min(facts[device].slack, end - work);
      }
    };
    auto const& sync = recording.syncs[place];
    if (sync.kind == SyncKind::stream) {
      look_at(recording.streams[sync.stream].device, of_stream[sync.stream]);
      continue;
    }
    for (Index device = 0; device < recording.devices.size(); ++device) {
      if (one_context[device]) {
        look_at(device, of_device[device]);
      }
    }
  }
}

void find_begins(Recording const& recording, std::vector<ClockFacts>& facts) {
  for (auto const& activity : recording.activities) {
    if (activity.call != kNone && !activity.is_graph_node) {
      auto& known = facts[recording.streams[activity.stream].device];
      auto const after = activity.time.begin - recording.calls[activity.call].time.begin;
      known.earliest = std::min(known.earliest, after);
      ++known.issued;
      known.early += after < 0 ? 1 : 0;
    }
  }
}

void move_device(Recording& recording, Index device, Ns by) {
  for (auto& activity : recording.activities) {
    if (recording.streams[activity.stream].device == device) {
      activity.time.begin += by;
      activity.time.end += by;
    }
  }
  for (auto& range : recording.ranges) {
    if (range.stream != kNone && recording.streams[range.stream].device == device) {
      range.time.begin += by;
      range.time.end += by;
    }
  }
}

}  // namespace

void align_devices(Recording& recording) {
  std::vector<ClockFacts> facts(recording.devices.size());
  find_begins(recording, facts);
  find_slack(recording, facts);
  bool is_moved = false;
  for (Index device = 0; device < facts.size(); ++device) {
    auto const& known = facts[device];
    auto const number = recording.devices[device].number;
    auto const apart = kApart + 2 * recording.clock_step;
    bool const is_early = known.earliest < -apart;
    bool const is_late = known.slack < -apart;
    bool const is_both = (known.earliest != kUnset && known.slack != kUnset &&
                          known.earliest + known.slack < -apart) ||
                         (known.earliest < -kFarApart && 2 * known.early < known.issued);
    if (is_both) {
      recording.notes.push_back(
          fmt::format("the clock of device {} is not that of the host, and no move of it lets all "
                      "work begin after its call and end before the host stops waiting for it: "
                      "causes may be wrong",
                      number));
    } else if (is_early || is_late) {
      auto const by = is_early ? -known.earliest : known.slack;
      move_device(recording, device, by);
      is_moved = true;
      recording.notes.push_back(
          fmt::format("the clock of device {} was moved by {}, since work {}",
                      number,
                      duration_text(by),
                      is_early ? "had begun before its call"
                               : "had ended after the host stopped waiting for it"));
    } else if (known.issued >= kFewestIssued && known.earliest > kLongLatency &&
               known.slack > kLongLatency) {
      recording.notes.push_back(fmt::format(
          "all work of device {} begins {} or more after its call: either there was "
          "always earlier work, or its clock is not that of the host, and causes may be "
          "wrong",
          number,
          duration_text(known.earliest)));
    }
  }
  if (is_moved) {
    recording.sort();
  }
}

}  // namespace msstream::overlap
