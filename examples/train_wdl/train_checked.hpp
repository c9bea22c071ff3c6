// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "check_summary.hpp"
#include "trainer.hpp"

#include <exception>
#include <memory>

namespace train_wdl {

/// Trains with the runtime checked, and writes what was found, however the training ends.
template <ms::Runtime R>
nlohmann::ordered_json train_checked(TrainOptions const& options, TrainingData const& data) {
  ms::CheckerOptions how;
  how.mode = options.check_mode;
  how.report_path.clear();  // written here, with an error if it cannot be
  auto const checker = std::make_shared<ms::Checker>(how);
  nlohmann::ordered_json report;
  std::exception_ptr failure;
  try {
    report = Trainer<ms::Checked<R>>(options, data, {.checker = checker}).run();
  } catch (...) {
    failure = std::current_exception();
  }
  checker->report_leaks();  // the trainer is gone, and all that it made should be
  ms::support::write_output("--check-report", options.check_report, checker->json());
  if (failure) {
    std::rethrow_exception(failure);
  }
  report["check"] = findings_of(*checker);
  return report;
}

}  // namespace train_wdl
