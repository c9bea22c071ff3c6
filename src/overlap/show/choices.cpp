// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/choices.hpp"

#include "base/name_pattern.hpp"
#include "overlap/recording/duration_text.hpp"
#include "overlap/show/text.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

namespace msstream::overlap {
namespace {

constexpr std::size_t kShownRanges = 12;

/// Returns the number that a whole text spells.
std::optional<double> number_in(std::string_view text) {
  double number = 0;
  auto const* end = text.data() + text.size();
  auto const result = std::from_chars(text.data(), end, number);
  return result.ec == std::errc() && result.ptr == end && std::isfinite(number)
             ? std::optional(number)
             : std::nullopt;
}

std::optional<Ns> time_in(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
      {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}};
  double scale = 1e6;
  for (auto const& [unit, ns] : kUnits) {
    if (text.ends_with(unit)) {
      scale = ns;
      text.remove_suffix(unit.size());
      break;
    }
  }
  while (text.ends_with(' ')) {
    text.remove_suffix(1);
  }
  auto const number = number_in(text);
  if (!number || std::abs(*number * scale) > 9e18) {
    return std::nullopt;
  }
  return static_cast<Ns>(std::llround(*number * scale));
}

std::optional<Interval> interval_in(std::string_view text, Interval const& whole) {
  auto const colon = text.find(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  auto const begin = text.substr(0, colon);
  auto const end = text.substr(colon + 1);
  auto const from = begin.empty() ? std::optional(whole.begin) : time_in(begin);
  auto const to = end.empty() ? std::optional(whole.end) : time_in(end);
  return from && to ? std::optional(Interval{*from, *to}) : std::nullopt;
}

/// Returns what a window may be.
std::string expected_window(Recording const& recording, Interval const& whole) {
  return fmt::format("expected BEGIN:END, such as 10ms:20ms, or a name; {} has work in {}",
                     recording.origin,
                     interval_text(whole));
}

std::string_view without_spaces(std::string_view text) {
  auto const first = std::min(text.find_first_not_of(' '), text.size());
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

std::string names_of_ranges(Recording const& recording) {
  std::set<std::string_view> names;
  for (auto const& range : recording.ranges) {
    if (range.kind != RangeKind::operation) {
      names.insert(recording.names[range.name]);
    }
  }
  if (names.empty()) {
    return "no ranges but those of operations";
  }
  std::string out = "ranges: ";
  std::size_t shown = 0;
  for (auto const name : names) {
    if (shown == kShownRanges) {
      return out + fmt::format(" and {} more", names.size() - shown);
    }
    out += fmt::format("{}{}", shown == 0 ? "" : ", ", fit_to(printable(name), 60));
    ++shown;
  }
  return out;
}

}  // namespace

Interval window_of(Recording const& recording, std::string_view text) {
  auto const whole = recording.extent().value_or(Interval{});
  if (auto const interval = interval_in(text, whole)) {
    require(interval->end > interval->begin,
            "'{}' {}; {}",
            text,
            interval->end == interval->begin ? "is empty" : "ends before it begins",
            expected_window(recording, whole));
    return *interval;
  }
  std::optional<Interval> on_device;
  std::optional<Interval> on_host;
  for (auto const& range : recording.ranges) {
    if (detail::matches_pattern(text, recording.names[range.name])) {
      auto& window = range.kind == RangeKind::on_device ? on_device : on_host;
      window = Interval{window ? std::min(window->begin, range.time.begin) : range.time.begin,
                        window ? std::max(window->end, range.time.end) : range.time.end};
    }
  }
  auto const window = on_device ? on_device : on_host;
  if (!window) {
    require(false,
            "'{}' is neither a window nor the name of a range; {}, and {}",
            text,
            expected_window(recording, whole),
            names_of_ranges(recording));
  }
  return *window;
}

Cause require_cause(std::string_view id) {
  auto const cause = cause_of(id);
  if (!cause) {
    require(false, "there is no cause '{}'; the causes are:\n{}", id, list_of_causes());
  }
  return *cause;
}

std::string list_of_causes() {
  std::size_t width = 0;
  for (auto const& text : cause_texts()) {
    width = std::max(width, text.id.size());
  }
  std::string out;
  for (auto const& text : cause_texts()) {
    out += fmt::format("  {:{}}  {}\n", text.id, width, text.title);
  }
  return out;
}

std::vector<FailOn> parse_fail_on(std::string_view text) {
  std::vector<FailOn> conditions;
  auto const whole = text;
  while (true) {
    auto const comma = text.find(',');
    auto const part = without_spaces(text.substr(0, comma));
    require(!part.empty(),
            "'{}': expected a cause or 'any'{}",
            whole,
            comma != std::string_view::npos ? " before each comma"
            : conditions.empty()            ? ""
                                            : " after the last comma");
    auto const colon = part.find(':');
    auto const id = part.substr(0, colon);
    FailOn condition;
    if (id != "any") {
      condition.cause = require_cause(id);
    }
    if (colon != std::string_view::npos) {
      auto number = part.substr(colon + 1);
      double scale = 1;
      if (number.ends_with('%')) {
        number.remove_suffix(1);
        scale = 0.01;
      }
      auto const share = number_in(number);
      require(
          share && *share * scale >= 0 && *share * scale <= 1,
          "'{}': expected a share of the window from 0 to 1 after the colon, such as 0.05 or 5%",
          part);
      condition.share = *share * scale;
    }
    conditions.push_back(condition);
    if (comma == std::string_view::npos) {
      return conditions;
    }
    text.remove_prefix(comma + 1);
  }
}

std::vector<std::string> failures_of(Explained const& explained,
                                     std::span<FailOn const> conditions) {
  auto const& [recording, report] = explained;
  std::vector<std::string> failures;
  auto const window = report.window.length();
  for (auto const& finding : report.findings) {
    auto lost = finding.lost;
    if (auto const& prediction = finding.prediction) {
      // The part that no fix gains is not lost: in the best case, and of a guess in the worst.
      auto const& range = prediction->range;
      auto const after = !range ? prediction->after : finding.is_guess ? range->most : range->least;
      lost = std::min(lost, std::max<std::int64_t>(prediction->before - after, 0));
    }
    double const share = window == 0 ? 0 : static_cast<double>(lost) / static_cast<double>(window);
    bool const fails = lost > 0 && std::ranges::any_of(conditions, [&](FailOn const& condition) {
                         // A chain of work is no fault, unless somebody says so.
                         bool const is_meant = condition.cause
                                                   ? *condition.cause == finding.cause
                                                   : finding.cause != Cause::true_dependency;
                         return is_meant && share >= condition.share;
                       });
    if (fails) {
      failures.push_back(fmt::format("{}: {} on GPU {} lost {} of the window{}",
                                     printable(recording.origin),
                                     text_of(finding.cause).id,
                                     recording.devices.at(finding.device).number,
                                     share_text(finding.lost, window),
                                     share_text(lost, window) == share_text(finding.lost, window)
                                         ? std::string()
                                         : fmt::format(", of which its fix gains at {} {}",
                                                       finding.is_guess ? "least" : "most",
                                                       share_text(lost, window))));
    }
  }
  return failures;
}

}  // namespace msstream::overlap
