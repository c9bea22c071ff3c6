// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "issued_work.hpp"

#include <msstream/order/position.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <utility>

namespace msstream::detail {

/// Maps positions of dependency trackers to places in the checker's order, and to the vector clocks
/// of the work there by the issue order. Not synchronised.
class TrackedLines {
 public:
  /// Adds a position of a stream. It must be newer than all earlier positions of the stream.
  void note(void const* tracker,
            order::Position position,
            Place place,
            std::shared_ptr<CheckClock const> clock) {
    auto& line = lines_[{tracker, position.stream}];
    auto& runs = line.runs;
    if (!runs.empty() && runs.back().end > position.number) {
      line = {};  // drops entries of a destroyed tracker that had the same address
    }
    if (!runs.empty() && runs.back().clock == clock && runs.back().end == position.number &&
        runs.back().place_of(position.number).number == place.number) {
      ++runs.back().end;
      return;
    }
    runs.push_back({position.number, position.number + 1, place, std::move(clock)});
  }
  /// Removes the runs of positions that are complete according to `over(place)`. If too many runs
  /// are left, removes the oldest ones.
  template <class Over>
  void trim(void const* tracker, order::StreamIndex stream, Over&& over) {
    auto& line = lines_[{tracker, stream}];
    if (line.runs.size() < line.trim_at) {
      return;
    }
    while (line.runs.size() > 1 && over(line.runs[1].begin_place)) {
      line.runs.pop_front();
      line.lost = false;
    }
    while (line.runs.size() > kMostRuns) {
      line.runs.pop_front();
      line.lost = true;
    }
    line.trim_at = std::max(kFewRuns, std::min(2 * line.runs.size(), kMostRuns + kFewRuns));
  }
  /// Calls `visit(Place, CheckClock)` with the place and the vector clock of a tracker's position.
  /// Does not call it if the position was removed because the host had waited for it.
  template <class Visit>
  void look_up(void const* tracker, order::Position position, Visit&& visit) const {
    auto const found = lines_.find({tracker, position.stream});
    if (found == lines_.end() || found->second.runs.empty()) {
      return;
    }
    auto const& runs = found->second.runs;
    auto const after = std::upper_bound(
        runs.begin(), runs.end(), position.number, [](std::uint64_t number, Run const& run) {
          return number < run.begin;
        });
    if (after != runs.begin()) {
      auto const& run = *std::prev(after);
      visit(run.place_of(std::min(position.number, run.end - 1)), *run.clock);
    } else if (found->second.lost) {
      visit(runs.front().begin_place, *runs.front().clock);
    }
  }

  void launching(void const* tracker, order::Position position, std::shared_ptr<IssuedWork> work) {
    lines_[{tracker, position.stream}].queued.emplace_back(position.number, std::move(work));
  }
  /// Removes and returns the issued work at the tracker's position, once it is launched or given
  /// up. Returns null if there is none.
  [[nodiscard]] std::shared_ptr<IssuedWork> launched(void const* tracker,
                                                     order::Position position) {
    auto const found = lines_.find({tracker, position.stream});
    if (found == lines_.end()) {
      return nullptr;
    }
    auto& queued = found->second.queued;
    while (!queued.empty() && queued.front().first < position.number) {
      queued.pop_front();
    }
    if (queued.empty() || queued.front().first != position.number) {
      return nullptr;
    }
    auto work = std::move(queued.front().second);
    queued.pop_front();
    return work;
  }

 private:
  static constexpr std::size_t kFewRuns = 64;
  static constexpr std::size_t kMostRuns = 4096;

  /// A run of a tracker's consecutive positions that are at consecutive places in the checker's
  /// order and have the same vector clock.
  struct Run {
    std::uint64_t begin;
    std::uint64_t end;
    Place begin_place;
    std::shared_ptr<CheckClock const> clock;

    [[nodiscard]] Place place_of(std::uint64_t number) const noexcept {
      return {begin_place.index, begin_place.number + (number - begin)};
    }
  };
  struct Line {
    std::deque<Run> runs;
    std::size_t trim_at = kFewRuns;
    bool lost = false;  ///< whether incomplete runs were removed, too
    std::deque<std::pair<std::uint64_t, std::shared_ptr<IssuedWork>>> queued;
  };

  std::map<std::pair<void const*, order::StreamIndex>, Line> lines_;
};

}  // namespace msstream::detail
