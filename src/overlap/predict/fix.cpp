// SPDX-License-Identifier: Apache-2.0
#include "overlap/predict/replay.hpp"
#include "overlap/recording/occupancy.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace msstream::overlap {
namespace {

/// Returns the held copies that take at most half of the time of what was in their way: issued
/// first, or between the pieces of the large one, they hardly delay it.
std::unordered_set<Index> overtaking(Program const& program, CauseSum const& sum) {
  Ns longest = 0;
  for (auto const i : sum.holders) {
    longest = std::max(longest, program.activity(i).time.length());
  }
  std::unordered_set<Index> small;
  for (auto const i : sum.held) {
    if (2 * program.activity(i).time.length() <= longest) {
      small.insert(i);
    }
  }
  return small;
}

/// Returns the copies that would pass between the pieces of the longest one that was in the way of
/// others: those of its device and direction that take at most half of its time, also those that
/// waited for nothing this once.
std::unordered_set<Index> passing(Program const& program, CauseSum const& sum) {
  auto const time_of = [&](Index i) { return program.activity(i).time.length(); };
  auto const longest = std::ranges::max_element(sum.holders, {}, time_of);
  std::unordered_set<Index> small;
  if (longest == sum.holders.end()) {
    return small;
  }
  auto const& large = program.activity(*longest);
  for (auto const i : program.of_device(program.device_of(*longest))) {
    auto const& copy = program.activity(i);
    if (copy.kind == ActivityKind::copy && copy.direction == large.direction &&
        2 * copy.time.length() <= large.time.length()) {
      small.insert(i);
    }
  }
  return small;
}

/// Whether an activity surely needs what it waits for: a kernel its upload, a download its kernel.
bool surely_needs(Program const& program, Index after, Index before) {
  auto const& first = program.activity(before);
  auto const& second = program.activity(after);
  auto const is = [](Activity const& one, CopyDirection direction) {
    return one.kind == ActivityKind::copy && one.direction == direction;
  };
  return (is(first, CopyDirection::h2d) && second.kind != ActivityKind::copy) ||
         (first.kind != ActivityKind::copy && is(second, CopyDirection::d2h));
}

/// Returns all waits for some activities that may not be needed, also those that were charged to no
/// time: of several streams that wait for one activity, one is charged.
std::unordered_map<Index, Index> waits_for(Program const& program,
                                           std::vector<Index> const& activities) {
  std::unordered_map<Index, Index> waits;
  for (Index i = 0; i < program.recording().activities.size(); ++i) {
    for (auto const& wait : program.waits_of(i)) {
      if (std::ranges::binary_search(activities, wait.target) &&
          !surely_needs(program, i, wait.target)) {
        waits.emplace(wait.sync, kNone);
      }
    }
  }
  return waits;
}

/// Returns the number of streams whose work is in each other's way, at least two.
int streams_in(Program const& program, CauseSum const& sum) {
  std::set<Index> streams;
  for (auto const* list : {&sum.held, &sum.holders}) {
    for (auto const i : *list) {
      streams.insert(program.activity(i).stream);
    }
  }
  return std::max(static_cast<int>(streams.size()), 2);
}

/// Returns the multiprocessors that the largest of the small kernels needs which wait for large
/// ones: a small part of the device, which a large kernel can do without. 0 if none is small.
int room_for(Program const& program, CauseSum const& sum) {
  constexpr int kSmallPart = 4;  // of the device, at most its multiprocessors divided by this
  auto const& recording = program.recording();
  int room = 0;
  for (auto const i : sum.held) {
    auto const shape = program.activity(i).shape;
    auto const occupancy = shape == kNone ? std::nullopt
                                          : occupancy_of(recording.devices[program.device_of(i)],
                                                         recording.shapes[shape]);
    if (occupancy && kSmallPart * occupancy->filled_sms() <= occupancy->sms) {
      room = std::max(room, occupancy->filled_sms());
    }
  }
  return room;
}

/// Returns the streams whose work the host could not issue while other streams ran.
std::set<Index> streams_behind(Program const& program, CauseSum const& sum) {
  std::set<Index> streams;
  for (auto const i : sum.held) {
    streams.insert(program.activity(i).stream);
  }
  for (auto const i : sum.holders) {
    streams.erase(program.activity(i).stream);
  }
  return streams;
}

}  // namespace

void Fix::add(Fix const& other) {
  calls.insert(other.calls.begin(), other.calls.end());
  waits.insert(other.waits.begin(), other.waits.end());
  moved.insert(other.moved.begin(), other.moved.end());
  own_order.insert(other.own_order.begin(), other.own_order.end());
  divided.insert(other.divided.begin(), other.divided.end());
  pinned.insert(other.pinned.begin(), other.pinned.end());
  own_thread.insert(other.own_thread.begin(), other.own_thread.end());
  overtaking.insert(other.overtaking.begin(), other.overtaking.end());
  graph = graph || other.graph;
  fused = fused || other.fused;
  for (std::size_t cause = 0; cause < no_overheads.size(); ++cause) {
    no_overheads[cause] = no_overheads[cause] || other.no_overheads[cause];
  }
  no_gaps = no_gaps || other.no_gaps;
  no_legacy_stream = no_legacy_stream || other.no_legacy_stream;
  no_channels = no_channels || other.no_channels;
  shares_sms = shares_sms || other.shares_sms;
  leaves_room = leaves_room || other.leaves_room;
  room_sms = std::max(room_sms, other.room_sms);
  parts_of_sms = std::max(parts_of_sms, other.parts_of_sms);
  no_skew = no_skew || other.no_skew;
  small_collectives = small_collectives || other.small_collectives;
}

std::optional<Fix> fix_of(Program const& program,
                          Host const& host,
                          Holds const& holds,
                          SharedStreams const& shared,
                          Cause cause,
                          CauseSum const& sum) {
  Fix fix;
  // Also those that lost no time this once: with the others alone, the next thread would still
  // wait.
  auto const free_calls = [&] {
    fix.calls.insert(sum.calls.begin(), sum.calls.end());
    for (Index call = 0; call < program.recording().calls.size(); ++call) {
      if (host.cause_of_call(call) == cause) {
        fix.calls.insert(call);
      }
    }
  };
  switch (cause) {
    case Cause::recording_overhead:
    case Cause::lazy_loading:
      fix.no_overheads[static_cast<std::size_t>(cause)] = true;
      free_calls();
      break;
    case Cause::driver_allocation:
    case Cause::host_synchronization:
      free_calls();
      break;
    case Cause::queue_is_full:
      // The queue stays as full: a thread of its own issues what stood behind it.
      for (auto const stream : streams_behind(program, sum)) {
        for (auto const i : program.of_stream(stream)) {
          fix.own_thread.insert(i);
        }
      }
      if (fix.own_thread.empty()) {
        free_calls();
      }
      break;
    case Cause::pageable_copy:
      free_calls();
      for (Index i = 0; i < program.recording().activities.size(); ++i) {
        // Whoever pins a buffer does so for all copies, also those that lost no time this once.
        if (is_pageable(program.activity(i)) && program.has_call(i)) {
          fix.pinned.insert(i);
          fix.calls.insert(program.activity(i).call);
        }
      }
      break;
    case Cause::launch_bound:
    case Cause::short_kernels:
      fix.graph = true;
      break;
    case Cause::host_busy:
      fix.no_gaps = true;
      free_calls();
      break;
    case Cause::legacy_stream:
      fix.no_legacy_stream = true;
      break;
    case Cause::peer_skew:
      fix.no_skew = true;
      break;
    case Cause::copy_engine:
      fix.overtaking = overtaking(program, sum);  // of large copies, the engine is the limit
      fix.passing = passing(program, sum);
      break;
    case Cause::hardware_queue:
      fix.no_channels = true;
      break;
    case Cause::collective_holds_sms:
      fix.small_collectives = true;
      fix.shares_sms = true;
      break;
    case Cause::priority_cannot_help:
      fix.shares_sms = true;
      break;
    case Cause::multiprocessors_full:
      fix.parts_of_sms = streams_in(program, sum);
      fix.room_sms = room_for(program, sum);
      break;
    case Cause::false_dependency:
      for (auto const held : sum.held) {
        for (auto const& wait : program.waits_of(held)) {
          if (std::ranges::binary_search(sum.waits, wait.sync)) {
            fix.waits.emplace(wait.sync, holds.needed_of(wait, held));
            for (auto const copy : holds.waiting_with(wait, held)) {
              for (auto const& other : program.waits_of(copy)) {
                fix.waits.emplace(other.sync, holds.needed_of(other, copy));
              }
            }
          }
        }
      }
      break;
    case Cause::one_stream_two_roles:
      for (auto const moved : sum.held) {
        auto const before = program.previous(moved);
        if (before != kNone && !program.declared(before, moved) &&
            shared.are_apart(before, moved)) {
          auto const stream = program.activity(moved).stream;
          fix.divided.emplace(stream, program.thread_of(before));
          fix.divided.emplace(stream, program.thread_of(moved));
          continue;
        }
        // A download is moved itself; otherwise what follows it would be. Of a download and an
        // upload behind it, each gets a stream.
        auto const is_copy = [&](Index i, CopyDirection direction) {
          return i != kNone && program.activity(i).kind == ActivityKind::copy &&
                 program.activity(i).direction == direction;
        };
        bool const after_download = is_copy(before, CopyDirection::d2h);
        if (after_download) {
          fix.moved.insert(before);
        }
        if (!after_download || is_copy(moved, CopyDirection::h2d)) {
          fix.moved.insert(moved);
        }
      }
      break;
    case Cause::true_dependency:
      if (sum.waits.empty()) {
        return std::nullopt;
      }
      fix.waits = waits_for(program, sum.holders);
      if (fix.waits.empty()) {
        return std::nullopt;
      }
      break;
    case Cause::collective_order:
      fix.moved.insert(sum.held.begin(), sum.held.end());
      fix.own_order = fix.moved;
      // A stream that joined the collectives once more still waits for those in front of the moved
      // ones.
      for (auto const moved : sum.held) {
        for (auto const again : holds.joins_again(moved)) {
          fix.waits.emplace(again, program.previous(moved));
        }
      }
      break;
    case Cause::bandwidth_shared:
    case Cause::unknown:
      return std::nullopt;
  }
  return fix;
}

}  // namespace msstream::overlap
