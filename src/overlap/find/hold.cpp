// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/hold.hpp"

#include "overlap/find/tolerances.hpp"
#include "overlap/recording/occupancy.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

namespace msstream::overlap {
namespace {

bool uses_sms(Activity const& activity) {
  return activity.kind != ActivityKind::copy;
}

}  // namespace

Holds::Holds(Program const& program, Collectives const& collectives)
    : program_(program), collectives_(collectives) {
  auto const& recording = program.recording();
  std::map<std::pair<std::int64_t, Index>, Index> last;
  for (auto const& record : recording.event_records) {
    if (record.call == kNone || record.stream == kNone || record.event == kUnknown) {
      continue;
    }
    auto [before, is_new] = last.try_emplace({record.event, record.stream}, record.call);
    if (!is_new) {
      record_before_[record.call] = before->second;
      before->second = record.call;
    }
  }
  for (auto const& stream : recording.streams) {
    auto const [first, is_new] = first_stream_.try_emplace(stream.context, stream.number);
    first->second = std::min(first->second, stream.number);
  }
  for (auto const& sync : recording.syncs) {
    if (sync.record_call != kNone) {
      is_waited_for_[sync.record_call] = true;
    }
  }
  for (Index i = 0; i < recording.syncs.size(); ++i) {
    if (auto const kind = recording.syncs[i].kind;
        kind == SyncKind::stream || kind == SyncKind::event) {
      host_waits_.push_back(i);
    }
  }
  std::ranges::stable_sort(host_waits_, {}, [&](Index i) { return recording.syncs[i].time.end; });
  std::map<std::pair<Index, Index>, Index> first_join;  // by collective and stream that waits
  for (Index i = 0; i < recording.activities.size(); ++i) {
    for (auto const& wait : program.waits_of(i)) {
      if (wait.target != kNone && is_copy(program.activity(wait.target), CopyDirection::h2d)) {
        used_.try_emplace(wait.target, program.called(i));
      }
      if (wait.target != kNone && collectives.is_one(wait.target)) {
        joined_.insert(wait.target);
        auto const [before, is_first] =
            first_join.try_emplace({wait.target, program.activity(i).stream}, i);
        if (!is_first && before->second != i) {
          joined_again_[wait.target].push_back(wait.sync);
        }
      }
    }
  }
}

std::optional<Hold> Holds::of(Index held,
                              Index running,
                              Ns at,
                              std::span<Index const> queued) const {
  if (auto const hold = by_waits(held, running, at)) {
    return hold;
  }
  if (by_legacy_stream(held, running)) {
    return Hold{.cause = Cause::legacy_stream};
  }
  if (program_.are_runs_of_one_graph(running, held)) {
    return Hold{};  // an executable graph does not run beside itself
  }
  return by_resources(held, running, queued);
}

std::optional<Hold> Holds::by_waits(Index held, Index running, Ns at) const {
  std::optional<Hold> found;
  for (auto const& wait : program_.waits_of(held)) {
    if (!wait.known || wait.target == kNone || program_.activity(wait.target).time.end <= at) {
      continue;
    }
    std::optional<Hold> hold = Hold{.cause = {}, .wait = wait.sync};
    if (wait.target == running) {
      hold = by_wait(wait, held, running);
    } else if (program_.activity(wait.target).stream == program_.activity(running).stream) {
      hold = by_needed(wait, held, running);
      hold->wait = wait.sync;
    }
    if (!hold->cause) {
      return hold;  // a true dependency, which holds whatever becomes of other waits
    }
    if (!found || *hold->cause < *found->cause) {
      found = hold;
    }
  }
  return found;
}

/// Returns what holds an activity that waits for work behind `running` in its stream. If the
/// program declares what the activity needs, that may be less than what it waits for.
Hold Holds::by_needed(Wait const& wait, Index held, Index running) const {
  constexpr int kMostSteps = 64;
  auto needed = wait.target;
  for (int step = 0; step < kMostSteps && needed != kNone; ++step) {
    auto const declared = program_.declared(needed, held);
    if (!declared) {
      if (needs_only_memory(wait, held, running)) {
        return by_tail(wait, held);
      }
      auto const first = recorded_late(wait, held);
      return first != kNone && first < running
                 ? Hold{.cause = Cause::false_dependency, .is_guess = true}
                 : by_queue(wait.target, running, held);
    }
    if (needed == running) {
      return *declared ? Hold{} : Hold{.cause = Cause::false_dependency};
    }
    if (*declared) {
      return by_queue(needed, running, held);
    }
    needed = program_.previous(needed);
  }
  return by_queue(wait.target, running, held);
}

/// Returns what holds an activity that needs `target`, which is behind `running` in its stream. A
/// download keeps back all that follows it.
Hold Holds::by_queue(Index target, Index running, Index held) const {
  auto const& first = program_.activity(running);
  auto const& second = program_.activity(target);
  if (collectives_.same_group(running, target)) {
    bool const are_one = are_one_exchange(running, target);
    return are_one && !may_be_urgent(running, target, held)
               ? Hold{}
               : Hold{.cause = Cause::collective_order, .queued = target, .is_guess = are_one};
  }
  if (!independent(running, target)) {
    return Hold{};
  }
  bool const one_engine = first.kind == ActivityKind::copy && second.kind == ActivityKind::copy &&
                          first.direction == second.direction;
  return Hold{.cause = one_engine ? Cause::copy_engine : Cause::one_stream_two_roles,
              .queued = is_copy(first, CopyDirection::d2h) ? program_.next(running) : target};
}

/// Whether two collectives of a communicator are parts of one exchange, such as the buckets of all
/// gradients: of one kind, and no stream waits for the first one alone, so that whoever waits for
/// the second one needs both. A small one behind a large one is as well the rest of the last
/// bucket.
bool Holds::are_one_exchange(Index first, Index second) const {
  return collectives_.same_kind(first, second) && !joined_.contains(first);
}

/// Whether `held`, which waits behind a large collective and a small one, may need the small one
/// alone: if the program joins the stream of both once more after `held`, by a wait of the same
/// stream or of the host, although nothing was put into it since. Who needs both at once does that
/// not. In a wait for the device, the stream is one of many.
bool Holds::may_be_urgent(Index first, Index second, Index held) const {
  if (!collectives_.is_many_times(first, second)) {
    return false;
  }
  if (!joins_again(second).empty()) {
    return true;
  }
  constexpr int kMostSteps = 16;
  auto const& syncs = program_.recording().syncs;
  auto const stream = program_.activity(second).stream;
  auto const end_of = [&](Index i) { return syncs[i].time.end; };
  auto at = std::ranges::lower_bound(host_waits_, program_.activity(second).time.end, {}, end_of);
  for (int step = 0; step < kMostSteps && at != host_waits_.end(); ++step, ++at) {
    auto const& sync = syncs[*at];
    if (sync.kind == SyncKind::stream && sync.stream == stream &&
        sync.time.begin > program_.called(held) &&
        program_.last_issued(stream, sync.time.begin) == second) {
      return true;
    }
  }
  return false;
}

std::span<Index const> Holds::joins_again(Index collective) const {
  auto const found = joined_again_.find(collective);
  return found == joined_again_.end() ? std::span<Index const>() : found->second;
}

bool Holds::independent(Index before, Index after) const {
  if (auto const declared = program_.declared(before, after)) {
    return !*declared;
  }
  auto const& first = program_.activity(before);
  auto const& second = program_.activity(after);
  // The host writes what is uploaded, and reads what is downloaded. Only its memory on the device,
  // if it is used again, makes another order necessary.
  if (is_copy(second, CopyDirection::h2d)) {
    return true;
  }
  return is_copy(first, CopyDirection::d2h) && !is_copy(second, CopyDirection::d2h);
}

Hold Holds::by_wait(Wait const& wait, Index held, Index running) const {
  if (auto const declared = program_.declared(running, held)) {
    return {.cause = *declared ? std::nullopt : std::optional(Cause::false_dependency),
            .wait = wait.sync};
  }
  if (needs_only_memory(wait, held, running)) {
    return by_tail(wait, held);
  }
  bool const is_known = recorded_twice(wait, running);
  bool const is_false =
      is_known || recorded_late(wait, held) != kNone || wait_in_turns(held, running);
  return {.cause = is_false ? std::optional(Cause::false_dependency) : std::nullopt,
          .wait = wait.sync,
          .is_guess = !is_known};
}

/// Whether the event had been recorded before `running` was issued, and nobody waited for that.
bool Holds::recorded_twice(Wait const& wait, Index running) const {
  auto const& sync = program_.recording().syncs[wait.sync];
  auto const before = record_before_.find(sync.record_call);
  return before != record_before_.end() && !is_waited_for_.contains(before->second) &&
         program_.call(before->second).time.begin < program_.called(running);
}

bool Holds::are_kernels(Index held, Index running) const {
  return program_.activity(held).kind == ActivityKind::kernel &&
         program_.activity(running).kind == ActivityKind::kernel && !collectives_.is_one(held) &&
         !collectives_.is_one(running);
}

bool Holds::by_legacy_stream(Index held, Index running) const {
  auto const& streams = program_.recording().streams;
  auto const& a = streams[program_.activity(held).stream];
  auto const& b = streams[program_.activity(running).stream];
  auto const blocking = [](StreamType type) {
    return type == StreamType::blocking || type == StreamType::per_thread;
  };
  bool const barrier = (a.type == StreamType::legacy && blocking(b.type)) ||
                       (b.type == StreamType::legacy && blocking(a.type));
  return barrier && a.context == b.context && program_.called(running) <= program_.called(held);
}

/// Whether a stream may be the legacy default stream. That is made with its context, so that later
/// streams have higher numbers.
bool Holds::may_be_legacy(Index stream) const {
  auto const& what = program_.recording().streams[stream];
  return what.type == StreamType::legacy ||
         (what.type == StreamType::unknown && first_stream_.at(what.context) == what.number);
}

/// Whether `held` began as soon as `running`, or work that followed it in its stream, had ended.
bool Holds::follows(Index held, Index running) const {
  auto const close = tolerance::of_order(program_.recording());
  auto const begin = program_.activity(held).time.begin;
  Ns end = program_.activity(running).time.end;
  constexpr int kMostSteps = 256;
  auto next = program_.next(running);
  for (int step = 0; step < kMostSteps && begin > end + close; ++step) {
    if (next == kNone || program_.activity(next).time.begin > end + close) {
      return false;
    }
    end = program_.activity(next).time.end;
    next = program_.next(next);
  }
  return begin <= end + close;
}

/// Whether work needs other work by its kind: a kernel an upload, a download or a collective a
/// kernel.
bool Holds::needs_by_kind(Index after, Index before) const {
  auto const& first = program_.activity(before);
  auto const& second = program_.activity(after);
  bool const is_kernel = first.kind == ActivityKind::kernel && !collectives_.is_one(before);
  return (is_copy(first, CopyDirection::h2d) && second.kind == ActivityKind::kernel) ||
         (is_kernel && (is_copy(second, CopyDirection::d2h) || collectives_.is_one(after)));
}

/// Whether an activity began as soon as work of another stream had ended that it needs by its kind:
/// a wait that nobody recorded was surely for that.
bool Holds::followed_what_it_needs(Index held) const {
  constexpr Index kMostSteps = 64;
  auto const close = tolerance::of_order(program_.recording());
  auto const& after = program_.activity(held);
  for (Index i = held; i > 0 && held - i < kMostSteps;) {
    auto const& before = program_.activity(--i);
    if (before.stream != after.stream && needs_by_kind(held, i) &&
        before.time.end <= after.time.begin && after.time.begin - before.time.end <= close &&
        program_.device_of(i) == program_.device_of(held)) {
      return true;
    }
  }
  return false;
}

Missing Holds::unseen_wait(Index held) const {
  auto const& recording = program_.recording();
  auto const call = program_.activity(held).call;
  if (call == kNone) {
    return Missing::nothing;
  }
  auto const thread = program_.call(call).thread;
  constexpr Index kMostSteps = 64;
  for (Index i = call; i > 0 && call - i < kMostSteps;) {
    auto const& before = recording.calls[--i];
    if (before.thread != thread) {
      continue;
    }
    if (before.kind == CallKind::wait_event) {
      auto const sync = program_.sync_of(i);
      if (!recording.has_syncs || sync == kNone || recording.syncs[sync].stream == kNone) {
        return Missing::waits;
      }
    } else if (before.kind == CallKind::host_function) {
      return Missing::host_functions;
    } else if (before.kind == CallKind::wait_value) {
      return Missing::values;
    }
    if (!program_.issued_by(i).empty()) {
      break;
    }
  }
  return Missing::nothing;
}

bool Holds::may_wait(Index held, Index running, Ns at) const {
  if (by_waits(held, running, at)) {
    return true;
  }
  return unseen_wait(held) == Missing::waits;
}

std::optional<Hold> Holds::by_resources(Index held,
                                        Index running,
                                        std::span<Index const> queued) const {
  auto const& recording = program_.recording();
  auto const& a = program_.activity(held);
  auto const& b = program_.activity(running);
  if (!follows(held, running)) {
    return std::nullopt;
  }
  if (auto const unseen = unseen_wait(held); unseen != Missing::nothing) {
    return unseen == Missing::waits && followed_what_it_needs(held)
               ? Hold{}
               : Hold{.cause = Cause::unknown, .missing = unseen};
  }
  if (a.kind == ActivityKind::copy && b.kind == ActivityKind::copy && a.direction == b.direction &&
      a.direction != CopyDirection::unknown) {
    return Hold{.cause = Cause::copy_engine};
  }
  auto const& device = recording.devices[program_.device_of(held)];
  bool const both_shapes = a.shape != kNone && b.shape != kNone;
  auto const lack = both_shapes
                        ? lacking(device, recording.shapes[b.shape], recording.shapes[a.shape])
                        : std::nullopt;
  if (uses_sms(a) && uses_sms(b)) {
    if (collectives_.is_one(running) && (lack || !both_shapes)) {
      return Hold{.cause = Cause::collective_holds_sms};
    }
    bool const fills = lack || (b.shape != kNone && a.shape == kNone &&
                                lacking(device, recording.shapes[b.shape], {}));
    if (fills) {
      auto const& high = recording.streams[a.stream].priority;
      auto const& low = recording.streams[b.stream].priority;
      return Hold{.cause = high && low && *high < *low ? Cause::priority_cannot_help
                                                       : Cause::multiprocessors_full};
    }
  }
  if (a.channel != kUnknown) {
    auto const blocks = [&](Index other) {
      return other != held && program_.activity(other).channel == a.channel &&
             program_.called(other) < program_.called(held);
    };
    if (blocks(running) || std::ranges::any_of(queued, blocks)) {
      return Hold{.cause = Cause::hardware_queue};
    }
  }
  if (a.graph != kUnknown && a.graph == b.graph) {
    return Hold{};  // an edge of the graph, which recordings do not have
  }
  auto const& streams = recording.streams;
  // Streams of unknown types wait for each other only if one of them is the legacy stream.
  bool const has_types = recording.has_stream_types ||
                         (!may_be_legacy(a.stream) && !may_be_legacy(b.stream)) ||
                         (streams[a.stream].type != StreamType::unknown &&
                          streams[b.stream].type != StreamType::unknown);
  bool const whole_graph = a.kind == ActivityKind::graph || b.kind == ActivityKind::graph;
  auto const missing = streams[a.stream].context != streams[b.stream].context ? Missing::turns
                       : whole_graph                                          ? Missing::graph_edges
                       : program_.may_lack_waits() && (has_types || program_.calls_waits())
                           ? Missing::waits
                       : !has_types            ? Missing::stream_types
                       : a.channel == kUnknown ? Missing::channels
                                               : Missing::nothing;
  bool const may_lack_room = missing == Missing::nothing || missing == Missing::stream_types ||
                             missing == Missing::channels;
  if (may_lack_room && both_shapes && collectives_.is_one(running) &&
      lacks_room_for_all(device, recording.shapes[b.shape], recording.shapes[a.shape])) {
    // Known if nothing else is left that kept it back.
    return Hold{.cause = Cause::collective_holds_sms, .is_guess = missing != Missing::nothing};
  }
  return Hold{.cause = Cause::unknown, .missing = missing};
}

}  // namespace msstream::overlap
