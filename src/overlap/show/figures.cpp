// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/figures.hpp"

#include "overlap/find/tolerances.hpp"

#include <msstream/report/text.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>

namespace msstream::overlap {
namespace {

constexpr std::size_t kDirectionBits = 6;
/// A set of kinds and directions, one bit each.
constexpr std::size_t kSets = std::size_t{1} << (kWorkKinds + kDirectionBits);

WorkKind work_kind_of(Activity const& activity) {
  switch (activity.kind) {
    case ActivityKind::copy:
      return WorkKind::copies;
    case ActivityKind::fill:
      return WorkKind::fills;
    case ActivityKind::kernel:
    case ActivityKind::graph:
      break;
  }
  return activity.collective == kNone ? WorkKind::kernels : WorkKind::collectives;
}

std::size_t bit_of(WorkKind kind) {
  return static_cast<std::size_t>(kind);
}

std::size_t bit_of(CopyDirection direction) {
  return kWorkKinds + static_cast<std::size_t>(direction);
}

bool has(std::size_t set, std::size_t bit) {
  return (set >> bit & 1U) != 0;
}

/// Goes through a window, and keeps what runs at each instant.
class Sweep {
 public:
  explicit Sweep(std::size_t streams) : running_on_(streams), streams_(streams) {}

  void begin(Activity const& activity) {
    change(activity, 1);
    if (running_on_[activity.stream]++ == 0) {
      ++busy_streams_;
      sum_of_streams_ += activity.stream;
    }
  }
  void end(Activity const& activity) {
    change(activity, -1);
    if (--running_on_[activity.stream] == 0) {
      --busy_streams_;
      sum_of_streams_ -= activity.stream;
    }
  }
  void count(Activity const& activity, Interval time) {
    ++activities_[bit_of(work_kind_of(activity))];
    if (activity.kind == ActivityKind::copy) {
      ++activities_[bit_of(activity.direction)];
      add_bytes(activity, time);
    }
    ++streams_[activity.stream].activities;
  }
  /// Adds time in which nothing begins or ends.
  void pass(Ns time) {
    times_[set_] += time;
    if (busy_streams_ == 1) {
      streams_[sum_of_streams_].alone += time;
    }
  }
  void add_busy(Index stream, Ns time) { streams_[stream].busy += time; }

  [[nodiscard]] Figures figures() const {
    Figures figures;
    for (std::size_t kind = 0; kind < kWorkKinds; ++kind) {
      figures.work[kind] = time_of(kind, kind);
    }
    for (std::size_t i = 0; i < kDirectionBits; ++i) {
      auto const direction = static_cast<CopyDirection>(i);
      if (activities_[bit_of(direction)] > 0) {
        figures.copies.push_back(
            {direction, time_of(bit_of(direction), bit_of(WorkKind::copies)), bytes_[i]});
      }
    }
    for (Index i = 0; i < streams_.size(); ++i) {
      if (streams_[i].activities > 0) {
        figures.streams.push_back(streams_[i]);
        figures.streams.back().stream = i;
      }
    }
    return figures;
  }

 private:
  /// Adds the bytes that a copy moves in a part of its time.
  void add_bytes(Activity const& copy, Interval part) {
    auto& sum = bytes_[static_cast<std::size_t>(copy.direction)];
    if (copy.bytes == kUnknown || sum == kUnknown) {
      sum = kUnknown;
      return;
    }
    auto const length = copy.time.length();
    auto const share =
        length > 0 ? static_cast<double>(part.length()) / static_cast<double>(length) : 1.0;
    sum += std::llround(static_cast<double>(copy.bytes) * share);
  }
  void change(Activity const& activity, int by) {
    change(bit_of(work_kind_of(activity)), by);
    if (activity.kind == ActivityKind::copy) {
      change(bit_of(activity.direction), by);
    }
  }
  void change(std::size_t bit, int by) {
    running_[bit] += by;
    std::size_t const mask = std::size_t{1} << bit;
    set_ = running_[bit] > 0 ? set_ | mask : set_ & ~mask;
  }

  /// Returns the time of what has a bit. Kinds below `kind` hide it.
  [[nodiscard]] WorkTime time_of(std::size_t bit, std::size_t kind) const {
    WorkTime time{.activities = activities_[bit]};
    for (std::size_t set = 0; set < kSets; ++set) {
      if (!has(set, bit)) {
        continue;
      }
      bool const is_hidden = (set & ((std::size_t{1} << kind) - 1)) != 0;
      time.busy += times_[set];
      time.exposed += is_hidden ? 0 : times_[set];
      time.beside_kernels += kind != 0 && has(set, bit_of(WorkKind::kernels)) ? times_[set] : 0;
    }
    return time;
  }

  std::array<int, kWorkKinds + kDirectionBits> running_{};
  std::array<std::size_t, kWorkKinds + kDirectionBits> activities_{};
  std::array<std::int64_t, kDirectionBits> bytes_{};
  std::vector<int> running_on_;
  std::vector<StreamTime> streams_;
  std::array<Ns, kSets> times_{};
  std::size_t set_ = 0;
  std::size_t busy_streams_ = 0;
  std::size_t sum_of_streams_ = 0;  ///< the stream, if only one is busy
};

}  // namespace

Figures figures_of(Recording const& recording, Interval window, Index device) {
  Sweep sweep(recording.streams.size());
  using End = std::pair<Ns, Index>;
  std::priority_queue<End, std::vector<End>, std::greater<>> running;
  std::vector<Ns> busy_until(recording.streams.size(), window.begin);
  Ns now = window.begin;
  auto const pass_to = [&](Ns time) {
    sweep.pass(time - now);
    now = time;
  };
  auto const end_until = [&](Ns time) {
    while (!running.empty() && running.top().first <= time) {
      pass_to(running.top().first);
      sweep.end(recording.activities[running.top().second]);
      running.pop();
    }
  };
  for (Index i = 0; i < recording.activities.size(); ++i) {
    auto const& activity = recording.activities[i];
    Interval const time{std::max(activity.time.begin, window.begin),
                        std::min(activity.time.end, window.end)};
    if (activity.time.begin > window.end) {
      break;
    }
    if (!is_in(activity.time, window) || recording.streams[activity.stream].device != device) {
      continue;
    }
    sweep.count(activity, time);
    if (time.end <= time.begin) {
      continue;
    }
    end_until(time.begin);
    pass_to(time.begin);
    sweep.begin(activity);
    running.emplace(time.end, i);
    auto& until = busy_until[activity.stream];
    sweep.add_busy(activity.stream, std::max<Ns>(0, time.end - std::max(until, time.begin)));
    until = std::max(until, time.end);
  }
  end_until(window.end);
  return sweep.figures();
}

std::string copies_text(CopyTime const& copies) {
  auto const few = tolerance::kSmallCopyBytes * static_cast<std::int64_t>(copies.time.activities);
  if (copies.bytes == kUnknown || copies.bytes < few || copies.time.busy == 0) {
    return std::string(id_of(copies.direction));
  }
  // Bytes per ns are GB/s.
  auto const rate = static_cast<double>(copies.bytes) / static_cast<double>(copies.time.busy);
  return fmt::format("{} at {} GB/s",
                     id_of(copies.direction),
                     report::fixed(rate,
                                   rate < 10    ? 2
                                   : rate < 100 ? 1
                                                : 0));
}

std::string_view id_of(WorkKind kind) noexcept {
  switch (kind) {
    case WorkKind::kernels:
      return "kernels";
    case WorkKind::fills:
      return "fills";
    case WorkKind::collectives:
      return "collectives";
    case WorkKind::copies:
      break;
  }
  return "copies";
}

std::string_view id_of(CopyDirection direction) noexcept {
  switch (direction) {
    case CopyDirection::h2d:
      return "h2d";
    case CopyDirection::d2h:
      return "d2h";
    case CopyDirection::d2d:
      return "d2d";
    case CopyDirection::peer:
      return "peer";
    case CopyDirection::h2h:
      return "h2h";
    case CopyDirection::unknown:
      break;
  }
  return "unknown";
}

}  // namespace msstream::overlap
