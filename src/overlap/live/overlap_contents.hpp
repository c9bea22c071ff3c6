// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/report.hpp"
#include "overlap/recording/recording.hpp"
#include "overlap/show/explained.hpp"

#include <msstream/overlap/report.hpp>

#include <vector>

namespace msstream::detail {

/// The contents that the copies of an OverlapReport share.
struct OverlapContents {
  /// Explains a sorted recording of `steps` steps.
  OverlapContents(overlap::Recording of, int steps);

  [[nodiscard]] overlap::Explained explained() const { return {recording, report}; }

  overlap::Recording recording;
  overlap::Report report;
  std::vector<OverlapReport::Time> times;
  std::vector<OverlapReport::Finding> findings;
};

}  // namespace msstream::detail
