// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/duration_text.hpp"
#include "overlap/recording/recording.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap {

/// Formats an instant of a recording in ms with three decimals, such as `1,204.318 ms`.
[[nodiscard]] std::string instant_text(Ns instant);

/// Rounds parts to multiples of `unit` (in units) such that the rounded parts add up to the rounded
/// whole, as the parts do to the whole. The parts with the largest remainders are rounded up, the
/// first of equal ones.
[[nodiscard]] std::vector<std::int64_t> rounded_parts(std::vector<double> const& parts);

/// Returns a text that is safe to print: bytes that are not UTF-8 become U+FFFD; control characters
/// and those that change the direction of text become escapes such as `\x1b` and `\u202e`.
[[nodiscard]] std::string printable(std::string_view text);
/// Returns the number of characters of a text in UTF-8, which is about its width on a terminal.
[[nodiscard]] std::size_t width_of(std::string_view text);
/// Shortens a text to at most `width` characters, with an ellipsis in its middle.
[[nodiscard]] std::string fit_to(std::string_view text, std::size_t width);
/// Breaks a text into lines of at most `width` characters, at spaces; words that are longer are
/// broken where the line ends.
[[nodiscard]] std::vector<std::string> wrapped(std::string_view text, std::size_t width);
/// Replaces the characters that reports use beyond ASCII, such as `µ`, by ASCII.
[[nodiscard]] std::string in_ascii(std::string_view text);

}  // namespace msstream::overlap
