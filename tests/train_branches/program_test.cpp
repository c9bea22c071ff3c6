// SPDX-License-Identifier: Apache-2.0
#include "training/step_program.hpp"

namespace msstream::testing {
namespace {

class TrainBranches : public StepProgramTest {
 protected:
  TrainBranches() : StepProgramTest(MSSTREAM_TRAIN_BRANCHES) {}

  /// Returns options of a model that is small, but large enough for its loss to change in a few
  /// steps.
  [[nodiscard]] static Words small() {
    return {"--runtime",
            runtime(),
            "--width",
            "12",
            "--layers",
            "3",
            "--target",
            "5",
            "--steps",
            "6",
            "--quiet"};
  }
};

TEST_P(TrainBranches, losses_have_the_same_bits_however_a_step_is_issued) {
  expect_same_bits_however_issued(small() + Words{"--lr", "0.01"});
}

TEST_P(TrainBranches, report_says_how_the_run_was_and_went) {
  expect_complete_report(small(), 6);
  auto const options = report_of(small())["options"];
  EXPECT_EQ(options["width"], 12);
  EXPECT_EQ(options["layers"], 3);
  EXPECT_EQ(options["target"], 5);
}

TEST_P(TrainBranches, groups_can_be_chosen_kept_and_given) {
  expect_groups_can_be_chosen_kept_and_given(small());
}

TEST_P(TrainBranches, groups_take_no_more_memory_than_one) {
  expect_groups_take_no_more_memory(small() + Words{"--width", "256"});
}

TEST_P(TrainBranches, groups_can_propagate) {
  expect_groups_can_propagate(small());
}

TEST_P(TrainBranches, says_why_its_streams_did_not_overlap) {
  expect_overlap_reports(small());
}

TEST_P(TrainBranches, a_step_can_be_looked_at) {
  expect_traces(small());
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainBranches, kRuntimes, name_of_runtime);

class TrainBranchesProgram : public TrainBranches {};

TEST_F(TrainBranchesProgram, mistakes_are_named) {
  expect_mistakes_are_named();
  expect_usage_error({"--steps", "0"}, "--steps 0: generated data has no end");
  expect_usage_error({"--width", "8", "--target", "8"}, "--target 8: expected a class from 0 to 7");
}

TEST_F(TrainBranchesProgram, help_tells_of_every_option) {
  expect_help({"width", "layers", "target"});
}

TEST_F(TrainBranchesProgram, quiet_is_quiet_and_else_the_result_is_on_stdout) {
  auto const quiet = run(small());
  EXPECT_EQ(quiet.out + quiet.err, "");
  auto const talking = run(small() + Words{"--quiet=false", "--capture"});
  EXPECT_THAT(talking.out, ::testing::StartsWith("6 steps, captured: median "));
  EXPECT_THAT(talking.err,
              ::testing::HasSubstr("four branches of 3 layers on 12 x 12 matrices; 4 stream "
                                   "groups; host runtime (no GPU is used)"));
}

}  // namespace
}  // namespace msstream::testing
