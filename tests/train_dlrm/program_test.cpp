// SPDX-License-Identifier: Apache-2.0
#include "training/step_program.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

class TrainDlrm : public StepProgramTest {
 protected:
  TrainDlrm() : StepProgramTest(MSSTREAM_TRAIN_DLRM) {}

  /// Returns program options for 96 training rows, in six steps of 16 rows per epoch.
  [[nodiscard]] static Words small() {
    return {"--runtime",     runtime(), "--rows",   "120", "--max-rows", "50",
            "--max-hotness", "3",       "--batch",  "16",  "--epochs",   "2",
            "--dimension",   "4",       "--bottom", "8",   "--top",      "8,1",
            "--cross-rank",  "4",       "--steps",  "8",   "--quiet"};
  }
  void expect_refused(Words const& arguments, std::string const& message) const {
    auto const ended = run(arguments);
    EXPECT_EQ(ended.status, 2) << ::testing::PrintToString(arguments);
    EXPECT_THAT(ended.err, ::testing::HasSubstr(message));
  }
};

TEST_P(TrainDlrm, losses_of_each_precision_have_the_same_bits_however_a_step_is_issued) {
  for (char const* const precision : {"fp32", "bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    expect_same_bits_however_issued(small() + Words{"--precision", precision});
  }
}

TEST_P(TrainDlrm, losses_of_half_precision_are_near_those_of_float32) {
  for (char const* const interaction : {"cross", "dot"}) {
    auto const of = [&](Words const& more) {
      return report_of(small() + Words{"--interaction", interaction} + more)["losses"];
    };
    auto const exact = of({});
    for (Words const& more : {Words{"--precision", "bf16"},
                              Words{"--precision", "fp16"},
                              Words{"--precision", "bf16", "--half-tables"}}) {
      auto const losses = of(more);
      ASSERT_EQ(losses.size(), exact.size());
      EXPECT_NE(losses, exact) << "the steps were not computed in half precision";
      for (std::size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i].get<double>(), exact[i].get<double>(), 0.02) << interaction << i;
      }
    }
  }
}

TEST_P(TrainDlrm, report_says_how_the_run_was_and_went) {
  expect_complete_report(small(), 8);
  auto const report = report_of(small() + Words{"--precision", "bf16", "--interaction", "dot"});
  auto const& options = report["options"];
  EXPECT_EQ(options["precision"], "bf16");
  EXPECT_EQ(options["interaction"], "dot");
  EXPECT_EQ(options["max_rows"], 50);
  EXPECT_EQ(options["bottom"], nlohmann::json({8}));
  auto const& epochs = report["epochs"];
  ASSERT_EQ(epochs.size(), 2U);
  EXPECT_EQ(epochs[0]["complete"], true);
  EXPECT_EQ(epochs[1]["complete"], false);
  EXPECT_GT(epochs[0]["test_log_loss"], 0);
  auto const untested = report_of(small() + Words{"--holdout", "0"});
  EXPECT_TRUE(untested["epochs"][0]["test_auc"].is_null());
}

TEST_P(TrainDlrm, a_model_learns_the_relation_of_generated_data) {
  for (char const* const precision : {"fp32", "bf16", "fp16"}) {
    auto const report =
        report_of({"--runtime",     runtime(), "--rows",      "6000",    "--max-rows", "30",
                   "--max-hotness", "1",       "--batch",     "100",     "--epochs",   "2",
                   "--dimension",   "8",       "--bottom",    "16",      "--top",      "32,1",
                   "--cross-rank",  "8",       "--precision", precision, "--lr",       "0.03",
                   "--quiet"});
    EXPECT_GT(report["epochs"][1]["test_auc"], 0.72) << precision;
  }
}

TEST_P(TrainDlrm, goes_on_with_the_same_bits_in_the_middle_of_an_epoch) {
  auto const steps = [&](char const* count, Words const& more) {
    return small() + Words{"--steps", count} + more;
  };
  std::vector<Words> ways = {Words{"--precision", "fp32", "--interaction", "dot"},
                             Words{"--precision", "bf16"},
                             Words{"--precision", "bf16", "--half-tables"},
                             Words{"--precision", "fp16"}};
  if (has_devices_for(2)) {
    ways.push_back({"--precision", "bf16", "--ranks", "2"});
  }
  for (Words const& more : ways) {
    SCOPED_TRACE(::testing::PrintToString(more));
    auto const whole = report_of(steps("10", more + Words{"--save", path("whole")}));
    auto const first = report_of(steps("4", more + Words{"--save", path("half")}));
    auto const second = report_of(steps(
        "10",
        more + Words{"--resume", path("half"), "--save", path("second"), "--stream-groups", "7"} +
            Words{"--launch-threads", "per_group", "--capture"}));
    EXPECT_EQ(first["first_step"], 0);
    EXPECT_EQ(second["first_step"], 4);
    auto joined = first["losses"];
    joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
    EXPECT_EQ(joined, whole["losses"]);
    EXPECT_EQ(second["epochs"].back()["test_auc"], whole["epochs"].back()["test_auc"]);
    EXPECT_TRUE(read_all(path("second")) == read_all(path("whole"))) << "the saved models differ";
  }
}

TEST_P(TrainDlrm, goes_on_at_the_last_step_without_a_change) {
  auto const model = path("model");
  ASSERT_EQ(run(small() + Words{"--steps", "3", "--save", model}).status, 0);
  auto const saved = read_all(model);
  auto const report =
      report_of(small() + Words{"--steps", "3", "--resume", model, "--save", model});
  EXPECT_TRUE(report["losses"].empty());
  EXPECT_TRUE(report["epochs"].empty());
  EXPECT_TRUE(read_all(model) == saved);
}

TEST_P(TrainDlrm, a_model_of_another_run_is_refused_by_what_differs) {
  auto const model = path("model");
  ASSERT_EQ(run(small() + Words{"--steps", "3", "--save", model}).status, 0);
  std::vector<std::pair<Words, std::string>> const others = {
      {{"--batch", "8"}, "was trained with batch = 16, this run has 8"},
      {{"--precision", "bf16"}, "was trained with precision = fp32, this run has bf16"},
      {{"--interaction", "dot"}, "was trained with interaction = cross, this run has dot"},
      {{"--top", "4,1"}, "was trained with top = 8,1, this run has 4,1"},
      {{"--max-rows", "40"}, "was trained with max_rows = 50, this run has 40"},
      {{"--optimizer", "sgd"}, "was trained with optimizer = rowwise_adagrad, this run has sgd"},
      {{"--steps", "2"}, "is at step 3, beyond the 2 that this run is for"},
  };
  for (auto const& [other, message] : others) {
    auto const ended = run(small() + Words{"--resume", model} + other);
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.err, ::testing::HasSubstr(model + ": " + message));
  }
  EXPECT_EQ(run(small() + Words{"--save", path("both"), "--report", path("both")}).status, 2);
}

TEST_P(TrainDlrm, groups_can_be_chosen_kept_and_given) {
  expect_groups_can_be_chosen_kept_and_given(small());
}

TEST_P(TrainDlrm, a_step_can_be_looked_at) {
  expect_traces(small());
}

TEST_P(TrainDlrm, contradictory_options_are_refused) {
  expect_refused(small() + Words{"--half-tables"}, "--half-tables goes with --precision");
  expect_refused(small() + Words{"--top", "8,2"}, "--top ends with 2; expected 1");
  expect_refused(small() + Words{"--holdout", "1"}, "--holdout 1");
  expect_refused(small() + Words{"--batch", "1000"}, "fill no batch");
  expect_refused(small() + Words{"--precision", "fp8"}, "one of fp32, bf16, fp16");
  for (Words const& parts : {Words{"--ranks", "2"}, Words{"--parallel", "half_batches"}}) {
    expect_refused(small() + Words{"--precision", "fp16"} + parts, "in one part, found 2");
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainDlrm, kRuntimes, name_of_runtime);

}  // namespace
}  // namespace msstream::testing
