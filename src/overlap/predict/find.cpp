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
#include "overlap/find/shared_streams.hpp"
#include "overlap/find/words.hpp"
#include "overlap/predict/further_gains.hpp"
#include "overlap/predict/predict.hpp"
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

/// From which error on a replay without a fix has a note.
constexpr double kNotedError = 0.1;

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
  struct HarmlessNote {
    Index device = 0;
    Cause cause = Cause::unknown;
    std::string text;
  };
  std::vector<HarmlessNote> harmless_notes;
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
      bool const is_chain = finding.cause == Cause::true_dependency;
      auto const lost = gains[i] == Gain::all                    ? 0
                        : finding.cause == Cause::hardware_queue ? finding.lost
                                                                 : lost_beside(report, finding);
      if (lost > 0 && !known && !is_chain) {
        harmless_notes.push_back({finding.device,
                                  finding.cause,
                                  harmless_text(recording,
                                                finding.device,
                                                finding.cause,
                                                lost,
                                                report.window,
                                                gains[i] == Gain::idle_time)});
        known = true;
        again = true;
      } else if (gains[i] != Gain::nothing || !is_chain) {
        kept.push_back(std::move(finding));
      }
    }
    report.findings = std::move(kept);
  }
  sort_findings(report.findings);
  for (auto& note : harmless_notes) {
    bool const is_found = note.cause == Cause::multiprocessors_full &&
                          std::ranges::any_of(report.findings, [&](Finding const& finding) {
                            return finding.device == note.device && finding.cause == note.cause;
                          });
    if (!is_found) {
      report.notes.push_back(std::move(note.text));
    }
  }
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
  note_further_gains(report, program, host, collectives, shared, ledgers);
  if (!options.window && options.windows.empty()) {
    add_note_of_start(report);
  }
  return report;
}

void append_to_union(std::vector<Interval>& times, Interval time) {
  if (!times.empty() && time.begin <= times.back().end) {
    times.back().end = std::max(times.back().end, time.end);
  } else {
    times.push_back(time);
  }
}

/// Returns the times in which a device of a program works, ascending and disjoint.
std::vector<Interval> busy_times(Program const& program, Index device) {
  std::vector<Interval> times;
  for (auto const i : program.of_device(device)) {
    append_to_union(times, program.activity(i).time);
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

/// Notes that one rank of several does not tell how long its collectives waited for others.
void note_lone_rank(Report& report, Program const& program, Collectives const& collectives) {
  constexpr Ns kLeastParts = 20;  // of the window
  auto const& recording = program.recording();
  bool const is_one_of_several =
      recording.ranks != 1 && std::ranges::any_of(recording.collectives, [](Collective const& one) {
        return one.ranks != 1;
      });
  if (!is_one_of_several) {
    return;
  }
  for (auto const& device : report.devices) {
    std::vector<Interval> waiting;
    std::vector<Interval> others;
    for (auto const i : program.of_device(device.device)) {
      if (is_in(program.activity(i).time, report.window)) {
        append_to_union(collectives.is_one(i) ? waiting : others,
                        clipped(program.activity(i).time, report.window));
      }
    }
    auto const exposed = total_of(waiting) - shared_by(waiting, others);
    if (exposed > 0 && exposed >= report.window.length() / kLeastParts) {
      report.notes.push_back(fmt::format(
          "GPU {}: collectives ran with nothing beside them for {} ({}). One rank alone does not "
          "tell how much of that they waited for other ranks: give the recordings of several ranks "
          "at once.",
          recording.devices[device.device].number,
          duration_text(exposed),
          share_text(exposed, report.window.length())));
    }
  }
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
  Collectives const collectives(program);
  auto report = explain(program, collectives, options);
  note_lone_rank(report, program, collectives);
  return report;
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
