// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/tolerances.hpp"
#include "overlap/predict/replay.hpp"
#include "overlap/recording/occupancy.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

constexpr double kGraphStep = 300;  ///< the host's part of a launch inside a graph

}  // namespace

Replay::NewStream Replay::new_stream_of(Index i) const {
  auto const& moved = program_.activity(i);
  return {moved.stream, program_.thread_of(i), moved.kind, moved.direction};
}

/// Returns the time that a thread lets pass before a step, and the step's apart from waiting.
std::pair<double, double> Replay::gap_and_cost(Step const& step, Fix const& fix) const {
  auto const is_free = [&](Cause cause) {
    return fix.no_overheads[static_cast<std::size_t>(cause)];
  };
  double gap = static_cast<double>(
      std::max<Ns>(step.gap - (is_free(Cause::recording_overhead) ? step.recording : 0) -
                       (is_free(Cause::lazy_loading) ? step.loading : 0),
                   0));
  if (fix.no_gaps && step.long_gap) {
    gap = std::min<double>(gap, tolerance::kIssue);
  }
  auto const kind = program_.call(step.call).kind;
  bool const issues = kind != CallKind::synchronize && kind != CallKind::release &&
                      kind != CallKind::allocate && kind != CallKind::load_module;
  double cost = static_cast<double>(step.cost);
  // Calls that took long for another cause do so in a graph as well.
  bool const is_usual =
      cost <= tolerance::kLongGap && host_.cause_of_call(step.call) == Cause::launch_bound;
  if (fix.graph && issues && is_usual) {
    gap = step.long_gap ? gap : 0;
    cost = std::min(cost, program_.issued_by(step.call).empty() ? 0.0 : kGraphStep);
  }
  if (fix.calls.contains(step.call) || (fix.no_gaps && kind == CallKind::other)) {
    cost = std::min<double>(cost, tolerance::kIssue);
  }
  return {gap, cost};
}

/// Returns the time of an activity, alone on the device.
double Replay::device_ns(std::size_t a, Fix const& fix) const {
  auto const i = activities_[a];
  double time = static_cast<double>(work_[a].device_ns);
  if (fix.no_skew) {
    time -= std::min(time, static_cast<double>(collectives_.waited(i)));
  }
  if (fix.pinned.contains(i)) {
    auto const bytes = program_.activity(i).bytes;
    auto const device = program_.device_of(i);
    auto const rate = pinned_rates_[device] * (assumes_bus_[device] ? fix.bus_share : 1.0);
    time = bytes > 0 ? std::min(time, static_cast<double>(bytes) / rate) : time / 2;
  }
  return time;
}

/// Returns the collective whose blocks left no room for all those of a kernel, which is known to
/// have been kept back and began as the collective ended, long after it could; kNone if there is
/// none. The blocks of a collective do not end all at once: the kernel began when enough of them
/// had ended, which may be some us before the last one.
Index Replay::kept_back_by(Index activity) const {
  auto const& recording = program_.recording();
  auto const& kernel = program_.activity(activity);
  auto const begin = kernel.time.begin;
  auto const close = tolerance::of_order(recording);
  if (!held_by_collectives_.contains(activity) || kernel.shape == kNone ||
      begin - program_.ready(activity) <= close) {
    return kNone;
  }
  // The replay lets the kernel wait for the last block, so that it is off by this part at most.
  constexpr Ns kLastBlocksOf = 10;
  constexpr Ns kLongest = 100'000;
  auto const device = program_.device_of(activity);
  for (auto const before : ended_in({begin - close, begin + kLongest}, device)) {
    auto const& collective = program_.activity(before);
    auto const rest = collective.time.end - begin;
    if (collectives_.is_one(before) && collective.shape != kNone && collective.time.begin < begin &&
        rest <= collective.time.length() / kLastBlocksOf &&
        lacks_room_for_all(recording.devices[device],
                           recording.shapes[collective.shape],
                           recording.shapes[kernel.shape])) {
      return before;
    }
  }
  return kNone;
}

/// Returns what an activity follows, under a fix, though no wait of the recording says so; kNone if
/// there is nothing.
Index Replay::unseen_target(Index activity, Fix const& fix) const {
  auto const target = fix.presumes_no_waits ? kNone : presumed_target(activity);
  return target == kNone && !fix.small_collectives ? kept_back_by(activity) : target;
}

/// Whether a kernel has a part of its blocks, for others to run beside it.
bool Replay::is_divided(Work const& work, Fix const& fix) {
  return fix.parts_of_sms > 1 && work.one_wave && work.fills && (!work.computes || fix.divides_all);
}

/// Returns the multiprocessors that a kernel wants.
int Replay::sms_of(std::size_t a, Fix const& fix) const {
  auto const& work = work_[a];
  if (fix.small_collectives && collectives_.is_one(activities_[a])) {
    constexpr int kFewBlocks = 16;
    return std::clamp(work.sms, 1, kFewBlocks);
  }
  int const parts = is_divided(work, fix) ? fix.parts_of_sms : 1;
  bool const is_packed = fix.leaves_room || (fix.room_sms > 0 && finds_room(work, fix));
  return std::max((is_packed ? work.filled_sms : work.sms) / parts, 1);
}

namespace {

/// The part of a device that kernels took when they were recorded, at the times of its changes.
class TakenRoom {
 public:
  void add(Interval const& recorded, double part) {
    changes_.emplace_back(recorded.begin, part);
    changes_.emplace_back(recorded.end, -part);
  }
  /// Returns the time that the same work needs on the whole device. Where kernels that ran at once
  /// want more than the device, they have shown that they fit.
  [[nodiscard]] double least_ns() {
    std::ranges::sort(changes_);
    double least = 0;
    double taken = 0;
    Ns at = 0;
    for (auto const& [time, change] : changes_) {
      least += static_cast<double>(time - at) * std::clamp(taken, 0.0, 1.0);
      taken += change;
      at = time;
    }
    return least;
  }

 private:
  std::vector<std::pair<Ns, double>> changes_;
};

}  // namespace

/// Returns the least time of any order: the longest of what cannot run at once.
double Replay::least_ns(Fix const& fix) const {
  double least = 0;
  std::vector<double> path(steps_.size(), 0);
  for (std::size_t s = 0; s < path.size(); ++s) {
    auto const& step = steps_[s];
    auto const [gap, cost] = gap_and_cost(step, fix);
    path[s] = (step.after == 0 ? 0 : path[step.after - 1]) + gap + cost;
    least = std::max(least, path[s]);
  }
  // Work that was recorded at once can run at once, and counts once.
  struct Sum {
    double ns = 0;
    Ns end = 0;

    double add(Interval const& recorded, double time) {
      auto const alone = static_cast<double>(recorded.end - std::max(recorded.begin, end));
      end = std::max(end, recorded.end);
      return ns += std::clamp(alone, 0.0, time);
    }
  };
  std::map<std::pair<Index, CopyDirection>, Sum> engines;
  std::map<Index, TakenRoom> rooms;
  std::map<NewStream, Sum> streams;
  for (std::size_t a = 0; a < activities_.size(); ++a) {
    auto const i = activities_[a];
    auto const& work = program_.activity(i);
    auto const recorded = time_in_window(i);
    auto const device = program_.device_of(i);
    auto const time = device_ns(a, fix);
    if (work.kind == ActivityKind::copy) {
      least = std::max(least, engines[{device, work.direction}].add(recorded, time));
    } else {
      auto const sms = program_.recording().devices[device].sms;
      auto const share = static_cast<double>(sms_of(a, fix)) / (sms > 0 ? sms : kAssumedSms);
      auto const length = static_cast<double>(std::max<Ns>(recorded.length(), 1));
      rooms[device].add(recorded, std::min(share, 1.0) * std::min(time / length, 1.0));
    }
    // Moved kernels follow what they need, whatever stream that is in.
    bool const is_free = fix.moved.contains(i) && work.kind != ActivityKind::copy &&
                         program_.recording().has_dependencies;
    if (work.graph == kUnknown && !is_free) {
      auto& sum = fix.moved.contains(i) ? streams[new_stream_of(i)]
                                        : streams[{work.stream, owner_of(i, fix), {}, {}}];
      least = std::max(least, sum.add(recorded, time));
    }
  }
  for (auto& [device, room] : rooms) {
    least = std::max(least, room.least_ns());
  }
  return least;
}

}  // namespace msstream::overlap
