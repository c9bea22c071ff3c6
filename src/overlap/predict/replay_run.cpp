// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/tolerances.hpp"
#include "overlap/predict/late_blocks.hpp"
#include "overlap/predict/number_lists.hpp"
#include "overlap/predict/replay.hpp"
#include "overlap/recording/occupancy.hpp"
#include "runtime/sim/sim_load.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kAfterWait = 2'000;  ///< the host's reaction to the end of work
/// From the end of a kernel to the begin of the next one in a graph: 0.67 and 0.71 us for two
/// chains of kernels on an H200.
constexpr double kGraphGap = 700;

}  // namespace

/// One replay. Steps and activities have a count of what they still wait for, and begin when it is
/// 0: steps after their gap, activities after their latency and once the device has room.
class Replay::Run {
 public:
  Run(Replay const& replay, Fix const& fix)
      : replay_(replay),
        fix_(fix),
        step_missing_(replay.steps_.size(), 0),
        step_ready_(replay.steps_.size(), 0),
        step_begun_(replay.steps_.size(), 0),
        missing_(replay.activities_.size(), 0),
        ready_(replay.activities_.size(), 0),
        after_step_(replay.steps_.size()),
        works_of_step_(replay.steps_.size()),
        waiters_(replay.activities_.size()),
        after_(replay.activities_.size()),
        engines_(replay.engines_) {
    for (auto const& device : replay.program_.recording().devices) {
      loads_.emplace_back(device.sms > 0 ? device.sms : kAssumedSms);
      waiting_.emplace_back();
      full_.push_back(0);
      late_.emplace_back();
      has_changed_.push_back(false);
    }
    link_steps();
    link_activities();
  }

  double makespan() {
    for (std::size_t s = 0; s < step_missing_.size(); ++s) {
      if (step_missing_[s] == 0) {
        begin_step(s);
      }
    }
    for (std::size_t a = 0; a < missing_.size(); ++a) {
      if (missing_[a] == 0) {
        events_.emplace(ready_[a], Kind::activity, a);
      }
    }
    std::vector<sim::StreamNumber> done;
    while (true) {
      double const next = events_.empty() ? kNever : std::get<0>(events_.top()) - now_;
      double step = next;
      for (auto const& load : loads_) {
        step = std::min(step, load.next_done_in_ns());
      }
      if (step == kNever) {
        return latest_ + static_cast<double>(replay_.tail_);
      }
      step = std::max(step, 0.0);
      bool const is_event = next <= step;
      done.clear();
      for (auto& load : loads_) {
        load.pass(step, done);
      }
      now_ = is_event ? std::get<0>(events_.top()) : now_ + step;
      for (auto const job : done) {
        end_job(job);
      }
      while (!events_.empty() && std::get<0>(events_.top()) <= now_) {
        auto const [time, kind, which] = events_.top();
        events_.pop();
        if (kind == Kind::step) {
          end_step(which);
        } else if (kind == Kind::issue) {
          issue_work(which);
        } else {
          waiting_[device_of(which)].push_back(which);
          has_changed_[device_of(which)] = true;
        }
      }
      for (std::size_t device = 0; device < waiting_.size(); ++device) {
        if (has_changed_[device]) {
          start_waiting(device);
          has_changed_[device] = false;
        }
      }
    }
  }

 private:
  enum class Kind : std::uint8_t { step, issue, activity };
  using Event = std::tuple<double, Kind, std::size_t>;

  [[nodiscard]] Activity const& activity(std::size_t a) const {
    return replay_.program_.activity(replay_.activities_[a]);
  }
  [[nodiscard]] std::size_t device_of(std::size_t a) const {
    return replay_.program_.device_of(replay_.activities_[a]);
  }
  [[nodiscard]] bool is_moved(Index i) const { return fix_.moved.contains(i); }
  [[nodiscard]] bool is_freed(Step const& step) const { return fix_.calls.contains(step.call); }

  void link_steps() {
    for (std::size_t s = 0; s < replay_.steps_.size(); ++s) {
      auto const& step = replay_.steps_[s];
      if (step.after != 0) {
        after_step_.put(step.after - 1, static_cast<Index>(s));
        ++step_missing_[s];
      }
    }
  }

  void link(Index before, std::size_t a) {
    if (before == kNone || !replay_.is_inside(before)) {
      return;
    }
    auto const place = replay_.places_[before];
    if (place != a) {
      after_.put(place, static_cast<Index>(a));
      ++missing_[a];
    }
  }

  /// Links a collective that has a communicator of its own with what its stream had waited for.
  void link_waits_before(Index i, std::size_t a) {
    constexpr int kMostSteps = 16;
    auto const& program = replay_.program_;
    auto before = program.previous(i);
    for (int step = 0; step < kMostSteps && before != kNone; ++step) {
      for (auto const& wait : program.waits_of(before)) {
        link(wait.target, a);
      }
      if (!is_moved(before)) {
        break;
      }
      before = program.previous(before);
    }
  }

  [[nodiscard]] bool is_upload(Index i) const {
    auto const& copy = replay_.program_.activity(i);
    return copy.kind == ActivityKind::copy && copy.direction == CopyDirection::h2d;
  }

  /// Returns the activity before one in its stream, as the fix divides it.
  [[nodiscard]] Index previous_of(Index i) {
    if (fix_.divided.empty()) {
      return replay_.program_.previous(i);
    }
    auto const stream = replay_.program_.activity(i).stream;
    auto const [last, is_first] =
        last_of_thread_.try_emplace({stream, replay_.owner_of(i, fix_)}, i);
    return is_first ? kNone : std::exchange(last->second, i);
  }

  void link_activities() {
    auto const& program = replay_.program_;
    std::vector<Index> last_legacy(program.recording().devices.size(), kNone);
    std::map<std::pair<Index, int>, std::size_t> last_in_channel;
    std::map<NewStream, Index> last_moved;
    // Work that was issued before the window begins with it at the earliest.
    auto const begin = static_cast<double>(replay_.window_.begin - replay_.start_);
    for (std::size_t a = 0; a < replay_.activities_.size(); ++a) {
      auto const i = replay_.activities_[a];
      auto const& work = replay_.work_[a];
      if (replay_.runs_at_begin(i)) {
        ready_[a] = begin;
        continue;
      }
      if (work.step != 0) {
        auto const step =
            fix_.own_thread.contains(i) ? replay_.first_step_since_wait(work.step) : work.step;
        works_of_step_.put(step - 1, static_cast<Index>(a));
        ++missing_[a];
      } else if (program.previous(i) == kNone || !replay_.is_inside(program.previous(i))) {
        ready_[a] = std::max(static_cast<double>(program.issued(i) - replay_.start_), begin);
      } else {
        ready_[a] = begin;  // or a call that was not recorded issued it, after the work before it
      }
      auto before = previous_of(i);
      while (before != kNone && runs_beside(before, i)) {
        before = program.previous(before);
      }
      bool const needs_before = !is_moved(i) || (activity(a).kind == ActivityKind::copy &&
                                                 activity(a).direction == CopyDirection::d2h);
      if (needs_before) {
        while (is_moved(i) && before != kNone && is_upload(before)) {
          before = program.previous(before);  // a download needs what kernels wrote
        }
        while (before != kNone && is_moved(before)) {
          if (replay_.is_needed_after(before, i)) {
            link(before, a);
          }
          before = program.previous(before);
        }
        link(before, a);
      }
      if (is_moved(i) && activity(a).kind != ActivityKind::copy) {
        if (fix_.own_order.contains(i)) {
          link_waits_before(i, a);
        } else {
          link(replay_.before_moved_kernel(i), a);
        }
      } else if (is_moved(i)) {
        auto [last, is_first] = last_moved.try_emplace(replay_.new_stream_of(i), i);
        if (!is_first) {
          link(last->second, a);
          last->second = i;
        }
      }
      for (auto const& wait : program.waits_of(i)) {
        auto const changed = fix_.waits.find(wait.sync);
        link(changed == fix_.waits.end() ? wait.target : changed->second, a);
      }
      if (!is_moved(i)) {
        link(replay_.unseen_target(i, fix_), a);
      }
      if (activity(a).graph != kUnknown) {
        link_graph(a);
      }
      if (!fix_.no_legacy_stream) {
        link_legacy(i, a, last_legacy);
      }
      if (!fix_.no_channels && activity(a).channel != kUnknown) {
        // The head of a hardware queue keeps back what follows: its own waits are theirs.
        auto const head = std::pair(static_cast<Index>(device_of(a)), activity(a).channel);
        if (auto const found = last_in_channel.find(head);
            found != last_in_channel.end() &&
            activity(found->second).stream != activity(a).stream &&
            activity(found->second).time.begin <= activity(a).time.begin) {
          auto const other = replay_.activities_[found->second];
          if (program.called(other) < program.called(i)) {
            link(program.previous(other), a);
          }
        }
        last_in_channel[head] = a;
      }
    }
  }

  /// Whether two activities of one stream ran at once: nodes of a graph, or programmatic launches.
  [[nodiscard]] bool runs_beside(Index before, Index i) const {
    auto const& program = replay_.program_;
    return program.activity(before).time.end >
           program.activity(i).time.begin + 2 * program.recording().clock_step;
  }

  /// Links an activity of a graph: a run with the run before it, if they are not seen at once, and
  /// nodes with those of their run that had ended before them, since recordings do not have the
  /// edges.
  void link_graph(std::size_t a) {
    auto const i = replay_.activities_[a];
    auto& runs = runs_[{device_of(a), activity(a).graph}];
    constexpr std::size_t kMostRuns = 64;  // at once
    auto run = runs.rbegin();
    auto const end = runs.rbegin() + static_cast<std::ptrdiff_t>(std::min(runs.size(), kMostRuns));
    while (run != end && activity(run->back()).call != activity(a).call) {
      ++run;
    }
    if (run == end) {
      if (!runs.empty() &&
          replay_.program_.are_runs_of_one_graph(replay_.activities_[runs.back().back()], i)) {
        for (auto const node : runs.back()) {
          link(replay_.activities_[node], a);
        }
      }
      runs.push_back({a});
      return;
    }
    constexpr std::size_t kMostNodes = 16;
    for (auto place = run->size() - std::min(run->size(), kMostNodes); place < run->size();
         ++place) {
      if (activity((*run)[place]).time.end <= activity(a).time.begin) {
        link(replay_.activities_[(*run)[place]], a);
      }
    }
    run->push_back(a);
  }

  /// Links work of the legacy stream with that of blocking streams which was issued before.
  void link_legacy(Index i, std::size_t a, std::vector<Index>& last_legacy) {
    auto const& program = replay_.program_;
    auto const& streams = program.recording().streams;
    auto const type = streams[program.activity(i).stream].type;
    auto const blocking = [](StreamType t) {
      return t == StreamType::blocking || t == StreamType::per_thread;
    };
    auto& last = last_legacy[device_of(a)];
    if (type == StreamType::legacy) {
      for (auto const s : program.streams_of(program.device_of(i))) {
        if (blocking(streams[s].type)) {
          link(program.last_issued(s, program.called(i)), a);
        }
      }
      last = i;
    } else if (blocking(type) && last != kNone) {
      link(last, a);
    }
  }

  void begin_step(std::size_t s) {
    auto const& step = replay_.steps_[s];
    auto const [gap, cost] = replay_.gap_and_cost(step, fix_);
    step_begun_[s] = step_ready_[s] + gap;
    step_ready_[s] = step_begun_[s] + cost;
    bool const waits = step.waits && !is_freed(step);
    events_.emplace(step_begun_[s], Kind::issue, s);
    if (waits) {
      for (std::uint32_t t = 0; t < step.targets; ++t) {
        auto const place = replay_.places_[replay_.targets_[step.first_target + t]];
        if (!is_done(place)) {
          waiters_.put(place, static_cast<Index>(s));
          ++step_missing_[s];
        }
      }
      step_begun_[s] = cost;
    }
    if (step_missing_[s] == 0 || !waits) {
      events_.emplace(step_ready_[s], Kind::step, s);
    }
  }
  /// Issues the work of a step that begins now, as long after its begin as it was recorded: a call
  /// may go on when its work runs.
  void issue_work(std::size_t s) {
    auto const cost = replay_.gap_and_cost(replay_.steps_[s], fix_).second;
    works_of_step_.for_each(s, [&](Index a) {
      fulfil(a, std::min(static_cast<double>(replay_.work_[a].issued), cost));
    });
  }
  [[nodiscard]] bool is_done(std::size_t a) const { return missing_[a] == kDone; }

  void end_step(std::size_t s) {
    after_step_.for_each(s, [&](Index next) {
      step_ready_[next] = now_;
      if (--step_missing_[next] == 0) {
        begin_step(next);
      }
    });
  }

  void fulfil(std::size_t a, double latency) {
    ready_[a] = std::max(ready_[a], now_ + latency);
    if (--missing_[a] == 0) {
      double const measured = static_cast<double>(replay_.work_[a].latency);
      double const most = fix_.fused                           ? 0
                          : fix_.graph && !fix_.begins_as_late ? kGraphGap
                                                               : measured;
      double const wait = std::min(measured, most);
      events_.emplace(ready_[a] + wait, Kind::activity, a);
    }
  }

  [[nodiscard]] bool fills(Work const& work) const { return work.fills && !is_divided(work, fix_); }

  [[nodiscard]] bool queues_for_engine(std::size_t a) const {
    return activity(a).kind == ActivityKind::copy &&
           !fix_.overtaking.contains(replay_.activities_[a]);
  }

  void start_waiting(std::size_t device) {
    auto& waiting = waiting_[device];
    std::size_t kept = 0;
    for (std::size_t w = 0; w < waiting.size(); ++w) {
      auto const a = waiting[w];
      auto const& work = replay_.work_[a];
      // A grid that fills the device lets none begin beside it until its blocks run out.
      if (work.sms > 0 && full_[device] > 0 && !finds_room(work, fix_)) {
        waiting[kept++] = a;
        continue;
      }
      auto const number = static_cast<sim::StreamNumber>(a);
      if (activity(a).kind == ActivityKind::copy) {
        if (queues_for_engine(a)) {
          auto& idle_engines = engines_[device][static_cast<std::size_t>(activity(a).direction)];
          if (idle_engines == 0) {
            waiting[kept++] = a;
            continue;
          }
          --idle_engines;
        }
        loads_[device].start_kernel(number, replay_.device_ns(a, fix_), 0);
      } else {
        int sms = replay_.sms_of(a, fix_);
        auto& late = late_[device];
        if (auto const taken = late.taken_sms(); taken > 0 && begins_in_parts(work)) {
          late.keep_back({a, std::min(taken, sms)});
          sms = std::max(sms - taken, 1);
          parts_[a] = 2;
        }
        late.begin(a, std::min(work.filled_sms, sms));
        loads_[device].start_kernel(number, replay_.device_ns(a, fix_), sms);
        full_[device] += fills(work) ? 1 : 0;
      }
    }
    waiting.resize(kept);
  }

  [[nodiscard]] bool begins_in_parts(Work const& work) const {
    return work.begins_in_parts && fills(work) && !fix_.shares_sms && !fix_.leaves_room;
  }

  /// Ends an activity, or the first or last part of one that began in parts.
  void end_job(std::size_t job) {
    auto const a = job < missing_.size() ? job : job - missing_.size();
    auto const device = device_of(a);
    has_changed_[device] = true;
    if (job == a && activity(a).kind != ActivityKind::copy) {
      full_[device] -= fills(replay_.work_[a]) ? 1 : 0;
    }
    auto const parts = parts_.find(a);
    if (parts == parts_.end() || --parts->second == 0) {
      end_activity(a);
    }
  }

  void end_activity(std::size_t a) {
    if (queues_for_engine(a)) {
      ++engines_[device_of(a)][static_cast<std::size_t>(activity(a).direction)];
    } else if (activity(a).kind != ActivityKind::copy) {
      std::vector<LateBlocks::Part> begin;
      late_[device_of(a)].end(a, begin);
      for (auto const& part : begin) {
        auto const number = static_cast<sim::StreamNumber>(part.kernel + missing_.size());
        loads_[device_of(a)].start_kernel(number, replay_.device_ns(part.kernel, fix_), part.sms);
      }
    }
    missing_[a] = kDone;
    latest_ = now_;
    after_.for_each(a, [&](Index next) { fulfil(next, 0); });
    waiters_.for_each(a, [&](Index s) {
      if (--step_missing_[s] == 0) {
        auto const cost = step_begun_[s];
        step_ready_[s] = std::max(step_ready_[s], now_ + std::max(cost, kAfterWait));
        events_.emplace(step_ready_[s], Kind::step, s);
      }
    });
  }

  static constexpr Index kDone = kNone;

  Replay const& replay_;
  Fix const& fix_;
  std::vector<Index> step_missing_;
  std::vector<double> step_ready_;
  std::vector<double> step_begun_;  ///< later: the cost of a call after its wait
  std::vector<Index> missing_;      ///< of activities; kDone when they have ended
  std::vector<double> ready_;
  std::map<std::pair<Index, Index>, Index> last_of_thread_;  ///< of each stream that is divided
  /// The nodes of each launch, by device and graph.
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::vector<std::size_t>>> runs_;
  NumberLists after_step_;
  NumberLists works_of_step_;
  NumberLists waiters_;  ///< steps that wait for an activity
  NumberLists after_;
  std::vector<std::array<int, kDirections>> engines_;  ///< idle ones
  std::vector<sim::DeviceLoad> loads_;
  std::vector<std::vector<std::size_t>> waiting_;  ///< of each device, ready activities
  std::vector<int> full_;
  std::vector<LateBlocks> late_;  ///< of each device
  std::map<std::size_t, int>
      parts_;                      ///< of activities that began in parts, those that have not ended
  std::vector<bool> has_changed_;  ///< devices on which work became ready or ended
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  double now_ = 0;
  double latest_ = 0;
};

Replayed Replay::run(Fix const& fix) const {
  return {Run(*this, fix).makespan(), least_ns(fix)};
}

}  // namespace msstream::overlap
