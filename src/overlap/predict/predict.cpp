// SPDX-License-Identifier: Apache-2.0
#include "overlap/predict/predict.hpp"

#include "overlap/find/findings.hpp"
#include "overlap/find/hold.hpp"
#include "overlap/find/words.hpp"
#include "overlap/predict/replay.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace msstream::overlap {
namespace {

/// A fix gains something if it is at least the window divided by this.
constexpr Ns kLeastGain = 100;
/// Likewise, of leaving out waits that the program may need.
constexpr Ns kLeastChainGain = 50;

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

}  // namespace

std::vector<Gain> predict(Report& report,
                          Program const& program,
                          Host const& host,
                          Collectives const& collectives,
                          SharedStreams const& shared,
                          std::span<Ledger const> ledgers) {
  std::vector<Gain> gains(report.findings.size(), Gain::all);
  if (report.findings.empty()) {
    return gains;
  }
  Replay const replay(program, host, collectives, ledgers, report.window);
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
  std::vector<CauseSum const*> sums(report.findings.size());
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    auto& finding = report.findings[i];
    std::size_t place = 0;
    while (report.devices[place].device != finding.device) {
      ++place;
    }
    sums[i] = &sum_of(ledgers[place], finding.cause);
    auto fix = fix_of(program, host, holds, shared, finding.cause, *sums[i]);
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
    } else if (finding.cause == Cause::collective_order ||
               (finding.cause == Cause::collective_holds_sms && finding.is_guess)) {
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
    } else if (finding.cause == Cause::pageable_copy && replay.assumes_bus(fix->pinned)) {
      auto half = *fix;
      half.bus_share = 0.5;
      auto const beside = after_with_room(*fix);
      prediction.range = {std::min(prediction.after, beside),
                          std::max(after(half), prediction.after),
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
  // Another cause may hide the gain of a fix, so it is also predicted beside all other fixes.
  auto const beside_others = [&](std::size_t i) {
    if (fixes <= 1) {
      return Ns{0};
    }
    Fix others;
    for (std::size_t j = 0; j < own.size(); ++j) {
      if (j != i && own[j]) {
        others.add(*own[j]);
      }
    }
    return after(others) - report.together->after;
  };
  for (std::size_t i = 0; i < report.findings.size(); ++i) {
    auto const& prediction = report.findings[i].prediction;
    auto const cause = report.findings[i].cause;
    auto const is_chain = cause == Cause::true_dependency;
    if (!prediction || (!own[i] && !is_chain)) {
      gains[i] = is_chain ? Gain::nothing : Gain::all;
      continue;
    }
    if (cause == Cause::priority_cannot_help ||
        (cause == Cause::one_stream_two_roles && program.recording().has_dependencies)) {
      // Urgent work ends earlier, if nothing else does; a role is more than what was held.
      continue;
    }
    auto const least = prediction->range ? prediction->range->least : prediction->after;
    if (least >= window - window / (is_chain ? kLeastChainGain : kLeastGain) &&
        (is_chain || beside_others(i) <= window / kLeastGain)) {
      gains[i] = Gain::nothing;
      continue;
    }
    // The host could have issued work beside what ran, which would have waited all the same.
    auto const idle = sums[i]->idle + window / kLeastGain;
    if (is_of_host(cause) && sums[i]->lost > 0 && window - prediction->after <= idle &&
        beside_others(i) <= idle) {
      gains[i] = Gain::idle_time;
    }
  }
  return gains;
}

}  // namespace msstream::overlap
