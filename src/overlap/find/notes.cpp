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

void add_note_of_recorder(Report& report, Recording const& recording) {
  Ns overhead = 0;
  for (auto const& part : recording.overheads) {
    if (part.kind == OverheadKind::recording) {
      overhead += std::max<Ns>(0,
                               std::min(part.time.end, report.window.end) -
                                   std::max(part.time.begin, report.window.begin));
    }
  }
  if (overhead > 0) {
    auto const launches = std::ranges::count_if(recording.calls, [&](Call const& call) {
      return (call.kind == CallKind::launch || call.kind == CallKind::graph_launch) &&
             call.time.begin >= report.window.begin && call.time.begin < report.window.end;
    });
    report.notes.push_back(fmt::format(
        "Recording took {} of the host's time ({} of the window) to store what it recorded. Each "
        "of the {} launches took longer for it as well, by 1.4 to 7 µs where that was measured.",
        duration_text(overhead),
        share_text(overhead, report.window.length()),
        launches));
  }
}

/// Kernels of one stream overlap if the program says so at their launch, and never otherwise.
void add_note_of_streams(Report& report, Program const& program) {
  auto const& recording = program.recording();
  std::size_t count = 0;
  for (Index i = 0; i < recording.activities.size(); ++i) {
    auto const& activity = recording.activities[i];
    auto const before = program.previous(i);
    if (before != kNone && activity.graph == kUnknown && activity.call != kNone &&
        activity.time.begin + tolerance::of_order(recording) < program.activity(before).time.end &&
        activity.time.begin >= report.window.begin && activity.time.begin < report.window.end) {
      ++count;
    }
  }
  if (count > 0) {
    report.notes.push_back(
        fmt::format("{} {} before the work ahead in the same stream had ended: by programmatic "
                    "dependent launches, or the recorded streams or times are wrong.",
                    count,
                    count == 1 ? "activity began" : "activities began"));
  }
}

}  // namespace

void add_notes(Report& report, Program const& program, std::span<Ledger const> ledgers) {
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
    if (time > 0 && (missing != Missing::nothing || 100 * time > report.window.length())) {
      report.notes.push_back(fmt::format("{} ({}) cannot be explained. {}",
                                         duration_text(time),
                                         share_text(time, report.window.length()),
                                         record_text(missing, recording.source)));
    }
  }
  add_note_of_recorder(report, recording);
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
  if (100 * sum < kLeastShare * window) {
    return;
  }
  std::ranges::sort(starting, {}, &Interval::begin);
  Ns so_far = 0;
  for (auto const& time : starting) {
    so_far += time.length();
    if (10 * so_far >= 9 * sum) {
      auto const start = time.end - report.window.begin;
      if (100 * start <= kLatest * window) {
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

std::string harmless_text(
    Recording const& recording, Index device, Cause cause, Ns time, Interval window) {
  return fmt::format(
      "GPU {}: for {} ({}), work waited while one activity ran ({}), but has nothing to gain: the "
      "window would be as long. This does not count as lost.",
      recording.devices[device].number,
      duration_text(time),
      share_text(time, window.length()),
      text_of(cause).id);
}

}  // namespace msstream::overlap
