// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/findings.hpp"

#include "overlap/find/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace msstream::overlap {
namespace {

constexpr double kBusy = 0.85;        ///< from which share on a device counts as busy
constexpr double kMainStream = 0.98;  ///< a stream with more of the work is the only one

double least_share(Cause cause, LeastShares const& least) {
  switch (cause) {
    case Cause::launch_bound:
    case Cause::host_busy:
      return std::max(least.any, least.host);
    case Cause::short_kernels:
      return std::max(least.any, least.steps);
    case Cause::unknown:
      return std::max(least.any, least.unknown);
    case Cause::true_dependency:
      return std::max(least.any, least.chain);
    default:
      return least.any;
  }
}

Finding finding_of(
    Program const& program, Ledger& ledger, Cause cause, Index device, Interval window) {
  auto const& sum = sum_of(ledger, cause);
  Finding finding;
  finding.cause = cause;
  finding.device = device;
  finding.lost = sum.time();
  finding.intervals = ledger.take_intervals(cause);
  finding.occurrences = sum.occurrences;
  finding.is_guess = sum.is_guess();
  finding.summary =
      summary(program, cause, sum, window) +
      class_text(cause, sum, ledger.of(Cause::true_dependency).idle - ledger.dependent().idle);
  auto const framework = framework_of(program.recording());
  finding.advice = advice(cause, framework);
  bool const grows_pool = std::ranges::any_of(
      sum.calls, [&](Index call) { return program.call(call).kind == CallKind::pool_memory; });
  if (cause == Cause::driver_allocation && grows_pool) {
    finding.advice += pool_advice();
  }
  auto const graphs = std::ranges::count_if(
      sum.calls, [&](Index call) { return program.call(call).kind == CallKind::graph_launch; });
  if (cause == Cause::launch_bound && 2 * static_cast<std::size_t>(graphs) > sum.calls.size()) {
    finding.advice = graph_launch_advice(framework);
  }
  if (cause == Cause::host_busy && 2 * sum.idle > window.length()) {
    finding.advice += idle_advice();
  }
  for (auto const& charge : sum.largest) {
    auto const is_same = charge.held == charge.holder;
    finding.evidence.push_back({.text = evidence_text(program, cause, charge),
                                .time = charge.time,
                                .activity = charge.held,
                                .other = is_same ? kNone : charge.holder,
                                .call = charge.call});
  }
  return finding;
}

/// Returns the time in which a device runs anything but copies.
Ns busy_without_copies(Program const& program, Index device, Interval window) {
  Ns sum = 0;
  Ns until = window.begin;
  for (auto const i : program.of_device(device)) {
    auto const& activity = program.activity(i);
    auto const time = clipped(activity.time, window);
    if (activity.kind != ActivityKind::copy && time.end > until) {
      sum += time.end - std::max(time.begin, until);
      until = time.end;
    }
  }
  return sum;
}

/// Returns the time in which each stream works in the window.
std::vector<Ns> work_of_streams(Program const& program, Index device, Interval window) {
  std::vector<Ns> work;
  for (auto const stream : program.streams_of(device)) {
    Ns sum = 0;
    Ns until = window.begin;  // kernels of one stream may overlap
    for (auto const i : program.of_stream(stream)) {
      auto const time = clipped(program.activity(i).time, window);
      sum += std::max<Ns>(time.end - std::max(time.begin, until), 0);
      until = std::max(until, time.end);
    }
    if (sum > 0) {
      work.push_back(sum);
    }
  }
  std::ranges::sort(work, std::ranges::greater());
  return work;
}

bool is_one_stream(std::vector<Ns> const& work) {
  Ns sum = 0;
  for (auto const part : work) {
    sum += part;
  }
  return work.empty() ||
         static_cast<double>(work.front()) >= kMainStream * static_cast<double>(sum);
}

/// Whether two lists of disjoint intervals meet: parts of one idle time.
bool meet(std::vector<Interval> const& a, std::vector<Interval> const& b) {
  std::size_t j = 0;
  for (auto const& interval : a) {
    while (j < b.size() && b[j].end < interval.begin) {
      ++j;
    }
    if (j < b.size() && b[j].begin <= interval.end) {
      return true;
    }
  }
  return false;
}

/// The most that a fix is predicted to gain; nothing without a prediction, which promises nothing.
Ns best_gain(Finding const& finding) {
  auto const& prediction = finding.prediction;
  if (!prediction) {
    return 0;
  }
  return prediction->before - (prediction->range ? prediction->range->least : prediction->after);
}

}  // namespace

bool gains_nothing(Finding const& finding) {
  constexpr Ns kLeastParts = 200;  // of the window
  auto const& prediction = finding.prediction;
  if (!prediction || finding.cause == Cause::priority_cannot_help) {
    return false;  // unknown; urgent work gains, whatever the window does
  }
  return best_gain(finding) < prediction->before / kLeastParts;
}

bool has_several_streams(Program const& program, Index device, Interval window) {
  return !is_one_stream(work_of_streams(program, device, window));
}

Ns longest_work(Program const& program, Index device, Interval window) {
  auto const work = work_of_streams(program, device, window);
  return work.empty() ? 0 : std::min(work.front(), window.length());
}

CauseSum const& sum_of(Ledger const& ledger, Cause cause) {
  return cause == Cause::true_dependency ? ledger.dependent() : ledger.of(cause);
}

std::vector<Finding> findings_of(Program const& program,
                                 Ledger& ledger,
                                 Index device,
                                 Interval window,
                                 LeastShares const& least) {
  std::vector<Finding> findings;
  auto const enough = [&](Cause cause) {
    auto const time = sum_of(ledger, cause).time();
    return time > 0 && static_cast<double>(time) >=
                           least_share(cause, least) * static_cast<double>(window.length());
  };
  // Kernels that fill the device and gain nothing from each other are no fault either: they count
  // as time alone, and say why nothing overlapped if no other finding does.
  auto const& full = ledger.of(Cause::multiprocessors_full);
  bool const gains_from_room = full.idle + full.lost > 0;
  for (auto const& text : cause_texts()) {
    bool const is_fault = text.cause != Cause::true_dependency &&
                          (text.cause != Cause::multiprocessors_full || gains_from_room);
    if (is_fault && enough(text.cause)) {
      findings.push_back(finding_of(program, ledger, text.cause, device, window));
      if (text.cause == Cause::unknown) {
        findings.back().advice = record_text(ledger.mostly_missing(), program.recording());
      }
    }
  }
  bool const is_full =
      findings.empty() && !gains_from_room && full.time() > 0 &&
      static_cast<double>(full.time()) >= least.full * static_cast<double>(window.length());
  // A chain of work is no fault, and comes last. Beside other findings, its waits are worth a look
  // also if they take less time.
  auto const& chain = ledger.dependent();
  auto of_chain = least;
  of_chain.chain = findings.empty() ? least.chain : least.chain_beside;
  if (static_cast<double>(chain.time()) >=
          least_share(Cause::true_dependency, of_chain) * static_cast<double>(window.length()) &&
      chain.time() > 0 && (chain.idle > 0 || has_several_streams(program, device, window))) {
    findings.push_back(finding_of(program, ledger, Cause::true_dependency, device, window));
    if (chain.idle > chain.beside) {
      findings.back().advice = other_device_advice();
    }
  }
  if (is_full) {
    findings.push_back(finding_of(program, ledger, Cause::multiprocessors_full, device, window));
    findings.back().advice = full_advice();
  }
  sort_findings(findings);
  return findings;
}

void sort_findings(std::vector<Finding>& findings) {
  constexpr Ns kNear = 4;  // losses that differ by at most the larger one divided by this
  auto const rank = [](Finding const& one) {
    return one.cause == Cause::true_dependency ? 2 : gains_nothing(one) ? 1 : 0;
  };
  auto const weight = [](Finding const& one) { return one.is_guess ? one.lost / 2 : one.lost; };
  std::ranges::stable_sort(findings, [&](Finding const& a, Finding const& b) {
    return rank(a) != rank(b) ? rank(a) < rank(b) : weight(a) > weight(b);
  });
  // Losses that are nearly equal say less than what the fixes bring.
  for (auto first = findings.begin(); first != findings.end();) {
    auto const last = std::find_if(first, findings.end(), [&](Finding const& one) {
      return rank(one) != rank(*first) || kNear * (weight(*first) - weight(one)) > weight(*first);
    });
    std::stable_sort(first, last, [](Finding const& a, Finding const& b) {
      return best_gain(a) > best_gain(b);
    });
    first = last;
  }
}

void mark_shared_gains(std::vector<Finding>& findings) {
  for (Index i = 0; i < findings.size(); ++i) {
    findings[i].overlaps_with.clear();
    for (Index j = 0; j < findings.size(); ++j) {
      if (i != j && findings[i].device == findings[j].device &&
          meet(findings[i].intervals, findings[j].intervals)) {
        findings[i].overlaps_with.push_back(j);
      }
    }
  }
}

std::string verdict(Program const& program,
                    Ledger const& ledger,
                    Index device,
                    Interval window,
                    std::vector<Finding> const& findings) {
  auto const work = work_of_streams(program, device, window);
  bool const one = is_one_stream(work);
  auto const busy = ledger.busy();
  Ns at_once = 0;
  for (std::size_t count = 2; count < ledger.at_once().size(); ++count) {
    at_once += ledger.at_once()[count];
  }
  std::string state;
  bool const is_busy = static_cast<double>(busy) >= kBusy * static_cast<double>(window.length());
  // A chain of work on a busy device is no fault.
  auto const first = std::ranges::find_if(findings, [&](Finding const& finding) {
    return finding.device == device && !gains_nothing(finding) &&
           !(is_busy && finding.cause == Cause::true_dependency);
  });
  if (first != findings.end()) {
    state = fmt::format(", {}", text_of(first->cause).id);
  } else if (is_busy) {
    bool const by_copies = 2 * busy_without_copies(program, device, window) < busy;
    state = by_copies ? ", busy with copies" : ", busy";
  }
  auto const streams = work.empty()       ? std::string("no work that took time")
                       : !one             ? fmt::format("{} streams", work.size())
                       : work.size() == 1 ? std::string("one stream")
                                          : fmt::format("one main stream of {}", work.size());
  auto const share =
      one ? std::string()
          : fmt::format(", {} with two or more activities", share_text(at_once, window.length()));
  return fmt::format("{}{}: {} busy{}", streams, state, share_text(busy, window.length()), share);
}

}  // namespace msstream::overlap
