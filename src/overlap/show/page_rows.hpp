// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/show/explained.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace msstream::overlap {

/// The rows of a stream or of a host thread, ordered by their begin.
struct PageLane {
  Index of = kNone;         ///< the stream or the thread
  std::vector<Index> rows;  ///< activities, calls or ranges of the recording
};

/// The rows that the page shows of a recording, lane by lane: the activities of the report's
/// devices that are in its window at least in part, the calls that issued them or are in the
/// window, and the ranges of host threads there. Rows are numbered through all lanes.
class PageRows {
 public:
  PageRows(Explained const& explained, std::size_t most_rows);

  [[nodiscard]] std::vector<PageLane> const& lanes() const noexcept { return lanes_; }
  [[nodiscard]] std::vector<PageLane> const& call_lanes() const noexcept { return call_lanes_; }
  [[nodiscard]] std::vector<PageLane> const& range_lanes() const noexcept { return range_lanes_; }
  [[nodiscard]] std::size_t row_count() const noexcept { return row_count_; }
  [[nodiscard]] std::size_t call_count() const noexcept { return call_count_; }
  /// Returns how many activities and calls were left out, because there are too many.
  [[nodiscard]] std::size_t left_out() const noexcept { return left_out_; }

  /// Return the number of a row; kNone if the page does not have it.
  [[nodiscard]] Index place_of_activity(Index activity) const { return places_.at(activity); }
  [[nodiscard]] Index place_of_call(Index call) const { return call_places_.at(call); }
  /// Returns the place of a device in the report.
  [[nodiscard]] Index place_of_device(Index device) const { return device_places_.at(device); }
  [[nodiscard]] std::string title_of_thread(Index thread) const;

 private:
  Explained explained_;
  std::vector<PageLane> lanes_;
  std::vector<PageLane> call_lanes_;
  std::vector<PageLane> range_lanes_;
  std::vector<Index> places_;
  std::vector<Index> call_places_;
  std::vector<Index> device_places_;
  std::size_t row_count_ = 0;
  std::size_t call_count_ = 0;
  std::size_t left_out_ = 0;
};

/// Why an activity did not start earlier: the lost or idle time that its begin ended.
struct PageStart {
  std::optional<Cause> cause;
  Ns charged = 0;  ///< the length of that time
};

/// Returns the start of each activity of a recording.
[[nodiscard]] std::vector<PageStart> starts_of(Explained const& explained);

/// Returns, for each call, the innermost range of its thread in which it began; kNone if there is
/// none.
[[nodiscard]] std::vector<Index> operations_of(Recording const& recording);

/// Returns, for each call, the innermost range of NVTX or of the user of its thread in which it
/// began, and the innermost operation if there is none; kNone without either.
[[nodiscard]] std::vector<Index> named_ranges_of(Recording const& recording);

}  // namespace msstream::overlap
