// SPDX-License-Identifier: Apache-2.0
#include "overlap/predict/explain.hpp"

#include "overlap/find/account.hpp"
#include "overlap/find/bandwidth.hpp"
#include "overlap/find/critical_path.hpp"
#include "overlap/find/findings.hpp"
#include "overlap/find/host.hpp"
#include "overlap/find/notes.hpp"
#include "overlap/find/shared_streams.hpp"
#include "overlap/find/words.hpp"
#include "overlap/predict/further_gains.hpp"
#include "overlap/predict/predict.hpp"
#include "overlap/recording/duration_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
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

/// Returns the time of which a recording tells anything.
Interval recorded(Recording const& recording) {
  auto whole = recording.extent().value_or(Interval{});
  auto const add = [&whole](auto const& elements) {
    for (auto const& element : elements) {
      whole.begin = std::min(whole.begin, element.time.begin);
      whole.end = std::max(whole.end, element.time.end);
    }
  };
  add(recording.calls);
  add(recording.overheads);
  add(recording.ranges);
  return whole;
}

/// Cuts a window where the recording ends, of which a note tells.
Interval cut(Interval window, Recording const& recording, std::vector<std::string>& notes) {
  auto const extent = recording.extent().value_or(Interval{});
  if (window.begin >= extent.begin && window.end <= extent.end) {
    return window;
  }
  auto const whole = recorded(recording);
  Interval const known{std::max(window.begin, whole.begin), std::min(window.end, whole.end)};
  if (known != window) {
    notes.push_back(
        fmt::format("The window asked for, {}, reaches beyond the recording: explained is {}.",
                    interval_text(window),
                    interval_text(known)));
  }
  return known;
}

/// From which error on a replay without a fix has a note.
constexpr double kNotedError = 0.1;

/// Notes how far the replay without a fix is from the recorded window, if predictions need it.
void judge_replay(Report& report) {
  if (!report.replay) {
    return;
  }
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

/// Explains a window of a program. Time that cannot be gained is not lost: it counts for the next
/// cause, or as time alone, so that the time is accounted again without each such cause.
class Explainer {
 public:
  Explainer(Program const& program, Collectives const& collectives, Interval window)
      : program_(program),
        collectives_(collectives),
        host_(program),
        shared_(program, host_),
        harmless_(program.recording().devices.size(), CauseSet{}) {
    report_.window = cut(window, program.recording(), report_.notes);
    mark_bounded_unknown();
  }

  [[nodiscard]] Report report(FindOptions const& options) && {
    do {
      account_devices({.any = options.least_share});
    } while (leave_out_harmless());
    sort_findings(report_.findings);
    note_harmless();
    judge_replay(report_);
    for (auto& device : report_.devices) {
      device.critical_path = critical_path(program_, host_, device.device, report_.window);
    }
    mark_shared_gains(report_.findings);
    give_verdict();
    add_notes(report_, program_, host_, ledgers_);
    note_further_gains(report_, program_, host_, collectives_, shared_, ledgers_);
    if (!options.window && options.windows.empty()) {
      add_note_of_start(report_);
    }
    return std::move(report_);
  }

 private:
  struct HarmlessNote {
    Index device = 0;
    Cause cause = Cause::unknown;
    std::string text;
  };

  /// Time that a recording does not explain is harmless on a device on which one stream works
  /// nearly all the time: whatever it is, little can be gained.
  void mark_bounded_unknown() {
    constexpr Ns kLeastIdle = 10;  // of the window, divided by this
    auto const window = report_.window;
    for (Index device = 0; device < program_.recording().devices.size(); ++device) {
      auto const idle = window.length() - longest_work(program_, device, window);
      harmless_[device][static_cast<std::size_t>(Cause::unknown)] =
          idle < window.length() / kLeastIdle && has_several_streams(program_, device, window);
    }
  }

  /// Accounts the time of each device that has work, without the causes that are known to be
  /// harmless, and finds what was lost.
  void account_devices(LeastShares const& least) {
    ledgers_.clear();
    report_.devices.clear();
    report_.findings.clear();
    report_.together.reset();
    report_.replay.reset();
    for (Index device = 0; device < program_.recording().devices.size(); ++device) {
      if (program_.of_device(device).empty()) {
        continue;
      }
      ledgers_.push_back(account(
          program_, host_, collectives_, shared_, device, report_.window, harmless_[device]));
      auto& ledger = ledgers_.back();
      ledger.put(Cause::bandwidth_shared,
                 find_shared_bandwidth(program_, collectives_, ledger, device, report_.window));
      auto times = ledger.times();
      report_.devices.push_back({.device = device,
                                 .spans = ledger.take_spans(),
                                 .times = std::move(times),
                                 .at_once = ledger.at_once(),
                                 .busy = ledger.busy(),
                                 .critical_path = {}});
      auto found = findings_of(program_, ledger, device, report_.window, least);
      std::ranges::move(found, std::back_inserter(report_.findings));
    }
    sort_findings(report_.findings);
  }

  /// Predicts what fixes gain, and leaves out the findings whose time cannot be gained. Returns
  /// whether a cause is now known to be harmless that was not before.
  [[nodiscard]] bool leave_out_harmless() {
    auto const gains = predict(report_, program_, host_, collectives_, shared_, ledgers_);
    bool is_new = false;
    std::vector<Finding> kept;
    for (std::size_t i = 0; i < gains.size(); ++i) {
      auto& finding = report_.findings[i];
      auto& known = harmless_[finding.device][static_cast<std::size_t>(finding.cause)];
      bool const is_chain = finding.cause == Cause::true_dependency;
      auto const lost = gains[i] == Gain::all                    ? 0
                        : finding.cause == Cause::hardware_queue ? finding.lost
                                                                 : lost_beside(report_, finding);
      if (lost > 0 && !known && !is_chain) {
        harmless_notes_.push_back({finding.device,
                                   finding.cause,
                                   harmless_text(program_.recording(),
                                                 finding.device,
                                                 finding.cause,
                                                 lost,
                                                 report_.window,
                                                 gains[i] == Gain::idle_time)});
        known = true;
        is_new = true;
      } else if (gains[i] != Gain::nothing || !is_chain) {
        kept.push_back(std::move(finding));
      }
    }
    report_.findings = std::move(kept);
    return is_new;
  }

  /// Notes the harmless causes, but for full multiprocessors if they are a finding all the same.
  void note_harmless() {
    for (auto& note : harmless_notes_) {
      bool const is_found = note.cause == Cause::multiprocessors_full &&
                            std::ranges::any_of(report_.findings, [&](Finding const& finding) {
                              return finding.device == note.device && finding.cause == note.cause;
                            });
      if (!is_found) {
        report_.notes.push_back(std::move(note.text));
      }
    }
  }

  void give_verdict() {
    for (std::size_t i = 0; i < report_.devices.size(); ++i) {
      auto const device = report_.devices[i].device;
      auto const words = verdict(program_, ledgers_[i], device, report_.window, report_.findings);
      if (report_.devices.size() == 1) {
        report_.verdict = words;
      } else {
        report_.verdict += fmt::format(
            "{}GPU {}: {}", i == 0 ? "" : "; ", program_.recording().devices[device].number, words);
      }
    }
  }

  Program const& program_;
  Collectives const& collectives_;
  Host host_;
  SharedStreams shared_;
  std::vector<CauseSet> harmless_;  ///< of each device
  std::vector<HarmlessNote> harmless_notes_;
  std::vector<Ledger> ledgers_;  ///< of report_.devices
  Report report_;
};

}  // namespace

Report explain(Program const& program, Collectives const& collectives, FindOptions const& options) {
  return Explainer(program, collectives, window_of(program.recording(), options)).report(options);
}

}  // namespace msstream::overlap
