// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/step_program.hpp"

#include <string>

namespace msstream::testing {

/// Returns options of train_ple for 800 training rows, in six steps of 120 rows per epoch, and a
/// small model. On the host runtime, where any machine has as many ranks as it is asked for.
[[nodiscard]] inline Words small_ple_on_ranks(std::string const& ranks) {
  return {"--runtime",
          "host",
          "--rows",
          "1000",
          "--batch",
          "120",
          "--epochs",
          "2",
          "--tasks",
          "2",
          "--hotness",
          "2",
          "--buckets",
          "64",
          "--steps",
          "8",
          "--embedding-dim",
          "4",
          "--expert-hidden",
          "8",
          "--tower-hidden",
          "4",
          "--expert-outputs",
          "6",
          "--quiet",
          "--ranks",
          ranks};
}

}  // namespace msstream::testing
