// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/step_program.hpp"

#include <cstddef>
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

/// Expects the results of small_ple_on_ranks() to be those of others up to rounding.
inline void expect_equal_learning(nlohmann::json const& found,
                                  nlohmann::json const& expected,
                                  std::string const& what) {
  ASSERT_EQ(found[0].size(), 8U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(found[0][i].get<double>(), expected[0][i].get<double>(), 1e-5)
        << what << ", step " << i;
  }
  ASSERT_EQ(found.size(), 3U);
  for (std::size_t epoch = 1; epoch < 3; ++epoch) {
    for (std::size_t task = 0; task < 2; ++task) {
      for (auto const* const metric : {"test_auc", "test_logloss"}) {
        EXPECT_NEAR(found[epoch]["tasks"][task][metric].get<double>(),
                    expected[epoch]["tasks"][task][metric].get<double>(),
                    2e-4)
            << what << ", epoch " << epoch;
      }
    }
  }
}

}  // namespace msstream::testing
