// SPDX-License-Identifier: Apache-2.0
#include "cli/overlap_option.hpp"

#include <fmt/core.h>

#include <filesystem>

namespace msstream::cli {

void add_overlap_option(Options& options, std::string& path, std::string_view what) {
  options.add(kOverlap,
              path,
              fmt::format("why the streams did not overlap in {}, as a page for a browser, JSON or "
                          "text; docs/overlap.md explains it",
                          what),
              "a path that ends with .html, .json or .txt");
}

void check_overlap_option(std::string const& path) {
#if !MSSTREAM_PROGRAMS_WITH_OVERLAP
  if (!path.empty()) {
    throw UsageError(
        fmt::format("{}: this program was built without reports on overlap; configure "
                    "its build with -DMSSTREAM_PROGRAMS_WITH_OVERLAP=ON",
                    kOverlap));
  }
#endif
  auto const end = std::filesystem::path(path).extension();
  if (!path.empty() && end != ".html" && end != ".json" && end != ".txt") {
    throw UsageError(
        fmt::format("{} {}: expected a path that ends with .html, .json or .txt", kOverlap, path));
  }
}

}  // namespace msstream::cli
