// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/find.hpp"

#include "overlap/find/account.hpp"
#include "overlap/find/bandwidth.hpp"
#include "overlap/find/collectives.hpp"
#include "overlap/find/critical_path.hpp"
#include "overlap/find/findings.hpp"
#include "overlap/find/host.hpp"
#include "overlap/find/notes.hpp"
#include "overlap/find/program.hpp"
#include "overlap/find/replay.hpp"
#include "overlap/find/shared_streams.hpp"
#include "overlap/find/words.hpp"
#include "overlap/recording/duration_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

Interval window_of(Recording const& recording, FindOptions const& options) {
  auto const extent = recording.extent();
  auto const window = options.window ? *options.window : extent.value_or(Interval{});
  if (window.end < window.begin) {
    throw std::invalid_argument(
        fmt::format("the window {} ends before it begins", interval_text(window)));
  }
  bool const any = std::ranges::any_of(recording.activities, [&](Activity const& activity) {
    return activity.time.begin < window.end && activity.time.end > window.begin;
  });
  if (!any && extent && extent->length() == 0 && is_in(*extent, window)) {
    throw std::invalid_argument(
        fmt::format("all work of {} is at {} ms and has no length",
                    recording.origin.empty() ? std::string("the recording") : recording.origin,
                    ms_text(extent->begin)));
  }
  if (!any) {
    throw std::invalid_argument(
        fmt::format("no work of a device in {}; {} has {}{}",
                    interval_text(window),
                    recording.origin.empty() ? std::string("the recording") : recording.origin,
                    extent ? "work in " : "none",
                    extent ? interval_text(*extent) : ""));
  }
  return window;
}

/// A fix gains something if it is at least the window divided by this.
constexpr Ns kLeastGain = 100;
/// Likewise, of leaving out waits that the program may need.
constexpr Ns kLeastChainGain = 50;

/// From which error on a replay without a fix has a note.
constexpr double kNotedError = 0.1;

/// Whether the fix of a cause only lets the host issue work earlier.
bool is_of_host(Cause cause) {
  switch (cause) {
    case Cause::recording_overhead:
    case Cause::lazy_loading:
    case Cause::driver_allocation:
    case Cause::host_synchronization:
    case Cause::queue_is_full:
    case Cause::launch_bound:
    case Cause::host_busy:
      return true;
    default:
      return false;
  }
}

/// Widens the range of a prediction, for a reason.
void widen(Prediction& prediction, Ns least, Ns most, std::string const& why) {
  if (!prediction.range) {
    prediction.range = {prediction.after, prediction.after, why};
  } else {
    prediction.range->why += " " + why;
  }
  prediction.range->least = std::min(prediction.range->least, least);
  prediction.range->most = std::max(prediction.range->most, most);
}

/// Bounds what fixes of the host gain where the recording lacks the waits of streams: work that a
/// replay overlaps may have to wait, so that nothing but the lost time is gained for sure.
void bound_gains(Report& report, Program const& program) {
  if (!program.may_lack_waits()) {
    return;
  }
  auto const window = report.window.length();
  Ns gained = 0;
  bool is_bounded = false;
  for (auto& finding : report.findings) {
    auto& prediction = finding.prediction;
    auto const least = window - std::min(finding.lost, window);
    if (prediction && is_of_host(finding.cause) && prediction->after < least &&
        has_several_streams(program, finding.device, report.window)) {
      widen(*prediction, prediction->after, least, unknown_waits_text());
      prediction->after = least;
      is_bounded = true;
    }
    gained += prediction ? window - prediction->after : 0;
  }
  if (is_bounded && report.together) {
    auto& together = *report.together;
    together.after = std::max(together.after, window - std::min(gained, window));
  }
}

/// Notes how far the replay without a fix is from the recorded window.
void judge_replay(Report& report) {
  auto const& check = *report.replay;
  bool const predicts = std::ranges::any_of(report.findings, [&](Finding const& finding) {
    return check.is_trusted() ? finding.prediction.has_value() : finding.cause != Cause::unknown;
  });
  if (predicts && check.error() >= kNotedError) {
    report.notes.push_back(replay_text(check));
  }
}

/// Predicts the window after the fix of each finding, and returns whether each has something to
/// gain, alone or beside the fixes of the others.
std::vector<bool> predict(Report& report,
                          Program const& program,
                          Host const& host,
                          Collectives const& collectives,
                          SharedStreams const& shared,
                          std::span<Ledger const> ledgers) {
  std::vector<bool> gains(report.findings.size(), true);
  if (report.findings.empty()) {
    return gains;
  }
  Replay const replay(program, host, collectives, report.window);
  Holds const holds(program, collectives);
  double const before = replay.run({}).makespan_ns;
  if (before <= 0) {
    return gains;
  }
  report.replay = ReplayCheck{replay.recorded_ns(), static_cast<Ns>(before)};
  if (!report.replay->is_trusted()) {
    return gains;
  }
  auto const window = report.window.length();
  auto const scaled = [&](Replayed const& fixed, double without) {
    double const ratio = std::min(std::max(fixed.makespan_ns, fixed.least_ns) / without, 1.0);
    return static_cast<Ns>(ratio * static_cast<double>(window));
  };
  auto const after = [&](Fix const& fix) { return scaled(replay.run(fix), before); };
  // Kernels that leave room on the multiprocessors may run beside each other at full speed.
  Fix room;
  room.leaves_room = true;
  std::optional<double> before_with_room;
  auto const after_with_room = [&](Fix fix) {
    if (!before_with_room) {
      before_with_room = replay.run(room).makespan_ns;
    }
    fix.add(room);
    return scaled(replay.run(fix), *before_with_room);
  };
  Fix all;
  int fixes = 0;
  std::vector<std::optional<Fix>> own(report.findings.size());
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    auto& finding = report.findings[i];
    std::size_t place = 0;
    while (report.devices[place].device != finding.device) {
      ++place;
    }
    auto fix =
        fix_of(program, host, holds, shared, finding.cause, sum_of(ledgers[place], finding.cause));
    if (finding.cause == Cause::bandwidth_shared) {
      auto const least = std::max<Ns>(window - finding.lost, 0);
      finding.prediction =
          Prediction{window, least, PredictedRange{least, window, range_text(finding.cause)}};
    }
    if (!fix) {
      continue;
    }
    finding.prediction = Prediction{window, after(*fix)};
    auto& prediction = *finding.prediction;
    if (finding.cause == Cause::true_dependency) {
      // The fix is to leave out waits, which the program may need.
      prediction.range = {prediction.after, window, range_text(finding.cause)};
      prediction.after = window;
      continue;
    }
    all.add(*fix);
    own[i] = fix;
    ++fixes;
    if (finding.cause == Cause::multiprocessors_full) {
      Fix beside;
      beside.shares_sms = true;  // a small kernel may find room beside a large one
      fix->divides_all = true;
      auto const best = std::min({after(*fix), after(beside), prediction.after});
      prediction.range = {best, window, range_text(finding.cause)};
    } else if (finding.cause == Cause::false_dependency && !program.recording().has_dependencies) {
      prediction.range = {
          std::min(prediction.after, after_with_room(*fix)), window, range_text(finding.cause)};
    } else if (finding.cause == Cause::collective_order) {
      prediction.range = {prediction.after, window, range_text(finding.cause)};
    } else if (finding.cause == Cause::copy_engine) {
      auto pieces = *fix;
      pieces.overtaking.insert(fix->passing.begin(), fix->passing.end());
      auto const best = after(pieces);
      auto const beside = after_with_room(*fix);
      if (std::min(best, beside) < prediction.after) {
        prediction.range = {std::min(best, beside),
                            prediction.after,
                            best <= beside ? range_text(finding.cause) : room_text()};
      }
    } else if (finding.cause == Cause::launch_bound) {
      auto fused = *fix;
      fused.fused = true;
      fix->begins_as_late = true;
      prediction.range = {std::min(after(fused), prediction.after),
                          std::max(after(*fix), prediction.after),
                          range_text(finding.cause)};
    } else if (finding.cause == Cause::short_kernels) {
      auto fused = *fix;
      fused.fused = true;
      prediction.range = {
          std::min(after(fused), prediction.after), prediction.after, range_text(finding.cause)};
    } else if (auto const best = after_with_room(*fix); best < prediction.after) {
      prediction.range = {best, prediction.after, room_text()};
    }
  }
  if (fixes > 1) {
    report.together = Prediction{window, after(all)};
  }
  bound_gains(report, program);
  if (program.may_lack_waits()) {
    // Work that seems to have waited for other work may have begun then for another reason.
    for (std::size_t i = 0; i < report.findings.size(); ++i) {
      auto& prediction = report.findings[i].prediction;
      if (prediction && own[i] && !is_of_host(report.findings[i].cause)) {
        own[i]->presumes_no_waits = true;
        auto const least = after(*own[i]);
        own[i]->presumes_no_waits = false;
        if (least < prediction->after - window / kLeastGain) {
          widen(*prediction, least, prediction->after, unknown_waits_text());
        }
      }
    }
  }
  for (auto& finding : report.findings) {
    if (finding.prediction && finding.prediction->range &&
        finding.prediction->range->most - finding.prediction->range->least < window / 100) {
      finding.prediction->range.reset();
    }
  }
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    auto const& prediction = report.findings[i].prediction;
    auto const is_chain = report.findings[i].cause == Cause::true_dependency;
    if (!prediction || (!own[i] && !is_chain)) {
      gains[i] = !is_chain;
      continue;
    }
    if (report.findings[i].cause == Cause::priority_cannot_help ||
        (report.findings[i].cause == Cause::one_stream_two_roles &&
         program.recording().has_dependencies)) {
      // Urgent work ends earlier, if nothing else does; a role is more than what was held.
      continue;
    }
    auto const least = prediction->range ? prediction->range->least : prediction->after;
    gains[i] = least < window - window / (is_chain ? kLeastChainGain : kLeastGain);
    if (!gains[i] && fixes > 1 && own[i]) {
      // Another cause may hide what this one would gain.
      Fix others;
      for (std::size_t j = 0; j < own.size(); ++j) {
        if (j != i && own[j]) {
          others.add(*own[j]);
        }
      }
      gains[i] = report.together->after < after(others) - window / kLeastGain;
    }
  }
  return gains;
}

/// Returns the time of a finding in which one activity ran.
Ns lost_beside(Report const& report, Finding const& finding) {
  for (auto const& device : report.devices) {
    for (auto const& time : device.times) {
      if (device.device == finding.device && time.kind == TimeClass::lost &&
          time.cause == finding.cause) {
        return time.time;
      }
    }
  }
  return 0;
}

Report explain(Program const& program, Collectives const& collectives, FindOptions const& options) {
  auto const& recording = program.recording();
  Report report;
  report.window = window_of(recording, options);
  Host const host(program);
  SharedStreams const shared(program, host);
  LeastShares const least{.any = options.least_share};
  std::vector<Ledger> ledgers;
  std::vector<CauseSet> harmless(recording.devices.size(), CauseSet{});
  // Time that cannot be gained is not lost: it counts for the next cause, or as time alone.
  for (bool again = true; again;) {
    again = false;
    ledgers.clear();
    report.devices.clear();
    report.findings.clear();
    report.together.reset();
    report.replay.reset();
    for (Index device = 0; device < recording.devices.size(); ++device) {
      if (program.of_device(device).empty()) {
        continue;
      }
      ledgers.push_back(
          account(program, host, collectives, shared, device, report.window, harmless[device]));
      auto& ledger = ledgers.back();
      ledger.put(Cause::bandwidth_shared,
                 find_shared_bandwidth(program, collectives, ledger, device, report.window));
      auto times = ledger.times();
      report.devices.push_back({.device = device,
                                .spans = ledger.take_spans(),
                                .times = std::move(times),
                                .at_once = ledger.at_once(),
                                .busy = ledger.busy(),
                                .critical_path = {}});
      auto found = findings_of(program, ledger, device, report.window, least);
      std::ranges::move(found, std::back_inserter(report.findings));
    }
    sort_findings(report.findings);
    auto const gains = predict(report, program, host, collectives, shared, ledgers);
    std::vector<Finding> kept;
    for (std::size_t i = 0; i < gains.size(); ++i) {
      auto& finding = report.findings[i];
      auto& known = harmless[finding.device][static_cast<std::size_t>(finding.cause)];
      auto const lost = gains[i]                                 ? 0
                        : finding.cause == Cause::hardware_queue ? finding.lost
                                                                 : lost_beside(report, finding);
      if (lost > 0 && !known && finding.cause != Cause::true_dependency) {
        report.notes.push_back(
            harmless_text(recording, finding.device, finding.cause, lost, report.window));
        known = true;
        again = true;
      } else if (gains[i] || finding.cause != Cause::true_dependency) {
        kept.push_back(std::move(finding));
      }
    }
    report.findings = std::move(kept);
  }
  sort_findings(report.findings);
  if (report.replay) {
    judge_replay(report);
  }
  for (auto& device : report.devices) {
    device.critical_path = critical_path(program, host, device.device, report.window);
  }
  mark_shared_gains(report.findings);
  for (std::size_t i = 0; i < report.devices.size(); ++i) {
    auto const device = report.devices[i].device;
    auto const words = verdict(program, ledgers[i], device, report.window, report.findings);
    if (report.devices.size() == 1) {
      report.verdict = words;
    } else {
      report.verdict += fmt::format(
          "{}device {}: {}", i == 0 ? "" : "; ", recording.devices[device].number, words);
    }
  }
  add_notes(report, program, host, ledgers);
  if (!options.window && options.windows.empty()) {
    add_note_of_start(report);
  }
  return report;
}

/// Returns the times in which a device of a program works, ascending and disjoint.
std::vector<Interval> busy_times(Program const& program, Index device) {
  std::vector<Interval> times;
  for (auto const i : program.of_device(device)) {
    auto const& time = program.activity(i).time;
    if (!times.empty() && time.begin <= times.back().end) {
      times.back().end = std::max(times.back().end, time.end);
    } else {
      times.push_back(time);
    }
  }
  return times;
}

Ns total_of(std::span<Interval const> times) {
  Ns sum = 0;
  for (auto const& time : times) {
    sum += time.length();
  }
  return sum;
}

Ns shared_by(std::span<Interval const> first, std::span<Interval const> second) {
  Ns sum = 0;
  for (std::size_t a = 0, b = 0; a < first.size() && b < second.size();) {
    sum += std::max<Ns>(
        std::min(first[a].end, second[b].end) - std::max(first[a].begin, second[b].begin), 0);
    ++(first[a].end < second[b].end ? a : b);
  }
  return sum;
}

/// Finds the processes that use one device in turn: devices of one number that hardly ever work at
/// once, while each works in much of the time that they share. Ranks of collectives have a device
/// each, whatever its number.
void find_turns(std::vector<Program>& programs) {
  constexpr Ns kMostShared = 50;  // of the shorter time, divided by this
  constexpr Ns kLeastBusy = 10;   // of the time that they share, divided by this
  auto const number_of = [](Program const& program, Index device) {
    return program.recording().devices[device].number;
  };
  for (auto& own : programs) {
    for (Index device = 0; device < own.recording().devices.size(); ++device) {
      auto const times = busy_times(own, device);
      for (auto const& other : programs) {
        bool const may_share =
            &own != &other && !times.empty() && own.recording().collectives.empty() &&
            other.recording().collectives.empty() && number_of(own, device) != kUnknown;
        for (Index d = 0; may_share && d < other.recording().devices.size(); ++d) {
          auto others = busy_times(other, d);
          if (number_of(other, d) != number_of(own, device) || others.empty()) {
            continue;
          }
          auto const both = std::min(times.back().end, others.back().end) -
                            std::max(times.front().begin, others.front().begin);
          auto const shorter = std::min(total_of(times), total_of(others));
          if (shorter > both / kLeastBusy && shared_by(times, others) < shorter / kMostShared &&
              own.turns_of_others(device).empty()) {
            own.set_turns_of_others(device, std::move(others));
          }
        }
      }
    }
  }
}

}  // namespace

Report find(Recording const& recording, FindOptions const& options) {
  Program const program(recording);
  return explain(program, Collectives(program), options);
}

std::vector<Report> find(std::span<Recording const> ranks, FindOptions const& options) {
  std::vector<Program> programs;
  programs.reserve(ranks.size());
  std::vector<Collectives> collectives;
  collectives.reserve(ranks.size());
  for (auto const& recording : ranks) {
    programs.emplace_back(recording);
    collectives.emplace_back(programs.back());
  }
  auto const doubts = align(ranks, collectives);
  find_turns(programs);
  std::vector<Report> reports;
  reports.reserve(ranks.size());
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    auto of_rank = options;
    if (!options.windows.empty()) {
      of_rank.window = options.windows.at(rank);
    }
    reports.push_back(explain(programs[rank], collectives[rank], of_rank));
    std::ranges::copy(doubts, std::back_inserter(reports.back().notes));
  }
  return reports;
}

}  // namespace msstream::overlap
