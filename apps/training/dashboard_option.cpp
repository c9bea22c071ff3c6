// SPDX-License-Identifier: Apache-2.0
#include "training/dashboard_option.hpp"

#include "cli/at_end.hpp"
#include "cli/failure_text.hpp"
#include "dashboard/dashboard.hpp"
#include "training/diverged.hpp"

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

dashboard::End end_of(std::exception_ptr const& failure) {
  if (failure == nullptr) {
    return {dashboard::EndStatus::finished, "finished"};
  }
  try {
    std::rethrow_exception(failure);
  } catch (Diverged const& error) {
    return {dashboard::EndStatus::diverged, fmt::format("diverged at step {}", error.step())};
  } catch (...) {
    return {dashboard::EndStatus::failed, fmt::format("failed: {}", cli::failure_text(failure))};
  }
}

void open_dashboard(DashboardOption& chosen, dashboard::Description description, int rank) {
  if (!chosen.dashboard_port || rank != 0) {
    return;
  }
  auto const program = description.program;
  try {
    chosen.dashboard =
        std::make_shared<dashboard::Dashboard>(std::move(description), *chosen.dashboard_port);
  } catch (std::runtime_error const& error) {
    throw cli::UsageError(fmt::format(
        "--dashboard: {}{}",
        error.what(),
        dashboard::Server::is_available() ? "" : "; " + dashboard::commands_for_servers(program)));
  }
  std::cerr << fmt::format("dashboard: {}\n", chosen.dashboard->url());
  cli::call_at_end([shown = chosen.dashboard](std::exception_ptr const& failure) {
    shown->end(end_of(failure));
  });
}

}  // namespace msstream::training
