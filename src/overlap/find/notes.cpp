// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/notes.hpp"

#include "overlap/find/tolerances.hpp"
#include "overlap/find/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace msstream::overlap {
namespace {

/// By how much a launch takes longer while `msstream-overlap run` records, where that was measured:
/// docs/overlap-recordings.md has the programs, and a test compares the figures.
constexpr Ns kLeastPerLaunch = 1'400;
constexpr Ns kMostPerLaunch = 7'000;
constexpr Ns kMostPerLaunchOfPytorch = 24'000;
constexpr Ns kPerGraphNode = 300;  ///< by which a kernel of a graph takes longer, recorded each
/// A synchronisation that is longer waited for the device.
constexpr Ns kWaited = 10'000;

bool is_launch(Call const& call) {
  return call.kind == CallKind::launch || call.kind == CallKind::graph_launch;
}

/// Whether a device idles for as long as the host takes.
bool idles_for_host(ClassSpan const& span) {
  return span.kind == TimeClass::idle && span.cause && is_of_host(*span.cause);
}

/// The time that a thread would have saved without the recorder, from an instant on.
struct Saving {
  Ns at = 0;
  Ns less = 0;
  bool waits = false;  ///< for the device: what the thread saved before is spent
};

std::vector<Saving> savings_of(
    Program const& program, Host const& host, Index thread, Interval window, Ns per_launch) {
  std::vector<Saving> savings;
  auto const within = [&](Ns at) { return at >= window.begin && at < window.end; };
  for (auto const i : host.calls_of(thread)) {
    auto const& call = program.call(i);
    bool const waits = call.kind == CallKind::synchronize && call.time.length() > kWaited;
    if (within(call.time.begin) && (is_launch(call) || waits)) {
      savings.push_back({call.time.begin, waits ? 0 : per_launch, waits});
    }
  }
  for (auto const& part : program.recording().overheads) {
    if (part.kind == OverheadKind::recording && part.thread == thread && within(part.time.begin)) {
      savings.push_back({part.time.begin, part.time.length(), false});
    }
  }
  std::ranges::stable_sort(savings, {}, &Saving::at);
  return savings;
}

/// Returns by how much a device would have ended earlier if it had idled less for the host.
Ns saved_on(DeviceReport const& device, std::vector<Saving> const& savings) {
  Ns saved = 0;
  Ns ahead = 0;  // of the host, and not of the device yet
  auto next = savings.begin();
  for (auto const& span : device.spans) {
    if (!idles_for_host(span)) {
      continue;
    }
    for (; next != savings.end() && next->at < span.time.end; ++next) {
      ahead = next->waits ? 0 : ahead + next->less;
    }
    auto const less = std::min(ahead, span.time.length());
    saved += less;
    ahead -= less;
  }
  return saved;
}

/// Returns the thread with the most launches in the window; kNone without any.
Index launching_thread(Recording const& recording, Interval window) {
  std::vector<std::size_t> launches(recording.threads.size());
  for (auto const& call : recording.calls) {
    if (is_launch(call) && call.time.begin >= window.begin && call.time.begin < window.end) {
      ++launches[call.thread];
    }
  }
  auto const most = std::ranges::max_element(launches);
  return most == launches.end() || *most == 0 ? kNone : static_cast<Index>(most - launches.begin());
}

/// Estimates the window without recording.
void estimate(RecordingCost& cost, Report const& report, Program const& program, Host const& host) {
  auto const& recording = program.recording();
  cost.least_per_launch = kLeastPerLaunch;
  cost.most_per_launch =
      framework_of(recording) == Framework::pytorch ? kMostPerLaunchOfPytorch : kMostPerLaunch;
  auto const thread = launching_thread(recording, report.window);
  auto const window_with = [&](Ns per_launch) {
    auto const savings = savings_of(program, host, thread, report.window, per_launch);
    Ns saved = report.window.length();
    for (auto const& device : report.devices) {
      saved = std::min(saved, saved_on(device, savings));
    }
    return report.window.length() - saved;
  };
  cost.least_window = window_with(cost.most_per_launch);
  cost.most_window = window_with(cost.least_per_launch);
}

void add_note_of_recorder(Report& report, Program const& program, Host const& host) {
  auto const& recording = program.recording();
  auto const& window = report.window;
  RecordingCost cost;
  for (auto const& part : recording.overheads) {
    if (part.kind == OverheadKind::recording) {
      cost.overhead += std::max<Ns>(
          0, std::min(part.time.end, window.end) - std::max(part.time.begin, window.begin));
    }
  }
  cost.launches =
      static_cast<std::uint64_t>(std::ranges::count_if(recording.calls, [&](Call const& call) {
        return is_launch(call) && call.time.begin >= window.begin && call.time.begin < window.end;
      }));
  std::string note;
  if (cost.overhead > 0) {
    note = fmt::format(
        "Recording took {} of the host's time ({} of the window) to store what it "
        "recorded. ",
        duration_text(cost.overhead),
        share_text(cost.overhead, window.length()));
  }
  if (cost.launches > 0 && recording.source == kRecorderSource) {
    estimate(cost, report, program, host);
    report.recording_cost = cost;
    note += fmt::format(
        "While recorded, {} took longer, by {} to {} each on the machines where that was measured. "
        "Without recording, the window would take an estimated {}; gains are predicted from the "
        "recorded window.",
        count_text(cost.launches, "launch", "launches"),
        duration_text(cost.least_per_launch),
        duration_text(cost.most_per_launch),
        unrecorded_text(cost));
    auto const nodes = std::ranges::count_if(recording.activities, [&](Activity const& activity) {
      return activity.is_graph_node && activity.time.begin >= window.begin &&
             activity.time.begin < window.end;
    });
    if (nodes > 0) {
      note += fmt::format(
          " The estimate leaves out that {} of graphs, recorded each, took about {} longer.",
          count_text(static_cast<std::uint64_t>(nodes), "node", "nodes"),
          duration_text(kPerGraphNode));
    }
  } else if (cost.overhead > 0) {
    note += fmt::format("Each of {} took longer for it as well.",
                        count_text(cost.launches, "launch", "launches"));
  }
  if (!note.empty()) {
    report.notes.push_back(note);
  }
}

/// Kernels of one stream overlap if the program says so at their launch, and never otherwise. The
/// last of one and the first of the next may do so by less than the clock tells.
void add_note_of_streams(Report& report, Program const& program) {
  auto const& recording = program.recording();
  std::size_t count = 0;
  Index first = kNone;
  for (Index i = 0; i < recording.activities.size(); ++i) {
    auto const& activity = recording.activities[i];
    auto const before = program.previous(i);
    if (before == kNone || activity.graph != kUnknown || activity.is_graph_node) {
      continue;
    }
    auto const& earlier = program.activity(before).time;
    auto const shared = std::min(earlier.end, activity.time.end) - activity.time.begin;
    bool const is_long = shared > tolerance::of_order(recording) ||
                         (shared > 2 * recording.clock_step &&
                          shared >= std::min(earlier.length(), activity.time.length()) / 2);
    if (is_long && activity.time.begin >= report.window.begin &&
        activity.time.begin < report.window.end) {
      first = count == 0 ? i : first;
      ++count;
    }
  }
  if (count > 0) {
    report.notes.push_back(fmt::format(
        "{} before the work ahead in the same stream had ended: by programmatic "
        "dependent launches, or the recorded streams or times are wrong. {} {} at {} ms.",
        count_text(count, "activity began", "activities began"),
        count == 1 ? "It is" : "The first one is",
        activity_text(program, first),
        ms_text(recording.activities[first].time.begin)));
  }
}

}  // namespace

void add_notes(Report& report,
               Program const& program,
               Host const& host,
               std::span<Ledger const> ledgers) {
  auto const& recording = program.recording();
  Ns unexplained = 0;
  for (auto const& ledger : ledgers) {
    unexplained += ledger.of(Cause::unknown).time();
  }
  for (int i = kMissing; i-- > 0;) {
    auto const missing = static_cast<Missing>(i);
    Ns time = missing == Missing::nothing ? unexplained : 0;
    for (auto const& ledger : ledgers) {
      time += missing == Missing::nothing ? 0 : ledger.missing(missing);
    }
    unexplained -= time;
    if (time > 0 && (missing != Missing::nothing || time > report.window.length() / 100)) {
      report.notes.push_back(fmt::format("{} ({}) cannot be explained. {}",
                                         duration_text(time),
                                         share_text(time, report.window.length()),
                                         record_text(missing, recording)));
    }
  }
  add_note_of_recorder(report, program, host);
  add_note_of_streams(report, program);
}

void add_note_of_start(Report& report) {
  constexpr Ns kLeastShare = 10;  // of the window, in percent
  constexpr Ns kLatest = 75;      // likewise
  std::vector<Interval> starting;
  Ns sum = 0;
  for (auto const& device : report.devices) {
    for (auto const& span : device.spans) {
      if (span.cause == Cause::lazy_loading || span.cause == Cause::driver_allocation) {
        starting.push_back(span.time);
        sum += span.time.length();
      }
    }
  }
  auto const window = report.window.length();
  if (sum / kLeastShare < window / 100) {
    return;
  }
  std::ranges::sort(starting, {}, &Interval::begin);
  Ns so_far = 0;
  for (auto const& time : starting) {
    so_far += time.length();
    if (so_far >= sum - sum / 10) {
      auto const start = time.end - report.window.begin;
      if (start / kLatest <= window / 100) {
        auto const ms = (time.end + 999'999) / 1'000'000;
        report.notes.push_back(fmt::format(
            "The first {} look like the program's start: most of the loading of kernels and of the "
            "allocations is there. --window {}: explains what follows; `msstream-overlap run "
            "--skip` or --range leaves the start out.",
            duration_text(start),
            ms));
      }
      return;
    }
  }
}

std::string replay_text(ReplayCheck const& check) {
  return fmt::format(
      "Simulated as it was, the recorded program takes {} instead of {}. {}",
      duration_text(check.replayed),
      duration_text(check.recorded),
      check.is_trusted()
          ? "Predictions are ratios of two simulations, applied to the recorded window."
          : "No gain can be predicted from that, and all that was lost counts, whether or not a "
            "fix "
            "would gain it.");
}

std::string harmless_text(Recording const& recording,
                          Index device,
                          Cause cause,
                          Ns time,
                          Interval window,
                          bool gains_idle_time) {
  return fmt::format(
      "GPU {}: for {} ({}), work waited while one activity ran ({}), but has {}. This does not "
      "count as lost.",
      recording.devices[device].number,
      duration_text(time),
      share_text(time, window.length()),
      text_of(cause).id,
      gains_idle_time ? "nothing more to gain than the idle time of that cause: issued earlier, it "
                        "would wait for another one"
                      : "nothing to gain: the window would be as long");
}

}  // namespace msstream::overlap
