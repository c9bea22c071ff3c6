// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/host.hpp"

#include "overlap/find/tolerances.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace msstream::overlap {
namespace {

/// The time between two launches that both wait for room in the queue.
constexpr Ns kBetweenLaunches = 20'000;
constexpr Ns kNotYet = std::numeric_limits<Ns>::min();

Ns median(std::vector<Ns>& values) {
  if (values.empty()) {
    return 0;
  }
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Whether a call asks for facts about a kernel, for which CUDA loads it.
bool asks_for_a_kernel(std::string_view name) {
  constexpr std::string_view kBegins[] = {"cudaFunc",
                                          "cuFunc",
                                          "cudaOccupancy",
                                          "cuOccupancy",
                                          "cuKernel",
                                          "cuLibraryGet",
                                          "cuModuleGetFunction",
                                          "hipModuleGetFunction"};
  return std::ranges::any_of(kBegins,
                             [&](std::string_view begin) { return name.starts_with(begin); });
}

}  // namespace

Host::Host(Program const& program) : program_(program) {
  auto const& recording = program.recording();
  threads_.resize(std::max<std::size_t>(recording.threads.size(), 1));
  for (Index i = 0; i < recording.calls.size(); ++i) {
    threads_[recording.calls[i].thread].calls.push_back(i);
  }
  for (Index i = 0; i < recording.overheads.size(); ++i) {
    auto const thread = recording.overheads[i].thread;
    for (Index t = 0; t < threads_.size(); ++t) {
      if (thread == kNone || thread == t) {
        threads_[t].overheads.push_back(i);
      }
    }
  }
  for (auto const& range : recording.ranges) {
    if (range.kind != RangeKind::operation || range.thread == kNone) {
      continue;
    }
    auto& merged = threads_[range.thread].operations;
    if (!merged.empty() && range.time.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.time.end);
    } else {
      merged.push_back(range.time);
    }
  }
  judge_calls();
  add_overheads();
  judge_gaps();
}

void Host::judge_calls() {
  auto const& recording = program_.recording();
  first_launches_.assign(recording.calls.size(), false);
  std::unordered_set<NameId> launched{0};  // kernels without a name are not told apart
  std::vector<Ns> launches;
  issue_times_.reserve(recording.activities.size());
  for (Index i = 0; i < recording.activities.size(); ++i) {
    auto const& activity = recording.activities[i];
    issue_times_.push_back(program_.issued(i));
    if (activity.call == kNone) {
      continue;
    }
    threads_[program_.thread_of(i)].issues = true;
    if (activity.kind == ActivityKind::kernel && launched.insert(activity.name).second) {
      first_launches_[activity.call] = true;
    }
    if (recording.calls[activity.call].kind == CallKind::launch) {
      launches.push_back(recording.calls[activity.call].time.length());
    }
  }
  if (std::ranges::any_of(recording.calls,
                          [](Call const& call) { return call.kind == CallKind::query; })) {
    find_latest_ends();
  }
  std::ranges::sort(issue_times_);
  // The faster ones: where the queue is full, most launches wait.
  if (!launches.empty()) {
    auto const fast = launches.begin() + static_cast<std::ptrdiff_t>(launches.size() / 10);
    std::ranges::nth_element(launches, fast);
    usual_launch_ = *fast;
  }
  find_queues();
  find_driver_calls();
  causes_.assign(recording.calls.size(), Cause::launch_bound);
  for (auto& thread : threads_) {
    for (std::size_t place = 0; place < thread.calls.size(); ++place) {
      auto const call = thread.calls[place];
      auto cause = judge(thread, place);
      if (auto const other = held_up_by(call, cause); other != kNone) {
        held_up_[call] = other;
        bool const loads = recording.calls[other].kind == CallKind::load_module ||
                           recording.calls[other].kind == CallKind::launch;
        cause = loads ? Cause::lazy_loading : Cause::driver_allocation;
      }
      causes_[call] = cause;
      if (cause == Cause::launch_bound || cause == Cause::host_busy) {
        continue;
      }
      auto const& time = recording.calls[call].time;
      bool const reads = copies_before(thread, place) && causes_[thread.calls[place - 1]] == cause;
      bool const queues_again = cause == Cause::queue_is_full && !thread.blocking.empty() &&
                                thread.blocking.back().cause == cause &&
                                time.begin - thread.blocking.back().time.end < kBetweenLaunches;
      if (queues_again || reads || (place > 0 && asks_again(thread.calls[place - 1], call))) {
        thread.blocking.back().time.end = time.end;
      } else {
        thread.blocking.push_back({time, cause, behind(call)});
      }
      if (recording.calls[call].kind == CallKind::query) {
        polls_[call] = thread.blocking.back().call;
      }
    }
  }
  queued_ = {};
  begun_ = {};
}

/// Finds the calls during which the driver keeps those of other threads waiting.
void Host::find_driver_calls() {
  auto const& calls = program_.recording().calls;
  for (Index i = 0; i < calls.size() && threads_.size() > 1; ++i) {
    auto const kind = calls[i].kind;
    if (kind == CallKind::allocate || kind == CallKind::release || kind == CallKind::load_module ||
        (kind == CallKind::pool_memory && calls[i].time.length() > tolerance::kPoolGrows) ||
        (first_launches_[i] && calls[i].time.length() > long_loading())) {
      driver_calls_.push_back(i);
    }
  }
}

/// Returns the call of another thread that kept a call waiting, which is harmless otherwise: it had
/// begun before, took most of the time, and the call returned after it. kNone if there is none.
Index Host::held_up_by(Index call, Cause cause) const {
  auto const& [time, name, thread, kind, code] = program_.call(call);
  bool const is_launch = kind == CallKind::launch || kind == CallKind::graph_launch;
  bool const issues = is_launch || kind == CallKind::copy || kind == CallKind::fill;
  if (!issues || (cause != Cause::launch_bound && !is_launch) ||
      time.length() < std::max(2 * tolerance::kIssue, 4 * usual_launch_)) {
    return kNone;
  }
  constexpr std::ptrdiff_t kMostSteps = 16;
  auto const& threads = program_.recording().threads;
  auto at =
      std::ranges::upper_bound(driver_calls_, time.begin + tolerance::kIssue, {}, [&](Index i) {
        return program_.call(i).time.begin;
      });
  for (auto const first = at - std::min(kMostSteps, at - driver_calls_.begin()); at != first;) {
    auto const& other = program_.call(*--at);
    if (other.thread != thread && threads[other.thread].process == threads[thread].process &&
        other.time.end <= time.end + tolerance::kIssue &&
        2 * clipped(other.time, time).length() >= time.length()) {
      return *at;
    }
  }
  return kNone;
}

/// Overheads that lie in no call, or in one that is harmless otherwise, block as well.
void Host::add_overheads() {
  auto const& recording = program_.recording();
  for (auto& thread : threads_) {
    for (auto const i : thread.overheads) {
      auto const& overhead = recording.overheads[i];
      if (overhead.kind == OverheadKind::other) {
        continue;
      }
      auto const begin_of = [&](Index call) { return program_.call(call).time.begin; };
      auto const after = std::ranges::upper_bound(thread.calls, overhead.time.begin, {}, begin_of);
      Index call = kNone;
      if (after != thread.calls.begin() &&
          program_.call(*(after - 1)).time.end >= overhead.time.end) {
        call = *(after - 1);
      }
      thread.blocking.push_back({overhead.time, cause_of(overhead.kind), call});
    }
    std::ranges::stable_sort(
        thread.blocking, {}, [](Blocking const& blocking) { return blocking.time.begin; });
  }
}

/// Finds from which length on a gap of each thread is a long one: a few times what it usually needs
/// from one launch to the next, within bounds. A thread may be busy with other work before each.
void Host::judge_gaps() {
  for (auto& thread : threads_) {
    std::vector<Ns> gaps;
    std::vector<Ns> between_launches;
    Ns end = 0;
    Ns issued = kNotYet;
    for (auto const call : thread.calls) {
      auto const& time = program_.call(call).time;
      gaps.push_back(std::max<Ns>(time.begin - end, 0));
      end = std::max(end, time.end);
      if (!program_.issued_by(call).empty()) {
        if (issued != kNotYet) {
          between_launches.push_back(std::max<Ns>(time.begin - issued, 0));
        }
        issued = time.end;
      }
    }
    auto const usual = median(gaps);
    auto const usual_launch = median(between_launches);
    auto const most = usual < tolerance::kLongGap ? 3 * tolerance::kLongGap : tolerance::kLongGap;
    thread.long_gap = std::clamp(5 * usual, tolerance::kLongGap, most);
    thread.long_operation =
        std::clamp(20 * usual_launch, thread.long_gap, tolerance::kLongOperation);
  }
}

/// The length from which on a call that may load code did so: many times that of usual launches. If
/// most launches are first ones, none are usual, so that it is bounded.
Ns Host::long_loading() const noexcept {
  return std::clamp(20 * usual_launch_, tolerance::kLongGap, 2 * tolerance::kLongGap);
}

Cause Host::judge(ThreadTime const& thread, std::size_t place) const {
  auto const index = thread.calls[place];
  auto const& call = program_.call(index);
  switch (call.kind) {
    case CallKind::synchronize: {
      bool const is_of_copy =
          copies_before(thread, place) && causes_[thread.calls[place - 1]] == Cause::pageable_copy;
      return is_of_copy ? Cause::pageable_copy : Cause::host_synchronization;
    }
    case CallKind::query: {
      // A host that asks again and again waits.
      std::size_t run = 1;
      for (auto at = place; at > 0 && run < 3; --at, ++run) {
        if (program_.call(thread.calls[at - 1]).kind != CallKind::query) {
          break;
        }
      }
      for (auto at = place + 1; at < thread.calls.size() && run < 3; ++at, ++run) {
        if (program_.call(thread.calls[at]).kind != CallKind::query) {
          break;
        }
      }
      if (run < 3) {
        return Cause::launch_bound;
      }
      // The first query after the end of all work still belongs to the wait.
      bool const asks_on =
          place > 0 && program_.call(thread.calls[place - 1]).kind == CallKind::query;
      auto const since =
          asks_on ? program_.call(thread.calls[place - 1]).time.begin : call.time.begin;
      return has_open_work(since) ? Cause::host_synchronization : Cause::host_busy;
    }
    case CallKind::release:
      if (initialises(call.time)) {
        return Cause::lazy_loading;
      }
      return Cause::driver_allocation;
    case CallKind::allocate:
      return Cause::driver_allocation;
    case CallKind::pool_memory:
      return call.time.length() > tolerance::kPoolGrows ? Cause::driver_allocation
                                                        : Cause::launch_bound;
    case CallKind::load_module:
      return Cause::lazy_loading;
    case CallKind::copy:
      if (auto const cause = judge_copy(index); cause != Cause::launch_bound) {
        return cause;
      }
      break;
    case CallKind::launch:
      if (first_launches_[index] && call.time.length() > long_loading()) {
        return Cause::lazy_loading;
      }
      break;
    case CallKind::instantiate:
      return Cause::host_busy;
    case CallKind::other:
      if (call.time.length() > long_loading() &&
          asks_for_a_kernel(program_.recording().names[call.name])) {
        return Cause::lazy_loading;
      }
      return call.time.length() > std::min(tolerance::kLongGap, long_launch())
                 ? Cause::host_busy
                 : Cause::launch_bound;
    case CallKind::graph_launch:
    case CallKind::fill:
    case CallKind::record_event:
    case CallKind::wait_event:
    case CallKind::host_function:
    case CallKind::wait_value:
      break;
  }
  return queue_is_full(index) ? Cause::queue_is_full : Cause::launch_bound;
}

/// Whether a call that frees memory was made to begin with CUDA or a library, such as cudaFree(0):
/// it took very long, and waited for no work.
bool Host::initialises(Interval call) const {
  constexpr Ns kLongest = 100'000'000;  // of a call that frees memory on an idle device
  if (call.length() < kLongest) {
    return false;
  }
  auto const& activities = program_.recording().activities;
  auto const begin_of = [](Activity const& activity) { return activity.time.begin; };
  auto const after = std::ranges::lower_bound(activities, call.end, {}, begin_of);
  constexpr std::ptrdiff_t kMostSteps = 256;
  auto const first = after - std::min(kMostSteps, after - activities.begin());
  Ns busy = 0;
  for (auto at = first; at != after; ++at) {
    busy += clipped(at->time, call).length();
  }
  return busy < call.length() / 10;
}

/// Whether a call is a synchronisation right after a copy, as PyTorch's copies to and from pageable
/// memory have one: the two are one wait.
bool Host::copies_before(ThreadTime const& thread, std::size_t place) const {
  if (place == 0) {
    return false;
  }
  auto const& call = program_.call(thread.calls[place]);
  auto const& before = program_.call(thread.calls[place - 1]);
  return call.kind == CallKind::synchronize && before.kind == CallKind::copy &&
         call.time.begin - before.time.end < 4 * tolerance::kIssue;
}

Cause Host::judge_copy(Index call) const {
  auto const issued = program_.issued_by(call);
  if (issued.empty()) {
    return Cause::launch_bound;
  }
  auto const& copy = program_.activity(issued.front());
  bool const waits = program_.call(call).time.end >= copy.time.end;
  if (is_pageable(copy)) {
    // A small download reads a value, for which the host waits with any memory.
    return reads_value(copy) ? Cause::host_synchronization : Cause::pageable_copy;
  }
  return waits ? Cause::host_synchronization : Cause::launch_bound;
}

/// Whether two calls, one after the other, belong to a loop that waits by asking.
bool Host::asks_again(Index before, Index call) const {
  auto const asks = [&](Index i) {
    return program_.call(i).kind == CallKind::query && causes_[i] == Cause::host_synchronization;
  };
  return asks(before) && asks(call) &&
         program_.call(call).time.begin - program_.call(before).time.end <=
             tolerance::kLongOperation;
}

bool Host::is_long_gap(Index thread, Interval gap) const {
  auto const& own = threads_[thread];
  if (gap.length() <= own.long_gap) {
    return false;
  }
  if (gap.length() > own.long_operation) {
    return true;
  }
  // An operation in which the next call is made. One that ended before is work of the host itself.
  auto const at = std::ranges::upper_bound(own.operations, gap.end, {}, &Interval::end);
  return at == own.operations.end() || 2 * clipped(*at, gap).length() < gap.length();
}

Blocking const* Host::last_blocking(Index thread, Ns before) const {
  auto const& blocking = threads_[thread].blocking;
  auto const after = std::ranges::lower_bound(
      blocking, before, {}, [](Blocking const& call) { return call.time.begin; });
  return after == blocking.begin() ? nullptr : &*(after - 1);
}

}  // namespace msstream::overlap
