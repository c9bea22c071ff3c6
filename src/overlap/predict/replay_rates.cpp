// SPDX-License-Identifier: Apache-2.0
// Takes rates and engines of copies, and overheads, from a recording.
#include "overlap/predict/replay.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace msstream::overlap {
namespace {

/// Returns what copies between host and device reach on a PCI Express bus of 16 lanes: the third
/// generation up to compute capability 7, the fourth with 8, the fifth from 9 on.
double bus_bytes_per_ns(Device const& device) {
  return device.major == kUnknown || device.major == 8 ? 25 : device.major < 8 ? 12 : 50;
}

}  // namespace

/// Finds how many copies of one direction each device runs at once. There is one engine for uploads
/// and one for downloads, whose recorded times may contain the time in the queue. Copies to several
/// other devices, and those inside a device, have several engines: as many as were seen at work.
/// Copies that share half of the shorter one's time ran at once; a smaller part may be due to the
/// clock.
void Replay::find_engines() {
  std::array<int, kDirections> one{};
  one.fill(1);
  engines_.assign(program_.recording().devices.size(), one);
  std::map<std::pair<Index, CopyDirection>, std::vector<Interval>> running;
  for (auto const i : activities_) {
    auto const& copy = program_.activity(i);
    if (copy.kind != ActivityKind::copy || copy.direction == CopyDirection::h2d ||
        copy.direction == CopyDirection::d2h) {
      continue;
    }
    auto const device = program_.device_of(i);
    auto& open = running[{device, copy.direction}];
    std::erase_if(open, [&](Interval const& other) { return other.end <= copy.time.begin; });
    auto const at_once = std::ranges::count_if(open, [&](Interval const& other) {
      auto const shared = std::min(other.end, copy.time.end) - copy.time.begin;
      return 2 * shared >= std::min(other.length(), copy.time.length());
    });
    auto& engines = engines_[device][static_cast<std::size_t>(copy.direction)];
    engines = std::max(engines, static_cast<int>(at_once) + 1);
    open.push_back(copy.time);
  }
}

/// Finds how fast a device copies from and to pinned memory: the median of the large copies that
/// were recorded; otherwise what the bus of its generation carries.
void Replay::find_pinned_rates() {
  constexpr std::int64_t kLargeBytes = 1 << 20;
  auto const& recording = program_.recording();
  std::vector<std::vector<double>> rates(recording.devices.size());
  for (Index i = 0; i < recording.activities.size(); ++i) {
    auto const& copy = recording.activities[i];
    bool const is_pinned =
        copy.kind == ActivityKind::copy &&
        ((copy.direction == CopyDirection::h2d && copy.source == MemoryKind::pinned) ||
         (copy.direction == CopyDirection::d2h && copy.target == MemoryKind::pinned));
    if (is_pinned && copy.bytes >= kLargeBytes && copy.time.length() > 0) {
      rates[program_.device_of(i)].push_back(static_cast<double>(copy.bytes) /
                                             static_cast<double>(copy.time.length()));
    }
  }
  for (std::size_t d = 0; d < rates.size(); ++d) {
    auto& own = rates[d];
    assumes_bus_.push_back(own.empty());
    if (own.empty()) {
      pinned_rates_.push_back(bus_bytes_per_ns(recording.devices[d]));
      continue;
    }
    auto const middle = own.begin() + static_cast<std::ptrdiff_t>(own.size() / 2);
    std::ranges::nth_element(own, middle);
    pinned_rates_.push_back(*middle);
  }
}

bool Replay::assumes_bus(std::unordered_set<Index> const& copies) const {
  return std::ranges::any_of(copies, [&](Index i) { return assumes_bus_[program_.device_of(i)]; });
}

/// Finds the times of recorded overheads.
void Replay::find_overheads() {
  for (auto const& overhead : program_.recording().overheads) {
    auto const kind = overhead.kind;
    bool const loads = kind == OverheadKind::module_load || kind == OverheadKind::compile;
    if (kind != OverheadKind::recording && !loads) {
      continue;
    }
    auto& times = (loads ? loading_ : recorder_)[overhead.thread];
    if (!times.empty() && overhead.time.begin <= times.back().end) {
      times.back().end = std::max(times.back().end, overhead.time.end);
    } else {
      times.push_back(overhead.time);
    }
  }
}

/// Returns the part of the gap before a step of a thread that overheads take.
Ns Replay::time_in(Overheads const& overheads, Index thread, Interval gap) {
  Ns sum = 0;
  auto const add = [&](Index of) {
    auto const found = overheads.find(of);
    if (found == overheads.end()) {
      return;
    }
    auto const& times = found->second;
    auto at = std::ranges::upper_bound(times, gap.begin, {}, &Interval::end);
    for (; at != times.end() && at->begin < gap.end; ++at) {
      sum += std::min(at->end, gap.end) - std::max(at->begin, gap.begin);
    }
  };
  add(kNone);
  if (thread != kNone) {
    add(thread);
  }
  return sum;
}

}  // namespace msstream::overlap
