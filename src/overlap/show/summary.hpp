// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/show/explained.hpp"
#include "overlap/show/terminal.hpp"
#include "overlap/show/work.hpp"

#include <cstdint>
#include <istream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap {

/// The sums of a report, which a comparison needs, without the recording.
struct Summary {
  struct Time {
    TimeClass kind = TimeClass::idle;
    std::optional<Cause> cause;
    Ns time = 0;
  };
  struct Device {
    int number = 0;
    std::string name;
    Ns busy = 0;
    std::vector<Time> times;
  };
  struct Finding {
    Cause cause = Cause::unknown;
    int device = 0;
    Ns lost = 0;
    std::uint64_t occurrences = 0;
    std::string summary;
  };

  std::string title;
  std::string verdict;
  int rank = kUnknown;
  Ns window = 0;
  std::vector<Device> devices;
  std::vector<Finding> findings;
  std::optional<WorkDone> work;  ///< empty if an older version wrote the report
};

[[nodiscard]] Summary summary_of(Explained const& explained);

/// Returns whether a stream is a report in JSON, whoever laid it out; of other files, reads no more
/// than their first member.
[[nodiscard]] bool is_report_json(std::istream& stream);
/// Reads the reports that json_text() wrote. Throws std::runtime_error that names `origin` and what
/// is wrong: broken JSON, another schema or version, a missing member.
[[nodiscard]] std::vector<Summary> read_summaries(std::string_view json, std::string const& origin);

/// A change of one class of time, or of one finding, between two reports of a device.
struct Change {
  std::optional<TimeClass> kind;  ///< empty for findings
  std::optional<Cause> cause;
  Ns before = 0;
  Ns after = 0;
};

/// A comparison of two reports of one rank.
struct Comparison {
  struct Device {
    int before = kUnknown;  ///< the numbers of the devices that are compared
    int after = kUnknown;
    std::vector<Change> times;     ///< classes and causes that either has, in the order of reports
    std::vector<Change> findings;  ///< the largest change first
    Ns busy_before = 0;
    Ns busy_after = 0;
  };
  Summary before;
  Summary after;
  WorkComparison work;
  std::vector<Device> devices;
  std::vector<int> only_before;  ///< numbers of devices that the other report does not have
  std::vector<int> only_after;
};

/// Compares reports: the first of `before` with the first of `after`, and so on; their devices by
/// number, unless both have one alone. Throws std::invalid_argument if there are not as many of
/// both.
[[nodiscard]] std::vector<Comparison> compare(std::span<Summary const> before,
                                              std::span<Summary const> after);

/// Returns comparisons for a terminal.
[[nodiscard]] std::string terminal_text(std::span<Comparison const> comparisons,
                                        TextStyle const& style);

inline constexpr char const* kComparisonSchema = "msstream-overlap-comparison";
inline constexpr int kComparisonVersion = 1;
/// Returns comparisons as JSON, indented, with a line end.
[[nodiscard]] std::string json_text(std::span<Comparison const> comparisons);

}  // namespace msstream::overlap
