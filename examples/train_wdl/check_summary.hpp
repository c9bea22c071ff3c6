// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/checker.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace train_wdl {

/// Returns the number of findings of a checked run by kind: `{"findings": 3, "kinds": {"race": 2,
/// "leak": 1}}`.
[[nodiscard]] inline nlohmann::ordered_json findings_of(msstream::Checker const& checker) {
  auto kinds = nlohmann::ordered_json::object();
  for (auto const kind : msstream::kCheckKinds) {
    if (auto const count = checker.count(kind); count != 0) {
      kinds[std::string(name_of(kind))] = count;
    }
  }
  return {{"findings", checker.count()}, {"kinds", kinds}};
}

/// Returns a line such as "check: 12345 operations, 3 findings: 2 race, 1 leak" from a checked
/// run's report.
[[nodiscard]] inline std::string summary_line(nlohmann::ordered_json const& report) {
  auto const& check = report.at("check");
  auto const findings = check.at("findings").get<std::uint64_t>();
  std::string line =
      fmt::format("check: {} operations, ", report.at("operations").get<std::uint64_t>());
  if (findings == 0) {
    return line + "no findings";
  }
  line += fmt::format("{}{}", findings, findings == 1 ? " finding" : " findings");
  char const* separator = ": ";
  for (auto const& [kind, count] : check.at("kinds").items()) {
    line += fmt::format("{}{} {}", separator, count.get<std::uint64_t>(), kind);
    separator = ", ";
  }
  return line;
}

/// Throws std::runtime_error with the summary if a checked run has findings.
inline void require_no_findings(nlohmann::ordered_json const& report) {
  if (report.at("check").at("findings") != 0) {
    throw std::runtime_error(summary_line(report));
  }
}

}  // namespace train_wdl
