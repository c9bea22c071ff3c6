// SPDX-License-Identifier: Apache-2.0
#include "datasets/data_files.hpp"
#include "training/step_program.hpp"

#include <msstream/base/detail/env.hpp>

#include <gmock/gmock.h>

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

  /// Returns program options whose widths are odd in half precision: 21 inputs of the first level
  /// are padded to 24, experts have 6 outputs.
  [[nodiscard]] static Words small() {
    return {"--runtime", runtime(),
            "--rows",    "1000",
            "--batch",   "120",
            "--tasks",   "2",
            "--hotness", "2",
            "--buckets", "64",
            "--steps",   "5",
            "--quiet",   "--embedding-dim",
            "4",         "--expert-outputs",
            "6",         "--lr",
            "0.05"};
  }
};

TEST_P(TrainPlePrecision, losses_of_each_have_the_same_bits_however_a_step_is_issued) {
  for (std::string const form : {"branches", "grouped"}) {
    for (std::string const precision : {"bf16", "fp16"}) {
      auto const arguments = small() + Words{"--form", form, "--precision", precision};
      auto const expected = results_of(arguments + Words{"--stream-groups", "1"});
      ASSERT_NE(expected[0].front(), expected[0].back()) << "nothing moves";
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
    for (std::string const precision : {"bf16", "fp16"}) {
      auto const report = report_of(small() + Words{"--form", form, "--precision", precision});
      EXPECT_EQ(report["options"]["precision"], precision);
      auto const& losses = report["losses"];
      ASSERT_EQ(losses.size(), exact.size());
      EXPECT_NE(losses, exact) << "the layers were not computed in half precision";
      for (std::size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i].get<double>(), exact[i].get<double>(), 0.01) << precision << i;
      }
      EXPECT_EQ(report.contains("loss_scale"), precision == "fp16");
    }
  }
}

TEST_P(TrainPlePrecision, ranks_and_tables_in_parts_take_bfloat16) {
  auto const half = small() + Words{"--form", "grouped", "--precision", "bf16"};
  auto const alone = report_of(half)["losses"];
  for (auto const& ways : {Words{"--ranks", "2"},
                           Words{"--ranks", "2", "--parallel", "sharded"},
                           Words{"--ranks", "2", "--parallel", "sharded", "--lookahead", "rows"}}) {
    auto const losses = report_of(half + ways)["losses"];
    ASSERT_EQ(losses.size(), alone.size());
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i].get<double>(), alone[i].get<double>(), 0.01)
          << ::testing::PrintToString(ways) << i;
    }
  }
}

TEST_P(TrainPlePrecision, float16_is_refused_for_batches_in_parts) {
  auto const ended = run(small() + Words{"--precision", "fp16", "--ranks", "2"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, ::testing::HasSubstr("--precision fp16 is for batches in one part"));
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
