// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/find/report.hpp"
#include "overlap/recording/recording.hpp"
#include "overlap/show/choices.hpp"
#include "overlap/show/explained.hpp"
#include "overlap/show/summary.hpp"
#include "report_options.hpp"

#include <string>
#include <vector>

namespace msstream::overlap {

/// The recordings that were read, with the report that explains each.
struct Results {
  std::vector<Recording> recordings;
  std::vector<Report> reports;

  [[nodiscard]] std::vector<Explained> explained() const {
    std::vector<Explained> out;
    for (std::size_t i = 0; i < recordings.size(); ++i) {
      out.push_back({recordings[i], reports[i]});
    }
    return out;
  }
};

/// Reads and explains recordings, of the ranks of one program if there are several, as far as the
/// options choose them.
[[nodiscard]] Results results_of(std::vector<std::string> const& files,
                                 ReportOptions const& chosen,
                                 std::vector<FailOn> const& conditions);

/// Returns the sums of a file: of its report if it is one, else of what was found in its recording.
[[nodiscard]] std::vector<Summary> summaries_of(std::string const& file,
                                                ReportOptions const& chosen);

}  // namespace msstream::overlap
