// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/outputs.hpp"
#include "cli/report.hpp"
#include "training/diverged.hpp"

#include <nlohmann/json.hpp>

#include <string>

namespace msstream::training {

/// Calls `train()`. If it throws Diverged, writes report(), with the message as `diverged`, to the
/// file `path`, unless that is empty, and throws the error again. `report()` must not wait for
/// other ranks, which may have gone on.
template <class Train, class Report>
void train_or_report(std::string const& path, Train&& train, Report&& report) {
  try {
    train();
  } catch (Diverged const& error) {
    if (!path.empty()) {
      cli::attempt_output("--report", [&] {
        nlohmann::ordered_json ended = report();
        ended["diverged"] = error.what();
        cli::write_report(path, ended);
      });
    }
    throw;
  }
}

}  // namespace msstream::training
