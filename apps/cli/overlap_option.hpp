// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"

#include <string>

/// The option --overlap, by which a program reports why its streams did not overlap.
namespace msstream::cli {

inline constexpr char const* kOverlap = "--overlap";

/// Adds the option. `what` names what is reported on, such as "three steps".
void add_overlap_option(Options& options, std::string& path, std::string_view what);
/// Throws UsageError for a path whose end names no form of a report.
void check_overlap_option(std::string const& path);

}  // namespace msstream::cli
