// SPDX-License-Identifier: Apache-2.0
// Tests the form of the model in which an operation looks up the tables of all fields.
#include "train_wdl/program.hpp"

#include <cstddef>
#include <filesystem>
#include <string>

namespace msstream::testing {
namespace {

class TrainWdlFused : public TrainWdlTest {
 protected:
  /// Eleven steps, of which some are the smaller ones at the end of an epoch.
  [[nodiscard]] static Words uneven() {
    return small() + Words{"--rows", "2525", "--batch", "504", "--steps", "11"};
  }
  static void expect_like(nlohmann::json const& found, nlohmann::json const& expected) {
    ASSERT_EQ(found["losses"].size(), expected["losses"].size());
    for (std::size_t i = 0; i < expected["losses"].size(); ++i) {
      EXPECT_NEAR(found["losses"][i].get<double>(), expected["losses"][i].get<double>(), 1e-5)
          << "step " << i;
    }
    ASSERT_EQ(found["epochs"].size(), expected["epochs"].size());
    for (std::size_t i = 0; i < expected["epochs"].size(); ++i) {
      for (auto const* const metric : {"test_auc", "test_logloss"}) {
        EXPECT_NEAR(found["epochs"][i][metric].get<double>(),
                    expected["epochs"][i][metric].get<double>(),
                    1e-5)
            << metric;
      }
    }
  }
};

TEST_P(TrainWdlFused, learns_what_branches_learn_in_any_way_of_issuing) {
  auto const branches = report_of(uneven());
  auto const fused = report_of(uneven() + Words{"--tables", "fused"});
  EXPECT_EQ(branches["options"]["tables"], "branches");
  EXPECT_EQ(fused["options"]["tables"], "fused");
  expect_like(fused, branches);
  for (auto const& way : {Words{"--stream-groups", "1"},
                          Words{"--stream-groups", "4", "--launch-threads", "per_group"},
                          Words{"--capture"}}) {
    auto const found = report_of(uneven() + Words{"--tables", "fused"} + way);
    EXPECT_EQ(found["losses"], fused["losses"]) << ::testing::PrintToString(way);
  }
}

/// Fused tables are for hosts that launch the many small operations of branches too slowly.
TEST_P(TrainWdlFused, a_step_has_a_fifth_of_the_operations) {
  auto const operations = [&](std::string const& tables) {
    auto const arguments = small() + Words{"--steps", "13", "--tables", tables};
    EXPECT_EQ(train_wdl(arguments + Words{"--trace", path("trace.json")}).status, 0);
    auto const trace = nlohmann::json::parse(read_all(path("trace.json")));
    std::filesystem::remove(path("trace.json"));
    int count = 0;
    for (auto const& event : trace["traceEvents"]) {
      count += event.value("ph", "") == "X" ? 1 : 0;
    }
    return count;
  };
  auto const fused = operations("fused");
  EXPECT_GT(fused, 20);
  EXPECT_LT(5 * fused, operations("branches"));
}

/// A saved model does not depend on the form.
TEST_P(TrainWdlFused, goes_on_with_a_model_of_branches) {
  auto const whole = report_of(small() + Words{"--steps", "12"});
  ASSERT_EQ(train_wdl(small() + Words{"--steps", "6", "--save", path("half")}).status, 0);
  auto const second =
      report_of(small() + Words{"--steps", "12", "--resume", path("half"), "--tables", "fused"});
  ASSERT_EQ(second["losses"].size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(second["losses"][i].get<double>(), whole["losses"][i + 6].get<double>(), 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainWdlFused, kRuntimes, name_of_runtime);

class TrainWdlFusedRanks : public TrainWdlFused {};

/// On the host runtime, where any machine has as many ranks as it is asked for.
TEST_F(TrainWdlFusedRanks, learn_what_one_learns) {
  auto const fused = uneven() + Words{"--tables", "fused"};
  auto const expected = report_of(fused);
  expect_like(report_of(fused + Words{"--ranks", "3"}), expected);
}

TEST_F(TrainWdlFusedRanks, have_whole_tables) {
  auto const ended =
      train_wdl(small() + Words{"--ranks", "2", "--parallel", "sharded", "--tables", "fused"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err,
              ::testing::HasSubstr("--tables fused does not go with --parallel sharded"));
}

}  // namespace
}  // namespace msstream::testing
