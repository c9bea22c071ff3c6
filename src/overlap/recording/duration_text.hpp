// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace msstream::overlap {

/// Formats a duration with three digits and a fitting unit, such as `812 ns`, `3.05 µs`, `41.2 ms`
/// or `1.70 s`.
[[nodiscard]] std::string duration_text(Ns duration);

/// Formats a time as exact ms, without a unit, such as `0.5` or `20`.
[[nodiscard]] std::string ms_text(Ns time);
/// Formats an interval exactly, as a window is written, such as `0.5ms:20ms`.
[[nodiscard]] std::string interval_text(Interval const& interval);

/// Formats a share of a whole in percent, such as `8%` or `0.9%`; `0.0%` of nothing.
[[nodiscard]] std::string share_text(Ns part, Ns whole);

/// Formats a count with its noun, such as `1 activity` or `1,234 activities`.
[[nodiscard]] std::string count_text(std::uint64_t count,
                                     std::string_view one,
                                     std::string_view several);

}  // namespace msstream::overlap
