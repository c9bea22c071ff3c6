// SPDX-License-Identifier: Apache-2.0
#include "training/dashboard_option.hpp"

#include "dashboard/dashboard.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <utility>

namespace msstream::training {

std::shared_ptr<dashboard::Board> DashboardOption::board() const {
  return dashboard == nullptr ? nullptr : dashboard->board();
}

void add_options(cli::Options& options, DashboardOption& chosen) {
  options.add_optional<int>("--dashboard",
                            chosen.dashboard_port,
                            0,
                            "show the training to a browser on this machine, at this port; 0: a "
                            "free one, which is printed",
                            {0, 65535});
}

std::string data_text(std::string const& path) {
  return path.empty() ? "; generated data"
                      : fmt::format("; {}", std::filesystem::path(path).filename().string());
}

void open_dashboard(DashboardOption& chosen, dashboard::Description description, int rank) {
  if (!chosen.dashboard_port || rank != 0) {
    return;
  }
  try {
    chosen.dashboard =
        std::make_shared<dashboard::Dashboard>(std::move(description), *chosen.dashboard_port);
  } catch (std::runtime_error const& error) {
    throw cli::UsageError(fmt::format("--dashboard: {}", error.what()));
  }
  std::cerr << fmt::format("dashboard: {}\n", chosen.dashboard->url());
}

}  // namespace msstream::training
