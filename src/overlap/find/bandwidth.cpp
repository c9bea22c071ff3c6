// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/bandwidth.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

namespace msstream::overlap {
namespace {

constexpr double kAloneShare = 0.05;  ///< an activity with less overlap ran alone
constexpr double kBesideShare = 0.5;  ///< one with more ran beside others
constexpr double kSlower = 1.2;       ///< from which ratio on it counts as slower
constexpr double kNoGain = 0.5;       ///< the share of the overlap that slowness must take
constexpr std::size_t kFewestAlone = 2;
/// Activities that share something fairly are slower by how many there are. One that is slower by
/// more than twice that had more to do, as its arguments told it.
constexpr double kMostSlower = 2;

/// The kind of an activity: those of one kind have equal values.
using Key = std::tuple<ActivityKind, NameId, std::array<int, 3>, std::array<int, 3>, std::int64_t>;

/// Overlapped time up to any instant.
class OverlappedTime {
 public:
  explicit OverlappedTime(std::vector<ClassSpan> const& spans) {
    Ns sum = 0;
    for (auto const& span : spans) {
      if (span.kind == TimeClass::overlapped) {
        spans_.push_back(span.time);
        before_.push_back(sum);
        sum += span.time.length();
      }
    }
  }
  [[nodiscard]] bool is_empty() const { return spans_.empty(); }
  [[nodiscard]] Ns until(Ns time) const {
    auto const after = std::ranges::upper_bound(spans_, time, {}, &Interval::begin);
    if (after == spans_.begin()) {
      return 0;
    }
    auto const place = static_cast<std::size_t>(after - spans_.begin()) - 1;
    return before_[place] + std::min(time, spans_[place].end) - spans_[place].begin;
  }
  [[nodiscard]] Ns in(Interval time) const { return until(time.end) - until(time.begin); }
  /// Appends the overlapped parts of an interval.
  void append_parts(Interval time, std::vector<Interval>& parts) const {
    auto at = std::ranges::upper_bound(spans_, time.begin, {}, &Interval::end);
    for (; at != spans_.end() && at->begin < time.end; ++at) {
      parts.push_back({std::max(at->begin, time.begin), std::min(at->end, time.end)});
    }
  }

 private:
  std::vector<Interval> spans_;
  std::vector<Ns> before_;
};

std::vector<Interval> united(std::vector<Interval> parts) {
  std::ranges::sort(parts, {}, &Interval::begin);
  std::vector<Interval> result;
  for (auto const& part : parts) {
    if (!result.empty() && part.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, part.end);
    } else if (part.length() > 0) {
      result.push_back(part);
    }
  }
  return result;
}

Ns length_of(std::vector<Interval> const& parts) {
  Ns sum = 0;
  for (auto const& part : parts) {
    sum += part.length();
  }
  return sum;
}

Key key_of(Program const& program, Index i) {
  auto const& activity = program.activity(i);
  LaunchShape const shape =
      activity.shape == kNone ? LaunchShape{} : program.recording().shapes[activity.shape];
  return {activity.kind, activity.name, shape.grid, shape.block, activity.bytes};
}

/// Returns an activity that runs in the middle of `time` beside `i`; kNone if there is none close.
Index beside(Program const& program, Index device, Index i, Interval time) {
  auto const activities = program.of_device(device);
  auto const middle = time.begin + time.length() / 2;
  auto at = std::ranges::upper_bound(
      activities, middle, {}, [&](Index a) { return program.activity(a).time.begin; });
  constexpr int kMostSteps = 256;
  for (int step = 0; step < kMostSteps && at != activities.begin(); ++step) {
    --at;
    if (*at != i && program.activity(*at).time.end > middle) {
      return *at;
    }
  }
  return kNone;
}

std::size_t most_at_once(Ledger const& ledger) {
  auto const& times = ledger.at_once();
  std::size_t most = times.size();
  while (most > 1 && times[most - 1] == 0) {
    --most;
  }
  return most > 0 ? most - 1 : 0;
}

/// Whether equal launches, alone, take so different times that their arguments must differ.
bool differ(std::vector<Ns>& lengths) {
  std::ranges::sort(lengths);
  auto const at = [&](std::size_t quarter) {
    return static_cast<double>(lengths[(lengths.size() - 1) * quarter / 4]);
  };
  return at(3) > kSlower * at(1);
}

}  // namespace

CauseSum find_shared_bandwidth(Program const& program,
                               Collectives const& collectives,
                               Ledger const& ledger,
                               Index device,
                               Interval window) {
  CauseSum sum;
  OverlappedTime const overlapped(ledger.spans());
  if (overlapped.is_empty()) {
    return sum;
  }
  std::map<Key, std::vector<Ns>> alone;
  std::vector<Index> slow;
  for (auto const i : program.of_device(device)) {
    auto const& time = program.activity(i).time;
    if (time.begin < window.begin || time.end > window.end || time.length() <= 0 ||
        collectives.waited(i) > 0) {
      continue;
    }
    auto const share =
        static_cast<double>(overlapped.in(time)) / static_cast<double>(time.length());
    if (share <= kAloneShare) {
      alone[key_of(program, i)].push_back(time.length());
    } else if (share >= kBesideShare) {
      slow.push_back(i);
    }
  }
  for (auto& [kind, lengths] : alone) {
    if (differ(lengths)) {
      lengths.clear();
    }
  }
  std::vector<Interval> compared;
  std::vector<Interval> lost;
  Ns excess_sum = 0;
  for (auto const i : slow) {
    auto const found = alone.find(key_of(program, i));
    if (found == alone.end() || found->second.size() < kFewestAlone) {
      continue;
    }
    auto& lengths = found->second;
    auto const middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::ranges::nth_element(lengths, middle);
    auto const& time = program.activity(i).time;
    overlapped.append_parts(time, compared);
    auto const excess = time.length() - *middle;
    auto const ratio = static_cast<double>(time.length()) / static_cast<double>(*middle);
    if (ratio < kSlower || ratio > kMostSlower * static_cast<double>(most_at_once(ledger))) {
      continue;
    }
    excess_sum += excess;
    Interval const part{time.end - excess, time.end};
    overlapped.append_parts(part, lost);
    Charge const charge{.time = part,
                        .kind = TimeClass::overlapped,
                        .cause = Cause::bandwidth_shared,
                        .held = i,
                        .holder = beside(program, device, i, part)};
    sum.held.push_back(i);
    sum.largest.push_back(charge);
    ++sum.occurrences;
  }
  auto const gained = static_cast<double>(length_of(united(compared)));
  if (static_cast<double>(excess_sum) < kNoGain * gained || sum.occurrences == 0) {
    return {};
  }
  std::ranges::stable_sort(sum.largest, std::ranges::greater(), [](Charge const& charge) {
    return charge.time.length();
  });
  sum.largest.resize(std::min(sum.largest.size(), kMostEvidence));
  sum.intervals = united(lost);
  sum.beside = length_of(sum.intervals);
  return sum;
}

}  // namespace msstream::overlap
