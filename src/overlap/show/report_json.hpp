// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/show/explained.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace msstream::overlap {

/// The value of "schema" in a report, and the version of its form. A new version may remove or
/// change members; members may be added without a new version.
inline constexpr char const* kReportSchema = "msstream-overlap-report";
inline constexpr int kReportVersion = 1;

/// The most intervals of a finding that a report lists: the longest ones.
inline constexpr std::size_t kMostIntervals = 256;

/// Returns reports as JSON, indented, with a line end: one for each recording. docs/overlap.md
/// describes the members. Equal reports give equal bytes.
[[nodiscard]] std::string json_text(std::span<Explained const> reports);

}  // namespace msstream::overlap
