// SPDX-License-Identifier: Apache-2.0
// Takes the work of a replay from a recording: how long each activity takes alone, when it can
// begin, and what it wants of the device.
#include "overlap/find/tolerances.hpp"
#include "overlap/predict/replay.hpp"
#include "overlap/recording/occupancy.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

/// A small part is what is left when divided by this.
constexpr Ns kParts = 4;

/// Launches of one kernel with one shape.
using KernelKind = std::pair<NameId, Index>;
KernelKind kernel_kind_of(Activity const& activity) {
  return {activity.name, activity.shape};
}

/// Tells which activities ran alone on their device, and how long kernels take alone. Activities
/// that overlapped others may have been slower for it.
class TimesAlone {
 public:
  TimesAlone(Program const& program, std::span<Index const> activities)
      : beside_(activities.size(), 0), lengths_(activities.size()) {
    struct Last {
      Ns end = 0;
      std::size_t place = 0;
    };
    std::map<Index, Last> lasts;  // of each device, the activity that ended last so far
    for (std::size_t place = 0; place < activities.size(); ++place) {
      auto const& time = program.activity(activities[place]).time;
      lengths_[place] = time.length();
      auto const [last, is_first] =
          lasts.try_emplace(program.device_of(activities[place]), Last{time.end, place});
      if (is_first) {
        continue;
      }
      if (time.begin < last->second.end) {
        auto const both = std::max<Ns>(std::min(time.end, last->second.end) - time.begin, 1);
        beside_[place] += both;
        beside_[last->second.place] += both;
      }
      if (time.end >= last->second.end) {
        last->second = {time.end, place};
      }
    }
    for (std::size_t place = 0; place < activities.size(); ++place) {
      auto const& activity = program.activity(activities[place]);
      if (ran_alone(place) && activity.kind == ActivityKind::kernel) {
        auto [found, is_new] = least_.try_emplace(kernel_kind_of(activity), lengths_[place]);
        found->second = std::min(found->second, lengths_[place]);
      }
    }
  }

  /// Whether an activity, by its place, ran beside others for no more than a hundredth of its time:
  /// one that takes the room of another begins as the last blocks of that one end.
  [[nodiscard]] bool ran_alone(std::size_t place) const {
    constexpr Ns kSmallPart = 100;
    return beside_[place] <= lengths_[place] / kSmallPart;
  }
  /// Returns the shortest time of such a kernel alone; nothing if none ran alone.
  [[nodiscard]] std::optional<Ns> least(Activity const& activity) const {
    auto const found = least_.find(kernel_kind_of(activity));
    return found == least_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::vector<Ns> beside_;  ///< the time beside others
  std::vector<Ns> lengths_;
  std::map<KernelKind, Ns> least_;
};

}  // namespace

void Replay::take_work() {
  auto const& recording = program_.recording();
  std::vector<Index> step_of_call;
  if (!steps_.empty()) {
    step_of_call.assign(steps_.back().call - steps_.front().call + 1, 0);
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      step_of_call[steps_[s].call - steps_.front().call] = static_cast<Index>(s + 1);
    }
  }
  TimesAlone const alone(program_, activities_);
  std::vector<BusyUntil> busy(recording.devices.size());
  for (std::size_t place = 0; place < activities_.size(); ++place) {
    auto const i = activities_[place];
    auto const& activity = recording.activities[i];
    auto const least = alone.least(activity);
    auto& until = busy[program_.device_of(i)];
    Work work{.device_ns = activity.time.length()};
    // A kernel that is many times as long has other arguments, and more to do.
    constexpr Ns kMostSlower = 4;
    if (!alone.ran_alone(place) && least && work.device_ns <= kMostSlower * *least) {
      work.device_ns = std::min(work.device_ns, std::max(*least, work.device_ns / 2));
    }
    auto const inside = time_in_window(i);
    if (inside.length() < activity.time.length()) {
      work.device_ns = std::min(work.device_ns, inside.length());
    }
    auto const ready = std::max(program_.ready(i), window_.begin);
    auto const delay = std::max<Ns>(inside.begin - ready, 0);
    // A long delay until the device had room or ended something is due to that, which the replay
    // repeats. A copy that goes on holds nothing of other kinds.
    auto const close = tolerance::of_order(recording);
    bool const was_busy =
        delay > close / kParts && (until.any > inside.begin - close ||
                                   ended_at(inside.begin, program_.device_of(i)) != kNone);
    work.latency = was_busy ? close / kParts : delay;
    if (activity.kind != ActivityKind::copy) {
      take_room(work, i, least, until);
    }
    if (activity.call != kNone && !steps_.empty() && activity.call >= steps_.front().call &&
        activity.call <= steps_.back().call) {
      work.step = step_of_call[activity.call - steps_.front().call];
      work.issued = std::max<Ns>(
          std::min(program_.issued(i), inside.begin) - time_of(activity.call).begin, 0);
    }
    work_.push_back(work);
  }
  fit_to_recording();
}

/// Takes what a kernel or fill wants of the multiprocessors, and how it shared them with those that
/// ran when it began. `alone` is the shortest time of such a kernel alone.
void Replay::take_room(Work& work, Index i, std::optional<Ns> alone, BusyUntil& until) const {
  auto const& recording = program_.recording();
  auto const& activity = recording.activities[i];
  auto const& gpu = recording.devices[program_.device_of(i)];
  auto const occupancy =
      activity.shape == kNone ? std::nullopt : occupancy_of(gpu, recording.shapes[activity.shape]);
  constexpr double kMostRegisters = 0.6;
  work.sms = occupancy ? occupancy->wanted_sms() : std::max(gpu.sms, 2) / 2;
  work.filled_sms = occupancy ? occupancy->filled_sms() : work.sms;
  work.fills = occupancy && occupancy->fills();
  work.one_wave = occupancy && occupancy->is_one_wave();
  work.computes = occupancy && occupancy->register_share > kMostRegisters;
  auto const end = activity.time.end;
  auto const others_end = std::exchange(until.any, std::max(until.any, end));
  auto const full_until =
      work.fills ? std::exchange(until.full, std::max(until.full, end)) : until.full;
  auto const inside = time_in_window(i);
  if (!work.fills || inside.length() != activity.time.length()) {
    return;
  }
  auto const rest = others_end - inside.begin;
  if (alone && work.one_wave && rest > tolerance::of_order(recording) && others_end < end &&
      inside.length() - *alone >= rest - std::min(*alone, rest) / kParts) {
    work.begins_in_parts = true;
    work.device_ns = *alone;
  } else if (!alone && full_until > inside.begin && full_until < end) {
    // It began as the last blocks of a kernel ended that fills the device as well, and got the
    // whole device at the end of that one.
    work.device_ns = std::max(end - full_until, inside.length() / 2);
  }
}

/// Fits the multiprocessors that kernels want to what the recording shows. Kernels of one launch
/// that ran beside others, and were not as much slower as the replay would make them, found room on
/// multiprocessors that others used as well: they want fewer. Those that were slower shared
/// something else, such as the memory's bandwidth: they want more, at most the whole device.
void Replay::fit_to_recording() {
  auto const& recording = program_.recording();
  struct Slower {
    double recorded = 0;
    double alone = 0;
    double replayed = 0;
  };
  /// Kernels of one launch that ran beside others.
  struct Beside {
    Slower time;
    double wanted = 0;  ///< multiprocessors, by all that ran, multiplied by the time
  };
  std::map<KernelKind, Slower> kinds;
  std::map<KernelKind, Beside> kinds_beside;
  auto const key_of = [&](std::size_t place) {
    return kernel_kind_of(program_.activity(activities_[place]));
  };
  auto const is_counted = [&](std::size_t place) {
    auto const i = activities_[place];
    return program_.activity(i).shape != kNone && work_[place].sms > 0 && !work_[place].fills &&
           time_in_window(i) == program_.activity(i).time;
  };
  for (Index device = 0; device < recording.devices.size(); ++device) {
    double const sms =
        recording.devices[device].sms > 0 ? recording.devices[device].sms : kAssumedSms;
    // Passes over begins and ends, with the time that the work so far would have taken.
    std::vector<std::tuple<Ns, bool, std::size_t>> changes;
    for (std::size_t place = 0; place < activities_.size(); ++place) {
      auto const time = time_in_window(activities_[place]);
      if (program_.device_of(activities_[place]) == device && work_[place].sms > 0 &&
          time.length() > 0) {
        changes.emplace_back(time.begin, true, place);
        changes.emplace_back(time.end, false, place);
      }
    }
    std::ranges::sort(changes);
    struct Begun {
      double taken = 0;
      double area = 0;
    };
    std::unordered_map<std::size_t, Begun> begun;
    double taken = 0;
    double wanted = 0;
    double area = 0;
    Ns at = 0;
    for (auto const& [time, begins, place] : changes) {
      taken += static_cast<double>(time - at) * std::max(1.0, wanted / sms);
      area += static_cast<double>(time - at) * wanted;
      at = time;
      wanted += begins ? work_[place].sms : -work_[place].sms;
      if (begins) {
        begun[place] = {taken, area};
        continue;
      }
      auto const since = begun.extract(place).mapped();
      if (is_counted(place)) {
        auto const recorded =
            static_cast<double>(program_.activity(activities_[place]).time.length());
        auto const alone = static_cast<double>(work_[place].device_ns);
        auto const add = [&](Slower& kind) {
          kind.recorded += recorded;
          kind.alone += alone;
          kind.replayed += taken - since.taken;
        };
        add(kinds[key_of(place)]);
        auto const all = (area - since.area) / recorded;
        if (all > 1.5 * work_[place].sms && !collectives_.is_one(activities_[place])) {
          auto& beside = kinds_beside[key_of(place)];
          add(beside.time);
          beside.wanted += area - since.area;
        }
      }
    }
  }
  for (std::size_t place = 0; place < activities_.size(); ++place) {
    if (!is_counted(place)) {
      continue;
    }
    auto const& kind = kinds[key_of(place)];
    auto& work = work_[place];
    if (kind.alone > 0 && kind.replayed > kind.recorded) {
      double const slower = kind.recorded / kind.alone;
      double const share = slower * kind.recorded / kind.replayed;
      if (share < 1) {
        work.sms = std::max(static_cast<int>(share * work.sms), 1);
        work.filled_sms = std::min(work.filled_sms, work.sms);
        continue;
      }
    }
    constexpr double kSlower = 1.1;
    auto const beside = kinds_beside.find(key_of(place));
    if (beside == kinds_beside.end()) {
      continue;
    }
    auto const& [time, wanted] = beside->second;
    // The replayed times are those of kernels that take as long as recorded, also alone.
    if (time.alone > 0 && time.recorded * time.recorded > kSlower * time.replayed * time.alone) {
      auto const device = program_.device_of(activities_[place]);
      int const all =
          recording.devices[device].sms > 0 ? recording.devices[device].sms : kAssumedSms;
      double const share = time.recorded / time.alone * all * time.recorded / wanted;
      work.sms = std::clamp(static_cast<int>(share * work.sms), work.sms, std::max(all, work.sms));
      work.filled_sms = std::max(work.filled_sms, work.sms);
    }
  }
}

}  // namespace msstream::overlap
