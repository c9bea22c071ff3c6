// SPDX-License-Identifier: Apache-2.0
#include "datasets/data_files.hpp"
#include "training/step_program.hpp"

#include <filesystem>
#include <set>

namespace msstream::testing {
namespace {

class TrainPle : public StepProgramTest {
 protected:
  TrainPle() : StepProgramTest(MSSTREAM_TRAIN_PLE) {}

  /// Returns program options for 800 training rows, in six steps of 120 rows per epoch.
  [[nodiscard]] static Words small() {
    return {"--runtime",      runtime(), "--rows",          "1000", "--batch",          "120",
            "--epochs",       "2",       "--tasks",         "2",    "--hotness",        "2",
            "--buckets",      "64",      "--embedding-dim", "4",    "--expert-hidden",  "8",
            "--tower-hidden", "4",       "--steps",         "8",    "--expert-outputs", "6",
            "--quiet"};
  }
};

TEST_P(TrainPle, losses_have_the_same_bits_however_a_step_is_issued) {
  for (std::string const form : {"branches", "grouped"}) {
    SCOPED_TRACE(form);
    expect_same_bits_however_issued(small() + Words{"--form", form});
  }
}

TEST_P(TrainPle, report_says_how_the_run_was_and_went) {
  expect_complete_report(small(), 8);
  auto const report = report_of(small() + Words{"--form", "grouped"});
  EXPECT_EQ(report["options"]["form"], "grouped");
  EXPECT_EQ(report["options"]["batch"], 120);
  EXPECT_EQ(report["options"]["expert_outputs"], 6);
  auto const& epochs = report["epochs"];
  ASSERT_EQ(epochs.size(), 2U);
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    EXPECT_EQ(epochs[i]["epoch"], i + 1);
    EXPECT_EQ(epochs[i]["complete"], i == 0);
    EXPECT_GT(epochs[i]["loss"], 0);
    double const rows = i == 0 ? 720 : 240;  // 80 of the 800 rows fill no batch
    EXPECT_NEAR(
        epochs[i]["rows_per_s"].get<double>() * epochs[i]["seconds"].get<double>(), rows, 1e-3);
    ASSERT_EQ(epochs[i]["tasks"].size(), 2U);
    for (auto const& task : epochs[i]["tasks"]) {
      auto const auc = task["test_auc"].get<double>();
      EXPECT_TRUE(auc > 0.2 && auc < 1) << auc;
      EXPECT_GT(task["test_logloss"], 0);
    }
    EXPECT_NE(epochs[i]["tasks"][0]["test_auc"], epochs[i]["tasks"][1]["test_auc"]);
  }
  auto const untested = report_of(small() + Words{"--holdout", "0"});
  EXPECT_EQ(untested["epochs"][0]["tasks"].size(), 0U);
}

TEST_P(TrainPle, a_captured_step_has_two_copies_beside_its_graph) {
  auto const operations = [&](std::string const& steps) {
    auto const way = Words{"--capture", "--holdout", "0", "--stream-groups", "3", "--steps", steps};
    return report_of(small() + way)["operations"].get<std::int64_t>();
  };
  // Two uploads of the batch after it, two copies to what the graph reads, the graph, and its loss.
  EXPECT_EQ(operations("5") - operations("4"), 6);
}

TEST_P(TrainPle, each_step_trains_on_another_batch_in_another_order_each_epoch) {
  auto const still = small() + Words{"--lr", "0", "--steps", "12"};
  auto const losses = report_of(still)["losses"];
  EXPECT_EQ(std::set<float>(losses.begin(), losses.end()).size(), 12U) << losses;
  EXPECT_EQ(report_of(still + Words{"--capture"})["losses"], losses);
}

TEST_P(TrainPle, groups_can_be_chosen_kept_and_given) {
  expect_groups_can_be_chosen_kept_and_given(small());
}

TEST_P(TrainPle, groups_take_no_more_memory_than_one) {
  expect_groups_take_no_more_memory(small() + Words{"--batch", "128", "--buckets", "20000"});
}

TEST_P(TrainPle, groups_can_propagate) {
  expect_groups_can_propagate(small());
}

TEST_P(TrainPle, a_step_can_be_looked_at) {
  expect_traces(small());
}

TEST_P(TrainPle, both_tasks_of_the_census_are_learnt) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "minutes long under a sanitizer, and other tests reach the same code";
#endif
  auto const file = test_data("census_income_kdd.csv.gz");
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << "no " << file.string();
  }
  Words const census = {"--runtime", runtime(), "--quiet", "--data", file.string(), "--capture"};
  auto const report = report_of(census + Words{"--form", "grouped", "--steps", "90"});
  auto const& tasks = report["epochs"].back()["tasks"];
  ASSERT_EQ(tasks.size(), 2U);
  EXPECT_EQ(tasks[0]["task"], "income");
  EXPECT_GE(tasks[0]["test_auc"].get<double>(), 0.935);
  EXPECT_EQ(tasks[1]["task"], "never married");
  EXPECT_GE(tasks[1]["test_auc"].get<double>(), 0.99);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainPle, kRuntimes, name_of_runtime);

class TrainPleProgram : public TrainPle {};

TEST_F(TrainPleProgram, mistakes_are_named) {
  expect_mistakes_are_named();
  expect_usage_error({"--holdout", "1"}, "--holdout 1");
  expect_usage_error({"--data", path("missing"), "--tasks", "4"}, "--tasks is for generated data");
  expect_usage_error({"--data", path("missing"), "--hotness", "1"}, "--hotness is for generated");
  expect_usage_error({"--form", "tree"}, "expected one of branches, grouped, found 'tree'");
  auto const no_file = run({"--data", path("missing")});
  EXPECT_EQ(no_file.status, 1);
  EXPECT_THAT(no_file.err, ::testing::HasSubstr(path("missing") + ": cannot open"));
  auto const too_large = run(small() + Words{"--batch", "801"});
  EXPECT_EQ(too_large.status, 2);
  EXPECT_THAT(too_large.err,
              ::testing::HasSubstr("800 rows to train on fill no batch; expected a --batch of at "
                                   "most as many, found 801"));
}

TEST_F(TrainPleProgram, help_tells_of_every_option) {
  expect_help({"data",          "rows",   "tasks",          "hotness",       "holdout",
               "batch",         "epochs", "reader-threads", "form",          "buckets",
               "embedding-dim", "levels", "experts",        "expert-hidden", "expert-outputs",
               "tower-hidden",  "ranks",  "parallel",       "reproducible",  "plan",
               "lookahead"});
}

TEST_F(TrainPleProgram, results_go_to_stdout) {
  auto const ended = run(small() + Words{"--quiet=false"});
  EXPECT_THAT(ended.out,
              ::testing::ContainsRegex(
                  "epoch 1: loss [0-9.]+, Label AUC 0\\.[0-9]+, Label2 AUC 0\\.[0-9]+, [0-9,]+ "
                  "rows/s\n"));
  EXPECT_THAT(ended.out, ::testing::HasSubstr("8 steps, eager: median "));
  EXPECT_THAT(ended.err,
              ::testing::HasSubstr("800 rows to train, 200 to test; 26 fields, 2 tasks"));
}

}  // namespace
}  // namespace msstream::testing
