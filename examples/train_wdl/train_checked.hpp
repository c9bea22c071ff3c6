// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "check_summary.hpp"
#include "trainer.hpp"

#include <msstream/runtime/checked.hpp>

#include <exception>
#include <memory>
#include <optional>

namespace train_wdl {

/// Trains on a checking runtime, and writes the checker's findings even if the training fails.
template <ms::Runtime R>
nlohmann::ordered_json train_checked(TrainOptions const& options,
                                     TrainingData& data,
                                     ms::comm::World const& world,
                                     std::optional<ms::training::TableParts> const& parts) {
  ms::CheckerOptions how;
  how.mode = options.check_mode;
  how.report_path.clear();  // written below instead, so that a failure to write is noticed
  auto const checker = std::make_shared<ms::Checker>(how);
  nlohmann::ordered_json report;
  std::exception_ptr failure;
  try {
    report = Trainer<ms::Checked<R>>(options, data, world, parts, {.checker = checker}).run();
  } catch (...) {
    failure = std::current_exception();
  }
  checker->report_leaks();  // what still exists has leaked, since the trainer is destroyed
  ms::cli::write_output("--check-report", options.check_report, checker->json());
  if (failure) {
    std::rethrow_exception(failure);
  }
  report["check"] = findings_of(*checker);
  return report;
}

}  // namespace train_wdl
