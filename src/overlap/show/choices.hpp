// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/show/explained.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The choices that users make by text: windows, causes, and the conditions of a check.
namespace msstream::overlap {

/// Returns the window that a text names: `BEGIN:END`, where each is a number with a unit (`ns`,
/// `us`, `ms` or `s`; ms without one) or empty for the begin or end of all activities; or the name
/// of ranges, in which `*` stands for any characters and `?` for one: from the first one's begin to
/// the last one's end. Of ranges recorded on the device and on the host, those on the device count.
/// Throws std::invalid_argument that says what is wrong and, for an unknown name, which ranges
/// there are.
[[nodiscard]] Interval window_of(Recording const& recording, std::string_view text);

/// Returns the cause of an id. Throws std::invalid_argument that lists all causes if there is none.
[[nodiscard]] Cause require_cause(std::string_view id);
/// Returns the list of all causes: a line each, with id and title.
[[nodiscard]] std::string list_of_causes();
/// Returns a cause's explanation, in a few lines: how it looks, why it happens, what helps. `page`
/// is where docs/overlap.md is, which says more.
[[nodiscard]] std::string explanation_of(Cause cause, std::size_t width, std::string_view page);

/// A condition under which a check fails: a finding of one cause, or of any, that loses at least a
/// share of the window.
struct FailOn {
  std::optional<Cause> cause;  ///< any cause if empty
  double share = 0;
};

/// Reads conditions: `CAUSE` or `CAUSE:SHARE`, apart by commas; CAUSE may be `any`; SHARE is a
/// number such as `0.05` or `5%`. Throws std::invalid_argument; for an unknown cause it lists all.
[[nodiscard]] std::vector<FailOn> parse_fail_on(std::string_view text);
/// Returns a sentence for each finding that meets a condition.
[[nodiscard]] std::vector<std::string> failures_of(Explained const& explained,
                                                   std::span<FailOn const> conditions);

}  // namespace msstream::overlap
