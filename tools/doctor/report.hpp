// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"
#include "overlap/show/terminal.hpp"

#include <optional>
#include <string>

namespace msstream::doctor {

/// The findings of a run of the program, and how it was run.
struct Report {
  Lines lines = {};
  bool is_cuda_build = false;
  bool is_quick = false;
  std::optional<int> device = {};  ///< the GPU that was measured, if any
};

/// Returns the lines under headings, aligned, and a summary.
[[nodiscard]] std::string terminal_text(Report const& report, overlap::TextStyle const& style);
/// Returns the report as JSON, as docs/doctor.schema.json describes it.
[[nodiscard]] std::string json_text(Report const& report);
/// Returns the last line of a report, such as `20 ok, 3 notes, 1 slow, 0 bad`.
[[nodiscard]] std::string summary_text(Lines const& lines);

/// The version of the program.
[[nodiscard]] char const* version() noexcept;

}  // namespace msstream::doctor
