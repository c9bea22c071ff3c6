// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The program msstream-doctor: says what a computer can do for msstream, and what to change.
///
/// Each subject, such as the limits of the process, has facts, a function that reads them, and a
/// function that turns them into lines. The latter depends on nothing but the facts, so that tests
/// can pass facts of computers that they do not have.
namespace msstream::doctor {

/// How good a finding is, from the best to the worst.
enum class Level : std::uint8_t {
  ok,    ///< as it should be
  note,  ///< works; worth knowing
  slow,  ///< works, and costs time that a change could save
  bad,   ///< does not work
};
[[nodiscard]] std::string_view name_of(Level level) noexcept;

/// The headings of a report, in their order.
enum class Section : std::uint8_t {
  host,
  limits,
  environment,
  driver,
  toolkit,
  device,
  features,
  libraries,
  host_measured,
  device_measured,
  processes,
};
/// Returns the heading, such as `Measured on the host`.
[[nodiscard]] std::string_view heading_of(Section section) noexcept;
/// Returns the name of the section in JSON, such as `host_measured`.
[[nodiscard]] std::string_view name_of(Section section) noexcept;

/// A number with its unit, such as 54.1 GB/s. A unit of one character or more is written behind a
/// space.
struct Quantity {
  double number = 0;
  std::string unit = {};
};
/// Formats a quantity with three significant digits, and commas between thousands: `54.1 GB/s`,
/// `1,234 µs`.
[[nodiscard]] std::string text_of(Quantity const& quantity);
/// Formats bytes in the largest binary unit of which there is at least one, such as `64.0 MiB`.
[[nodiscard]] std::string bytes_text(double bytes);

/// One finding of a report.
struct Line {
  Section section;
  std::string id;     ///< names the check in JSON; does not change between versions
  std::string thing;  ///< what was looked at, in words
  Level level = Level::ok;
  std::string value = {};                 ///< what was found, in words
  std::string advice = {};                ///< what it costs and what to do; empty if nothing
  std::optional<Quantity> quantity = {};  ///< the number that was found, if it is one
  std::optional<int> device = {};         ///< the number of the GPU that the line is about
};
using Lines = std::vector<Line>;

/// Sets the number that was found, and its text as the value.
[[nodiscard]] Line with_quantity(Line line, Quantity quantity);
/// Sets the level, and the advice for it.
[[nodiscard]] Line judged(Line line, Level level, std::string advice);

/// Returns a bad line about a check that failed with `message`.
[[nodiscard]] Line failed_line(Section section,
                               std::string id,
                               std::string thing,
                               std::string_view message);

/// The number of lines of each level.
struct Tally {
  int ok = 0;
  int note = 0;
  int slow = 0;
  int bad = 0;
};
[[nodiscard]] Tally tally_of(Lines const& lines) noexcept;
/// Returns the worst level of the lines; `ok` if there are none.
[[nodiscard]] Level worst_of(Lines const& lines) noexcept;

}  // namespace msstream::doctor
