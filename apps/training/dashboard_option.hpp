// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"
#include "dashboard/curves.hpp"

#include <exception>
#include <memory>
#include <optional>
#include <string>

namespace msstream::dashboard {

class Board;
class Dashboard;
struct End;

}  // namespace msstream::dashboard

namespace msstream::training {

/// The option --dashboard, by which a program shows its training to a browser.
struct DashboardOption {
  std::optional<int> dashboard_port;  ///< 0: a free one
  /// The dashboard, from open_dashboard() on. Null without the option, and on ranks but rank 0.
  std::shared_ptr<dashboard::Dashboard> dashboard;

  /// Returns what the training writes to; null if there is no dashboard.
  [[nodiscard]] std::shared_ptr<dashboard::Board> board() const;
};

void add_options(cli::Options& options, DashboardOption& chosen);
/// Returns text for Description::what, such as "; census.csv.gz", or "; generated data" for no
/// path.
[[nodiscard]] std::string data_text(std::string const& path);

/// Returns what the dashboard shows of a program that ends with this failure; null if it has none.
[[nodiscard]] dashboard::End end_of(std::exception_ptr const& failure);

/// Opens the dashboard if the option is chosen and `rank` is 0, and prints its address to the
/// standard error stream. Throws UsageError if it cannot, as when another program has the port. The
/// dashboard shows how the program ends; while a client watches, run_program() returns when it has
/// got that, at most three seconds later.
void open_dashboard(DashboardOption& chosen, dashboard::Description description, int rank = 0);

}  // namespace msstream::training
