// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/program.hpp"

namespace msstream::testing {

/// Runs the training program to its end.
[[nodiscard]] inline Ended train_wdl(Words const& arguments, RunOptions const& options = {}) {
  return run_program(MSSTREAM_TRAIN_WDL, arguments, options);
}

/// Tests with a model and data so small that a run takes a moment.
class TrainWdlTest : public ProgramTest {
 protected:
  TrainWdlTest() : ProgramTest(MSSTREAM_TRAIN_WDL) {}

  /// Options for five steps per epoch.
  [[nodiscard]] static Words small() {
    return {"--runtime",
            runtime(),
            "--rows",
            "3000",
            "--batch",
            "500",
            "--epochs",
            "3",
            "--buckets",
            "64",
            "--embedding-dim",
            "4",
            "--layers",
            "16,8",
            "--quiet"};
  }
};

}  // namespace msstream::testing
