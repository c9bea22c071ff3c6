// SPDX-License-Identifier: Apache-2.0
#include "datasets/data_files.hpp"
#include "training/step_program.hpp"

#include <msstream/base/detail/env.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

/// Trains PLE in each precision.
class TrainPlePrecision : public StepProgramTest {
 protected:
  TrainPlePrecision() : StepProgramTest(MSSTREAM_TRAIN_PLE) {}

  /// Returns options of a small model whose loss moves by far more than roundings. Its experts have
  /// widths that are no multiples of 8.
  [[nodiscard]] static Words small() {
    return Words{"--runtime", runtime(), "--rows", "1000", "--batch", "120", "--steps", "6"} +
           Words{"--tasks", "2", "--hotness", "2", "--buckets", "64", "--embedding-dim", "4"} +
           Words{"--expert-outputs", "6", "--optimizer", "sgd", "--lr", "0.5", "--quiet"};
  }
  /// Returns the largest difference of the losses of two runs.
  [[nodiscard]] static double difference(nlohmann::json const& left, nlohmann::json const& right) {
    EXPECT_EQ(left.size(), right.size());
    double most = 0;
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      most = std::max(most, std::abs(left[i].get<double>() - right[i].get<double>()));
    }
    return most;
  }
  /// Roundings move the losses by a fifth of it at most, and learning by a hundred times as much.
  static constexpr double kNear = 5e-4;
};

TEST_P(TrainPlePrecision, losses_of_each_have_the_same_bits_however_a_step_is_issued) {
  for (std::string const form : {"branches", "grouped"}) {
    for (std::string const precision : {"bf16", "fp16"}) {
      auto const arguments = small() + Words{"--form", form, "--precision", precision};
      auto const expected = results_of(arguments + Words{"--stream-groups", "1"});
      for (auto const& way : {Words{"--stream-groups", "4", "--launch-threads", "per_group"},
                              Words{"--stream-groups", "7"},
                              Words{"--stream-groups", "7", "--capture"}}) {
        EXPECT_EQ(results_of(arguments + way), expected)
            << form << " in " << precision << ' ' << ::testing::PrintToString(way);
      }
    }
  }
}

TEST_P(TrainPlePrecision, losses_of_half_precision_are_near_those_of_float32_and_differ) {
  for (std::string const form : {"branches", "grouped"}) {
    auto const exact = report_of(small() + Words{"--form", form})["losses"];
    auto const untrained = report_of(small() + Words{"--form", form, "--lr", "0"})["losses"];
    EXPECT_GT(difference(untrained, exact), 50 * kNear) << "too little is learnt to compare";
    for (std::string const precision : {"bf16", "fp16"}) {
      auto const report = report_of(small() + Words{"--form", form, "--precision", precision});
      EXPECT_EQ(report["options"]["precision"], precision);
      EXPECT_NE(report["losses"], exact) << "the layers were not computed in half precision";
      EXPECT_LT(difference(report["losses"], exact), kNear) << form << " in " << precision;
      EXPECT_EQ(report.contains("loss_scale"), precision == "fp16");
      EXPECT_EQ(report.value("skipped_steps", 0), 0);
    }
  }
}

TEST_P(TrainPlePrecision, ranks_and_tables_in_parts_take_half_precision) {
  if (!has_devices_for(2)) {
    GTEST_SKIP() << "two ranks need two GPUs";
  }
  for (std::string const precision : {"bf16", "fp16"}) {
    auto const half = small() + Words{"--form", "grouped", "--precision", precision};
    auto const alone = report_of(half)["losses"];
    for (auto const& ways :
         {Words{"--ranks", "2"},
          Words{"--parallel", "half_batches"},
          Words{"--ranks", "2", "--parallel", "sharded"},
          Words{"--ranks", "2", "--parallel", "sharded", "--lookahead", "rows"}}) {
      EXPECT_LT(difference(report_of(half + ways)["losses"], alone), kNear)
          << precision << ' ' << ::testing::PrintToString(ways);
    }
  }
}

TEST_P(TrainPlePrecision, learn_the_census_as_well_as_in_float32) {
  if (env::integer("MSSTREAM_TEST_ALL", 0, 0, 1) != 1) {
    GTEST_SKIP() << "half a minute long: MSSTREAM_TEST_ALL=1 asks for it";
  }
  auto const file = test_data("census_income_kdd.csv.gz");
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << "no " << file.string();
  }
  auto const auc_of = [&](std::string const& precision) {
    auto const report = report_of({"--runtime",
                                   runtime(),
                                   "--quiet",
                                   "--data",
                                   file.string(),
                                   "--form",
                                   "grouped",
                                   "--batch",
                                   "1024",
                                   "--precision",
                                   precision});
    std::vector<double> areas;
    for (auto const& task : report["epochs"].back()["tasks"]) {
      areas.push_back(task["test_auc"].get<double>());
    }
    return areas;
  };
  auto const exact = auc_of("fp32");
  ASSERT_EQ(exact.size(), 2U);
  for (std::string const precision : {"bf16", "fp16"}) {
    auto const areas = auc_of(precision);
    ASSERT_EQ(areas.size(), 2U);
    EXPECT_NEAR(areas[0], exact[0], 0.001) << precision;
    EXPECT_NEAR(areas[1], exact[1], 0.001) << precision;
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainPlePrecision, kRuntimes, name_of_runtime);

}  // namespace
}  // namespace msstream::testing
