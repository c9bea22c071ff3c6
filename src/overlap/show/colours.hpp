// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/report.hpp"

#include <cstdint>
#include <string>
#include <string_view>

/// The colours of the page and of pictures, as `#rrggbb`.
namespace msstream::overlap {

/// The kinds of work that are told apart, as the page numbers them.
enum class RowKind : std::uint8_t { kernel, h2d, d2h, other_copy, fill, graph, collective };
inline constexpr int kRowKinds = static_cast<int>(RowKind::collective) + 1;
[[nodiscard]] RowKind kind_of(Activity const& activity) noexcept;

inline constexpr std::string_view kOverlappedColour = "#3fae6c";
inline constexpr std::string_view kAloneColour = "#7f9cc4";

/// Returns the colour of the time that a cause took, and of what it held up.
[[nodiscard]] std::string_view colour_of(Cause cause) noexcept;
/// Returns the colour of time of one class.
[[nodiscard]] std::string_view colour_of(ClassSpan const& span) noexcept;
/// Returns the colour of a kind of work.
[[nodiscard]] std::string_view colour_of(RowKind kind) noexcept;
/// Returns the colour of a kind of call.
[[nodiscard]] std::string_view colour_of(CallKind kind) noexcept;

/// Returns all colours as JSON, for the page: `overlapped`, `alone`, and by number `causes`,
/// `kinds` and `calls`.
[[nodiscard]] std::string colours_json();

}  // namespace msstream::overlap
