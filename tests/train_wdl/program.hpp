// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/program.hpp"

namespace msstream::testing {

/// Runs the program train_wdl to its end and returns its exit status and output.
[[nodiscard]] inline Ended train_wdl(Words const& arguments, RunOptions const& options = {}) {
  return run_program(MSSTREAM_TRAIN_WDL, arguments, options);
}

/// A fixture for tests of train_wdl, with a model and data so small that a run takes a moment.
class TrainWdlTest : public ProgramTest {
 protected:
  TrainWdlTest() : ProgramTest(MSSTREAM_TRAIN_WDL) {}

  /// Returns program options with which an epoch has five steps.
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
