// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace msstream::overlap {

/// Returns a decimal number of JSON, times 10 to the power of `digits`, rounded to a whole number,
/// a half away from zero: exact for times in µs with fractions, which a double would round to
/// 250 ns at today's Unix times. Empty if the text is no number or the result does not fit.
[[nodiscard]] std::optional<std::int64_t> scaled_decimal(std::string_view text, int digits);

/// Returns a time in µs as ns.
[[nodiscard]] inline std::optional<std::int64_t> ns_of_us(std::string_view text) {
  return scaled_decimal(text, 3);
}

/// Returns a whole number, written as a decimal number or, from AMD's tools, as "0x1f".
[[nodiscard]] std::optional<std::int64_t> whole_number(std::string_view text);

}  // namespace msstream::overlap
