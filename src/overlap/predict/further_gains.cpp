// SPDX-License-Identifier: Apache-2.0
#include "overlap/predict/further_gains.hpp"

#include "overlap/find/findings.hpp"
#include "overlap/find/hold.hpp"
#include "overlap/find/tolerances.hpp"
#include "overlap/predict/replay.hpp"
#include "overlap/recording/duration_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

namespace msstream::overlap {
namespace {

constexpr Ns kLeastFurther = 10;  ///< of the window, divided by this

bool has_finding(Report const& report, Cause cause) {
  return std::ranges::any_of(report.findings,
                             [&](Finding const& finding) { return finding.cause == cause; });
}

bool is_in_window(Report const& report, Activity const& activity) {
  return activity.time.begin >= report.window.begin && activity.time.end <= report.window.end;
}

/// Kernels that began as soon as they were launched, of all that were.
struct Launched {
  std::size_t late = 0;
  std::size_t all = 0;
};

/// Counts the kernels of a window to which the host came late: their stream had nothing to run
/// until they were launched, right after another call of their thread.
Launched count_launched(Report const& report, Program const& program, Host const& host) {
  Launched count;
  for (Index i = 0; i < program.recording().activities.size(); ++i) {
    auto const& kernel = program.activity(i);
    if (kernel.kind != ActivityKind::kernel || !program.has_call(i) ||
        !is_in_window(report, kernel)) {
      continue;
    }
    ++count.all;
    auto const before = program.previous(i);
    auto const issued = program.issued(i);
    auto const& calls = host.calls_of(program.thread_of(i));
    auto const call = std::ranges::lower_bound(calls, kernel.call);
    bool const goes_on =
        call != calls.begin() &&
        program.called(i) - program.call(*(call - 1)).time.end <= tolerance::kLaunchLatency;
    bool const is_late = before != kNone && program.activity(before).time.end < issued &&
                         program.ready(i) == issued &&
                         kernel.time.begin - issued <= tolerance::kLaunchLatency;
    count.late += goes_on && is_late ? 1 : 0;
  }
  return count;
}

/// Returns the large copies that follow kernels of their stream, or that kernels of it follow: with
/// a stream of their own, they run beside these.
Fix fix_of_roles(Report const& report, Program const& program) {
  Fix fix;
  auto const is_kernel = [&](Index i) {
    return i != kNone && program.activity(i).kind == ActivityKind::kernel;
  };
  for (Index i = 0; i < program.recording().activities.size(); ++i) {
    auto const& copy = program.activity(i);
    bool const is_large = copy.kind == ActivityKind::copy && !is_pageable(copy) &&
                          copy.bytes >= tolerance::kSmallCopyBytes && is_in_window(report, copy);
    bool const is_between =
        (copy.direction == CopyDirection::h2d && is_kernel(program.previous(i))) ||
        (copy.direction == CopyDirection::d2h && is_kernel(program.next(i)));
    if (is_large && is_between) {
      fix.moved.insert(i);
    }
  }
  return fix;
}

/// Returns the fixes of all findings together; nothing if none has one.
std::optional<Fix> fix_of_all(Report const& report,
                              Program const& program,
                              Host const& host,
                              Collectives const& collectives,
                              SharedStreams const& shared,
                              std::span<Ledger const> ledgers) {
  Holds const holds(program, collectives);
  std::optional<Fix> all;
  for (auto const& finding : report.findings) {
    std::size_t place = 0;
    while (report.devices[place].device != finding.device) {
      ++place;
    }
    auto const& sum = sum_of(ledgers[place], finding.cause);
    auto const fix = finding.cause == Cause::true_dependency
                         ? std::nullopt
                         : fix_of(program, host, holds, shared, finding.cause, sum);
    if (fix && all) {
      all->add(*fix);
    } else if (fix) {
      all = fix;
    }
  }
  return all;
}

std::string gain_text(Ns before, Ns after) {
  return fmt::format("{} → {}, {:.2f}x",
                     duration_text(before),
                     duration_text(after),
                     static_cast<double>(before) / static_cast<double>(std::max<Ns>(after, 1)));
}

}  // namespace

void note_further_gains(Report& report,
                        Program const& program,
                        Host const& host,
                        Collectives const& collectives,
                        SharedStreams const& shared,
                        std::span<Ledger const> ledgers) {
  if (program.recording().calls.empty() || program.may_lack_waits() ||
      (report.replay && !report.replay->is_trusted())) {
    return;
  }
  bool const is_told =
      has_finding(report, Cause::launch_bound) || has_finding(report, Cause::short_kernels);
  auto const launched = is_told ? Launched{} : count_launched(report, program, host);
  bool const is_behind = launched.all > 0 && 2 * launched.late >= launched.all;
  std::optional<Fix> all;
  Fix roles;
  if (!report.findings.empty() && !has_finding(report, Cause::one_stream_two_roles)) {
    roles = fix_of_roles(report, program);
    if (!roles.moved.empty()) {
      all = fix_of_all(report, program, host, collectives, shared, ledgers);
    }
  }
  if (!is_behind && !all) {
    return;
  }
  Replay const replay(program, host, collectives, ledgers, report.window);
  auto const before = replay.run({}).makespan_ns;
  ReplayCheck const check{replay.recorded_ns(), static_cast<Ns>(before)};
  if (before <= 0 || !check.is_trusted()) {
    return;
  }
  auto const window = report.window.length();
  auto const after = [&](Fix const& fix) {
    auto const fixed = replay.run(fix);
    double const ratio = std::min(std::max(fixed.makespan_ns, fixed.least_ns) / before, 1.0);
    return static_cast<Ns>(ratio * static_cast<double>(window));
  };
  if (is_behind) {
    Fix graph;
    graph.graph = true;
    if (auto const gained = after(graph); gained < window - window / kLeastFurther) {
      report.notes.push_back(fmt::format(
          "{} of {} kernels began as soon as they were launched, in streams that had nothing to "
          "run until then. Since other streams ran meanwhile, no time is lost to that here, but "
          "with a graph, fused kernels, or a thread for each stream more would run at once: a "
          "graph is predicted to gain {} ({}).",
          launched.late,
          launched.all,
          duration_text(window - gained),
          gain_text(window, gained)));
    }
  }
  if (all) {
    auto const mended = after(*all);
    all->add(roles);
    if (auto const gained = after(*all); gained < mended - mended / kLeastFurther) {
      report.notes.push_back(fmt::format(
          "Once the findings are mended, copies and kernels of one stream are in each other's way "
          "(one-stream-two-roles), which shows only then: a stream of their own for the copies, "
          "with two buffers, is predicted to gain {} more ({}).",
          duration_text(mended - gained),
          gain_text(mended, gained)));
    }
  }
}

}  // namespace msstream::overlap
