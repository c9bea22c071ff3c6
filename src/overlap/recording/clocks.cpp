// SPDX-License-Identifier: Apache-2.0
#include "overlap/recording/clocks.hpp"

#include "overlap/recording/duration_text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
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
  Ns earliest = kUnset;  ///< the begin of work after the begin of its call, at least
  Ns slack = kUnset;     ///< the end of a synchronisation after the end of its work, at least
  Index earliest_work = kNone;
  Index slack_work = kNone;
  Index slack_call = kNone;  ///< the synchronisation
  std::size_t issued = 0;    ///< activities with a call
  std::size_t early = 0;     ///< those that begin before it, by more than clocks may be apart
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
  // The last work of each.
  std::vector<Index> of_stream(recording.streams.size(), kNone);
  std::vector<Index> of_device(recording.devices.size(), kNone);
  auto const keep_later = [&](Index& last, Index i) {
    if (last == kNone || recording.activities[i].time.end > recording.activities[last].time.end) {
      last = i;
    }
  };
  auto next = order.begin();
  for (auto const& [call, place] : syncs) {
    auto const begin = recording.calls[call].time.begin;
    for (; next != order.end(); ++next) {
      auto const& activity = recording.activities[*next];
      if (recording.calls[activity.call].time.end > begin) {
        break;
      }
      auto const device = recording.streams[activity.stream].device;
      keep_later(of_stream[activity.stream], *next);
      keep_later(of_device[device], *next);
    }
    auto const end = recording.calls[call].time.end;
    auto const look_at = [&, made = call](Index device, Index work) {
      auto const slack = work == kNone ? kUnset : end - recording.activities[work].time.end;
      if (slack < facts[device].slack) {
        facts[device].slack = slack;
        facts[device].slack_work = work;
        facts[device].slack_call = made;
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

Ns apart(Recording const& recording) {
  return kApart + 2 * recording.clock_step;
}

/// Returns by how much an activity begins after its call begins; nothing without a call.
std::optional<Ns> after_call(Recording const& recording, Activity const& activity) {
  return activity.call == kNone || activity.is_graph_node
             ? std::nullopt
             : std::optional(activity.time.begin - recording.calls[activity.call].time.begin);
}

void find_begins(Recording const& recording, std::vector<ClockFacts>& facts) {
  for (Index i = 0; i < recording.activities.size(); ++i) {
    auto const& activity = recording.activities[i];
    if (auto const after = after_call(recording, activity)) {
      auto& known = facts[recording.streams[activity.stream].device];
      if (*after < known.earliest) {
        known.earliest = *after;
        known.earliest_work = i;
      }
      ++known.issued;
      known.early += *after < -apart(recording) ? 1 : 0;
    }
  }
}

/// Whether so little work begins before its call that times or calls of it are wrong, not a clock.
bool are_exceptions(ClockFacts const& known) {
  return known.earliest < -kLongLatency && known.issued >= kFewestIssued &&
         10 * known.early <= known.issued;
}

std::string text_of_work(Recording const& recording, Index i) {
  auto const& activity = recording.activities[i];
  return fmt::format("{} on {} at {} ms",
                     recording.names[activity.name],
                     recording.text_of_stream(recording.streams[activity.stream]),
                     ms_text(activity.time.begin));
}

/// Says which work begins before its call the most, as "gemm on stream 7 at 3.2 ms begins 2.00 ms
/// before its call, cudaLaunchKernel()".
std::string early_text(Recording const& recording, ClockFacts const& known) {
  auto const i = known.earliest_work;
  return fmt::format("{} begins {} before its call, {}()",
                     text_of_work(recording, i),
                     duration_text(-known.earliest),
                     recording.names[recording.calls[recording.activities[i].call].name]);
}

std::string late_text(Recording const& recording, ClockFacts const& known) {
  auto const& call = recording.calls[known.slack_call];
  return fmt::format("{} ends {} after {}() at {} ms had waited for it",
                     text_of_work(recording, known.slack_work),
                     duration_text(-known.slack),
                     recording.names[call.name],
                     ms_text(call.time.begin));
}

/// Leaves out single activities that begin long before their call and before all that the host did:
/// a window would begin with them. Returns how many there were.
std::size_t leave_out_exceptions(Recording& recording, std::vector<ClockFacts> const& facts) {
  if (!recording.dependencies.empty() || recording.calls.empty()) {
    return 0;
  }
  auto const first = recording.calls.front().time.begin;
  return std::erase_if(recording.activities, [&](Activity const& activity) {
    auto const after = after_call(recording, activity);
    return after && *after < -kFarApart && activity.time.begin < first - kFarApart &&
           are_exceptions(facts[recording.streams[activity.stream].device]);
  });
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
  for (auto const& known : facts) {
    if (are_exceptions(known)) {
      recording.notes.push_back(
          fmt::format("{} before the call that issued it: a time or a correlation in the recording "
                      "is wrong, and causes of the time around it may be; {}{}",
                      count_text(known.early, "activity begins", "activities begin"),
                      known.early == 1 ? "" : "the worst one, ",
                      early_text(recording, known)));
    }
  }
  if (auto const count = leave_out_exceptions(recording, facts); count > 0) {
    recording.notes.back() += fmt::format("; left out {} long before the first call of the host",
                                          count_text(count, "activity", "activities"));
    facts.assign(facts.size(), {});
    find_begins(recording, facts);
  }
  find_slack(recording, facts);
  bool is_moved = false;
  for (Index device = 0; device < facts.size(); ++device) {
    auto const& known = facts[device];
    auto const number = recording.devices[device].number;
    bool const is_early = known.earliest < -apart(recording);
    bool const is_late = known.slack < -apart(recording);
    bool const is_both = (known.earliest != kUnset && known.slack != kUnset &&
                          known.earliest + known.slack < -apart(recording)) ||
                         (known.earliest < -kFarApart && 2 * known.early < known.issued);
    if (are_exceptions(known)) {
      continue;
    }
    if (is_both) {
      recording.notes.push_back(fmt::format(
          "the clock of device {} is not that of the host, and no move of it lets all work begin "
          "after its call and end before the host stops waiting for it, so that causes may be "
          "wrong: "
          "{}{}{}",
          number,
          is_early ? early_text(recording, known) : "",
          is_early && is_late ? "; " : "",
          is_late ? late_text(recording, known) : ""));
    } else if (is_early || is_late) {
      auto const by = is_early ? -known.earliest : known.slack;
      auto text =
          fmt::format("the clock of device {} was moved by {}, since work {}: {}",
                      number,
                      duration_text(by),
                      is_early ? "had begun before its call"
                               : "had ended after the host stopped waiting for it",
                      is_early ? early_text(recording, known) : late_text(recording, known));
      move_device(recording, device, by);
      is_moved = true;
      recording.notes.push_back(std::move(text));
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
