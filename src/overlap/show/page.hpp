// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/show/explained.hpp"
#include "overlap/show/summary.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace msstream::overlap {

struct PageOptions {
  /// The most activities, and the most calls, that the page has of a report. Of more, the longest
  /// and those of evidence are kept, and the page says how many are left out.
  std::size_t most_rows = 2'000'000;
};

/// Returns reports as one HTML page that needs no other file and no network: a timeline, how the
/// time was spent, findings with their evidence. Names are untrusted: the page shows them as text.
/// Equal reports give equal bytes.
[[nodiscard]] std::string html_text(std::span<Explained const> reports,
                                    PageOptions const& options = {});
/// Returns comparisons as a page without a timeline.
[[nodiscard]] std::string html_text(std::span<Comparison const> comparisons);

}  // namespace msstream::overlap
