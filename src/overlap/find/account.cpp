// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/account.hpp"

#include "overlap/find/alone.hpp"
#include "overlap/find/hold.hpp"
#include "overlap/find/idle.hpp"
#include "overlap/recording/occupancy.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

/// Charges time in which several activities run and others are kept back by the hardware queue that
/// their streams share with one of those that run. The time stays overlapped; the part of it counts
/// as lost that all of them at once would not have needed.
class QueueTime {
 public:
  QueueTime(Program const& program, Holds const& holds, Index device);

  /// Charges one interval, in ascending order, in which `running` run.
  void charge(Interval time, std::span<Index const> running, Ledger& ledger);

 private:
  [[nodiscard]] bool is_ready(Index held, Ns at) const;
  [[nodiscard]] bool keeps_back(Index running, Index held, Ns at);
  [[nodiscard]] int sms_of(std::span<Index const> running) const;

  Program const& program_;
  Holds const& holds_;
  Index device_;
  bool any_shared_ = false;  ///< whether streams share a queue at all
  NextActivities next_;
  /// By held activity: whether a stream's work keeps it back.
  std::unordered_map<Index, std::pair<Index, bool>> keeps_back_;
  std::vector<Index> heads_;  ///< of streams, what could begin
  std::vector<Index> held_;
};

QueueTime::QueueTime(Program const& program, Holds const& holds, Index device)
    : program_(program), holds_(holds), device_(device), next_(program, device) {
  std::map<int, Index> stream_of_channel;
  for (auto const i : program.of_device(device)) {
    auto const& activity = program.activity(i);
    if (activity.channel != kUnknown && !any_shared_) {
      auto const [first, is_new] = stream_of_channel.try_emplace(activity.channel, activity.stream);
      any_shared_ = !is_new && first->second != activity.stream;
    }
  }
}

void QueueTime::charge(Interval time, std::span<Index const> running, Ledger& ledger) {
  if (!any_shared_) {
    return;
  }
  Charge charge{.time = time, .kind = TimeClass::overlapped, .cause = Cause::hardware_queue};
  heads_.clear();
  for (auto const next : next_.from(time.end)) {
    if (is_ready(next, time.begin)) {
      heads_.push_back(next);
    }
  }
  // The earliest call first: what it keeps back follows.
  std::ranges::sort(heads_, [&](Index a, Index b) {
    return std::pair(program_.called(a), a) < std::pair(program_.called(b), b);
  });
  auto const& gpu = program_.recording().devices[device_];
  auto const sms = gpu.sms > 0 ? gpu.sms : kAssumedSms;
  held_.clear();
  for (auto const head : heads_) {
    auto const shares_queue = [&](Index i) {
      return program_.activity(i).channel == program_.activity(head).channel &&
             program_.activity(i).stream != program_.activity(head).stream &&
             program_.called(i) < program_.called(head);
    };
    auto const holder = std::ranges::find_if(
        running, [&](Index i) { return shares_queue(i) && keeps_back(i, head, time.begin); });
    bool const is_held = holder != running.end() || std::ranges::any_of(held_, shares_queue);
    if (is_held && sms_of(running) + sms_of(held_) < sms) {
      held_.push_back(head);
      charge.held = charge.held == kNone ? head : charge.held;
      charge.holder = charge.holder == kNone ? *holder : charge.holder;
    }
  }
  if (!held_.empty()) {
    auto const held = static_cast<Ns>(held_.size());
    charge.time.begin = time.end - time.length() * held / (held + static_cast<Ns>(running.size()));
    ledger.add_beside(charge);
  }
}

/// Whether nothing that was recorded but its hardware queue can have kept an activity back.
bool QueueTime::is_ready(Index held, Ns at) const {
  auto const before = program_.previous(held);
  return program_.activity(held).channel != kUnknown && program_.has_call(held) &&
         program_.issued(held) <= at &&
         (before == kNone || program_.activity(before).time.end <= at) &&
         std::ranges::all_of(program_.waits_of(held), [&](Wait const& wait) {
           return wait.known &&
                  (wait.target == kNone || program_.activity(wait.target).time.end <= at);
         });
}

bool QueueTime::keeps_back(Index running, Index held, Ns at) {
  auto const stream = program_.activity(running).stream;
  auto [known, is_new] = keeps_back_.try_emplace(held, stream, false);
  if (is_new || known->second.first != stream) {
    auto const hold = holds_.of(held, running, at, {});
    known->second = {stream, hold && hold->cause == Cause::hardware_queue};
  }
  return known->second.second;
}

/// Returns the multiprocessors that activities fill.
int QueueTime::sms_of(std::span<Index const> running) const {
  auto const& recording = program_.recording();
  int sms = 0;
  for (auto const i : running) {
    auto const shape = program_.activity(i).shape;
    auto const occupancy = shape == kNone
                               ? std::nullopt
                               : occupancy_of(recording.devices[device_], recording.shapes[shape]);
    sms += occupancy ? occupancy->filled_sms() : 0;
  }
  return sms;
}

}  // namespace

Ledger account(Program const& program,
               Host const& host,
               Collectives const& collectives,
               SharedStreams const& shared,
               Index device,
               Interval window,
               CauseSet const& harmless) {
  Ledger ledger;
  Holds const holds(program, collectives);
  IdleTime idle(program, host, holds, window);
  AloneTime alone(program, host, collectives, holds, shared, device, harmless);
  QueueTime queues(program, holds, device);
  bool const counts_queues = !harmless[static_cast<std::size_t>(Cause::hardware_queue)];
  std::vector<Index> running;
  auto const end_of = [&](Index i) { return program.activity(i).time.end; };
  auto const ends_later = [&](Index a, Index b) {
    return std::pair(end_of(a), a) > std::pair(end_of(b), b);
  };
  auto const activities = program.of_device(device);
  // An activity that runs alone ends one span and begins another.
  ledger.reserve(2 * activities.size() + 1);
  std::size_t next = 0;
  Ns now = window.begin;
  while (true) {
    while (!running.empty() && end_of(running.front()) <= now) {
      std::ranges::pop_heap(running, ends_later);
      running.pop_back();
    }
    while (next < activities.size() && program.activity(activities[next]).time.begin <= now) {
      auto const& time = program.activity(activities[next]).time;
      if (time.end > now) {
        running.push_back(activities[next]);
        std::ranges::push_heap(running, ends_later);
      }
      ++next;
    }
    if (now >= window.end) {
      break;
    }
    Ns end = window.end;
    if (next < activities.size()) {
      end = std::min(end, program.activity(activities[next]).time.begin);
    }
    if (!running.empty()) {
      end = std::min(end, end_of(running.front()));
    }
    ledger.add_at_once(running.size(), end - now);
    if (running.empty()) {
      idle.charge({now, end}, next < activities.size() ? activities[next] : kNone, ledger);
    } else if (running.size() == 1) {
      alone.charge({now, end}, running.front(), ledger);
    } else {
      ledger.add({.time = {now, end}, .kind = TimeClass::overlapped, .cause = {}});
      if (counts_queues) {
        queues.charge({now, end}, running, ledger);
      }
    }
    now = end;
  }
  ledger.close();
  return ledger;
}

}  // namespace msstream::overlap
