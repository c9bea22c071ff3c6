// SPDX-License-Identifier: Apache-2.0
// Waits that may be needless: for events that were recorded late, behind work that what waits may
// not need; of copies for the tail of a stream; and of streams that take turns.
#include "overlap/find/hold.hpp"
#include "overlap/find/tolerances.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

/// Whether two activities look like parts of one piece of work: equal launches that take about as
/// long.
bool is_of_one_piece(Activity const& a, Activity const& b) {
  return a.name == b.name && a.shape == b.shape && 2 * a.time.length() > b.time.length() &&
         2 * b.time.length() > a.time.length();
}

/// Returns a name without the numbers among its template's arguments, such as tower<float, > for
/// tower<float, 1>. Digits of a type or a tag stay: float2 and float4 may be other operations.
std::string without_argument_numbers(std::string_view name) {
  std::string rest;
  bool in_arguments = false;
  for (auto const c : name) {
    bool const is_digit = c >= '0' && c <= '9';
    in_arguments = in_arguments || c == '<';
    auto const before = rest.empty() ? ' ' : rest.back();
    bool const begins =
        before == '<' || before == ',' || before == ' ' || before == ')' || before == '-';
    if (!(is_digit && in_arguments && begins)) {
      rest += c;
    }
  }
  return rest;
}

/// Whether two kernels are instances of one template that differ in numbers alone.
bool differ_in_numbers(std::string_view a, std::string_view b) {
  auto const arguments = a.find('<');
  return arguments != std::string_view::npos && a.substr(0, arguments) == b.substr(0, arguments) &&
         without_argument_numbers(a) == without_argument_numbers(b);
}

}  // namespace

/// Returns the first activity of which `held` may need no more, if the event that it waits for was
/// recorded late; kNone if not. It was, if it was recorded right before the wait, on the tail of a
/// stream that has nothing to run beside `held`, behind several pieces of work since the two
/// streams were last joined, by one of them or by the host. A fork before which the other work ran,
/// and after which none runs, is for nothing: streams that take turns could be one. They have taken
/// turns before, or the last piece takes most of the time. A stream that was forked from another
/// one is joined as a whole.
Index Holds::recorded_late(Wait const& wait, Index held) const {
  auto const target = wait.target;
  auto const& last = program_.activity(target);
  auto const& sync = program_.recording().syncs[wait.sync];
  if (!are_kernels(held, target) || sync.call == kNone || sync.record_call == kNone ||
      program_.call(sync.call).time.begin - program_.call(sync.record_call).time.end >
          4 * tolerance::kIssue ||
      !has_nothing_beside(held, target)) {
    return kNone;
  }
  // Looks back to where the stream was joined last.
  constexpr int kMostSteps = 64;
  Ns last_piece = last.time.length();
  Ns others = 0;
  int count = 0;
  bool took_turns = false;
  auto first = target;
  auto at = target;
  for (int step = 0; step < kMostSteps; ++step) {
    if (auto const waits = program_.waits_of(at); !waits.empty()) {
      took_turns = std::ranges::all_of(waits, [&](Wait const& fork) {
        return fork.known && fork.target != kNone && fork.target == program_.previous(held);
      });
      if (!took_turns) {
        return kNone;  // forked from another stream: the whole of it is joined
      }
      break;
    }
    auto const i = program_.previous(at);
    if (i == kNone) {
      break;
    }
    if (auto const last_held = program_.previous(held);
        last_held != kNone && program_.called(last_held) > program_.called(i) &&
        host_joined(last_held, i, program_.called(at))) {
      took_turns = true;
      break;
    }
    auto const& before = program_.activity(i);
    if (before.time.end < program_.activity(at).time.begin - 2 * last_piece) {
      break;
    }
    at = i;
    if (before.kind == ActivityKind::copy) {
      // An upload belongs to the kernels that follow it; a download is of use to the host alone.
      bool const is_of_last = count == 0 && is_copy(before, CopyDirection::h2d);
      (is_of_last ? last_piece : others) += before.time.length();
      continue;
    }
    first = i;
    if (!is_of_one_piece(before, last)) {
      others += before.time.length();
      ++count;
    } else if (count == 0) {
      last_piece += before.time.length();
    } else {
      return kNone;  // one piece of work, of which some parts differ
    }
  }
  return count > 0 && (took_turns || others < last_piece) ? first : kNone;
}

/// Whether the stream of `target`, for which `held` waits, gets nothing more to run until it has
/// waited for `held`, or the host for both, and no other stream has kernels meanwhile.
bool Holds::has_nothing_beside(Index held, Index target) const {
  auto const& activities = program_.recording().activities;
  auto const stream = activities[held].stream;
  auto const next = program_.next(target);
  auto const joins = [&](Wait const& wait) {
    return wait.known && wait.target != kNone && wait.target >= held &&
           activities[wait.target].stream == stream;
  };
  if (next != kNone && !std::ranges::any_of(program_.waits_of(next), joins) &&
      !host_joined(held, target, program_.called(next))) {
    return false;
  }
  constexpr Index kMostSteps = 256;
  auto const size = static_cast<Index>(activities.size());
  auto const end = std::min(next == kNone ? size : next, held + std::min(kMostSteps, size - held));
  for (Index i = held + 1; i < end; ++i) {
    if (activities[i].kind == ActivityKind::kernel && activities[i].stream != stream &&
        program_.device_of(i) == program_.device_of(held)) {
      return false;
    }
  }
  return true;
}

/// Whether the host waited for the stream of an activity, or for an event recorded in that after
/// it, by a call that began after `since` and ended by a time.
bool Holds::host_waited(Index activity, Ns since, Ns by) const {
  constexpr int kMostSteps = 16;
  auto const& recording = program_.recording();
  auto const own = program_.activity(activity).stream;
  auto const end_of = [&](Index i) { return recording.syncs[i].time.end; };
  auto at = std::ranges::lower_bound(host_waits_, program_.activity(activity).time.end, {}, end_of);
  for (int step = 0; step < kMostSteps && at != host_waits_.end() && end_of(*at) <= by;
       ++step, ++at) {
    auto const& sync = recording.syncs[*at];
    bool const is_for_own =
        sync.kind == SyncKind::stream
            ? sync.stream == own
            : sync.record_stream == own && sync.record_call != kNone &&
                  program_.call(sync.record_call).time.begin > program_.called(activity);
    if (is_for_own && sync.time.begin > since) {
      return true;
    }
  }
  return false;
}

/// Whether the host joined two streams by a wait for each, after both activities had been issued. A
/// wait for the second one alone, or for the device, is as well that for the result of a pipeline,
/// whose first part needs no wait of its own.
bool Holds::host_joined(Index first, Index second, Ns by) const {
  auto const issued = std::max(program_.called(first), program_.called(second));
  return host_waited(first, issued, by) && host_waited(second, issued, by);
}

Index Holds::needed_of(Wait const& wait, Index held) const {
  constexpr int kMostSteps = 64;
  auto needed = wait.target;
  for (int step = 0; step < kMostSteps && needed != kNone; ++step) {
    auto const declared = program_.declared(needed, held);
    if (!declared) {
      break;
    }
    if (*declared) {
      return needed;
    }
    needed = program_.previous(needed);
  }
  return program_.recording().has_dependencies || wait.target == kNone ? kNone
                                                                       : recorded_late(wait, held);
}

/// Whether an activity waits for the tail of a stream of which it needs neither the end nor
/// `running`: a copy beside the work of a step.
bool Holds::needs_only_memory(Wait const& wait, Index held, Index running) const {
  return independent(running, held) && independent(wait.target, held) && is_for_the_tail(wait) &&
         !has_two_buffers(wait, held);
}

/// Whether the upload ahead of `held` was still to be used when the wait was made, so that the two
/// have a buffer each: the wait is for the use of the buffer before that.
bool Holds::has_two_buffers(Wait const& wait, Index held) const {
  auto const before = program_.previous(held);
  auto const used = before == kNone ? used_.end() : used_.find(before);
  return used != used_.end() && used->second > wait.called;
}

std::vector<Index> Holds::waiting_with(Wait const& wait, Index held) const {
  constexpr std::size_t kMost = 256;
  std::vector<Index> copies;
  auto const end = program_.activity(wait.target).time.end;
  auto const joins = [&](Wait const& other) {
    return other.known && other.target != kNone && program_.activity(other.target).time.end <= end;
  };
  for (auto copy = held; copies.size() < kMost && copy != kNone &&
                         program_.activity(copy).kind == ActivityKind::copy &&
                         std::ranges::all_of(program_.waits_of(copy), joins);
       copy = program_.next(copy)) {
    copies.push_back(copy);
  }
  return copies;
}

/// Returns the hold of an activity that waits for the tail of a stream of which it needs at most
/// the memory, which is a guess. Copies that wait could have run at any time of a long step, so
/// that they lose the end of it.
Hold Holds::by_tail(Wait const& wait, Index held) const {
  Hold hold{.cause = Cause::false_dependency, .wait = wait.sync, .is_guess = true};
  if (program_.activity(held).kind == ActivityKind::copy) {
    hold.from = program_.activity(wait.target).time.end;
    for (auto const copy : waiting_with(wait, held)) {
      hold.from -= program_.activity(copy).time.length();
    }
  }
  return hold;
}

/// Whether a wait is for the last work that its stream had been given. A stream that waits for
/// earlier work has several buffers, and waits until one of them is free.
bool Holds::is_for_the_tail(Wait const& wait) const {
  return program_.last_issued(program_.activity(wait.target).stream, wait.called) == wait.target;
}

/// Whether `after` waits for `before` and is an equal kernel, of another stream.
bool Holds::is_turn(Index before, Index after) const {
  if (before == kNone || after == kNone || !are_kernels(before, after)) {
    return false;
  }
  auto const& a = program_.activity(before);
  auto const& b = program_.activity(after);
  auto const& names = program_.recording().names;
  return (a.name == b.name || differ_in_numbers(names[a.name], names[b.name])) &&
         a.shape == b.shape && a.stream != b.stream &&
         std::ranges::any_of(program_.waits_of(after),
                             [&](Wait const& wait) { return wait.known && wait.target == before; });
}

/// Whether two streams that run equal kernels wait for each other after every one, for at least two
/// rounds before or after `held`, so that they never overlap. Streams with equal work are branches,
/// such as two parts of a batch. A producer and its consumer differ.
bool Holds::wait_in_turns(Index held, Index running) const {
  constexpr int kTurns = 4;
  if (!is_turn(running, held)) {
    return false;
  }
  int turns = 0;
  for (auto [before, after] = std::pair(program_.previous(held), running);
       turns < kTurns && is_turn(before, after);
       ++turns) {
    std::tie(before, after) = std::pair(program_.previous(after), before);
  }
  for (auto [before, after] = std::pair(held, program_.next(running));
       turns < kTurns && is_turn(before, after);
       ++turns) {
    std::tie(before, after) = std::pair(after, program_.next(before));
  }
  return turns == kTurns;
}

}  // namespace msstream::overlap
