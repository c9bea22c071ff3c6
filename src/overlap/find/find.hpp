// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/report.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace msstream::overlap {

struct FindOptions {
  /// The window; all of the recording's activities if empty.
  std::optional<Interval> window = {};
  /// Findings that lose less than this share of the window are left out.
  double least_share = 0.02;
  /// The windows of several ranks, one for each, in their order; if not empty, in place of
  /// `window`.
  std::vector<Interval> windows = {};
};

/// Explains a recording, which must be sorted. Equal recordings give equal reports.
///
/// Throws std::invalid_argument for a window that ends before it begins or has no activity in it.
[[nodiscard]] Report find(Recording const& recording, FindOptions const& options = {});

/// Explains the recordings of several ranks of one program, on aligned clocks, with what one rank
/// waited for another. Returns one report each, in their order.
[[nodiscard]] std::vector<Report> find(std::span<Recording const> ranks,
                                       FindOptions const& options = {});

}  // namespace msstream::overlap
