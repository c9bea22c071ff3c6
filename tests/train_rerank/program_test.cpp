// SPDX-License-Identifier: Apache-2.0
#include "datasets/data_files.hpp"
#include "training/step_program.hpp"

#include <filesystem>
#include <set>
#include <string>

namespace msstream::testing {
namespace {

class TrainRerank : public StepProgramTest {
 protected:
  TrainRerank() : StepProgramTest(MSSTREAM_TRAIN_RERANK) {}

  /// Returns program options for 32 training lists, in five steps of 6 lists per epoch.
  [[nodiscard]] static Words small() {
    return {"--runtime",      runtime(), "--queries", "40", "--columns", "8", "--list",    "5",
            "--batch",        "6",       "--epochs",  "2",  "--width",   "4", "--targets", "2",
            "--tower-hidden", "4",       "--steps",   "8",  "--quiet"};
  }
  /// Writes files of three ranking lists of 3, 1 and 2 items with up to three features, and returns
  /// the path.
  [[nodiscard]] std::string lists(std::string const& name,
                                  std::string const& lengths = "3\n1\n2\n") {
    folder.write(name + ".query", lengths);
    return folder.write(name, "0 1:1\n1 2:0.5\n2 3:1\n1 1:2\n0 2:1\n1 3:0.25\n").string();
  }
  void expect_failure(Words const& arguments, std::string const& message) const {
    auto const ended = run(arguments);
    EXPECT_EQ(ended.status, 1) << ::testing::PrintToString(arguments);
    EXPECT_THAT(ended.err, ::testing::HasSubstr(message));
  }
};

TEST_P(TrainRerank, losses_have_the_same_bits_however_a_step_is_issued) {
  expect_same_bits_however_issued(small());
}

TEST_P(TrainRerank, report_says_how_the_run_was_and_went) {
  expect_complete_report(small(), 8);
  auto const report = report_of(small() + Words{"--user-groups", "1", "--item-groups", "4"});
  auto const& options = report["options"];
  EXPECT_EQ(options["queries"], 40);
  EXPECT_EQ(options["list"], 5);
  EXPECT_EQ(options["batch"], 6);
  EXPECT_EQ(options["user_groups"], 1);
  EXPECT_EQ(options["item_groups"], 4);
  EXPECT_EQ(options["width"], 4);
  EXPECT_EQ(options["targets"], 2);
  auto const& epochs = report["epochs"];
  ASSERT_EQ(epochs.size(), 2U);
  auto const expect_tested = [](nlohmann::json const& result) {
    EXPECT_GT(result["test_loss"], 0);
    auto const ndcg = result["test_ndcg10"].get<double>();
    EXPECT_TRUE(ndcg > 0.3 && ndcg < 1) << ndcg;
  };
  expect_tested(report["before"]);
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    EXPECT_EQ(epochs[i]["epoch"], i + 1);
    EXPECT_EQ(epochs[i]["complete"], i == 0);
    EXPECT_GT(epochs[i]["loss"], 0);
    double const lists = i == 0 ? 30 : 18;  // 2 of the 32 lists fill no batch
    EXPECT_NEAR(
        epochs[i]["lists_per_s"].get<double>() * epochs[i]["seconds"].get<double>(), lists, 1e-3);
    expect_tested(epochs[i]);
  }
  EXPECT_NE(epochs[0]["test_loss"], report["before"]["test_loss"]);
  auto const untested = report_of(small() + Words{"--holdout", "0"});
  EXPECT_TRUE(untested["before"]["test_loss"].is_null());
  EXPECT_TRUE(untested["epochs"][0]["test_ndcg10"].is_null());
}

TEST_P(TrainRerank, each_step_trains_on_another_batch_in_another_order_each_epoch) {
  auto const still = small() + Words{"--lr", "0", "--steps", "10"};
  auto const report = report_of(still);
  auto const losses = report["losses"];
  EXPECT_EQ(std::set<float>(losses.begin(), losses.end()).size(), 10U) << losses;
  EXPECT_EQ(report_of(still + Words{"--capture"})["losses"], losses);
  EXPECT_EQ(report["epochs"][1]["test_loss"], report["before"]["test_loss"]);
}

TEST_P(TrainRerank, groups_can_be_chosen_kept_and_given) {
  expect_groups_can_be_chosen_kept_and_given(small());
}

TEST_P(TrainRerank, groups_take_no_more_memory_than_one) {
  expect_groups_take_no_more_memory(
      small() + Words{"--batch", "32", "--queries", "200", "--list", "40", "--width", "64"}, 1.25);
}

TEST_P(TrainRerank, groups_can_propagate) {
  expect_groups_can_propagate(small());
}

TEST_P(TrainRerank, a_step_can_be_looked_at) {
  expect_traces(small());
}

TEST_P(TrainRerank, lists_of_files_are_used_whole_or_cut) {
  Words const files = {"--runtime",
                       runtime(),
                       "--data",
                       lists("rank"),
                       "--batch",
                       "3",
                       "--width",
                       "4",
                       "--epochs",
                       "1",
                       "--test",
                       lists("more"),
                       "--capture",
                       "--report",
                       path("report.json")};
  auto const whole = run(files);
  EXPECT_THAT(whole.err,
              ::testing::HasSubstr("3 lists to train, 3 to test, of up to 3 items; 3 f"));
  EXPECT_THAT(whole.err, ::testing::Not(::testing::HasSubstr("longer")));
  auto const loss_of_whole = report_of(files)["losses"][0];
  auto const cut = run(files + Words{"--list", "2"});
  EXPECT_EQ(cut.status, 0) << cut.err;
  EXPECT_THAT(
      cut.err,
      ::testing::HasSubstr("2 of 6 lists were longer: of them the first 2 items are used\n"));
  EXPECT_NE(report_of(files + Words{"--list", "2"})["losses"][0], loss_of_whole);
  EXPECT_EQ(report_of(files + Words{"--list", "9"})["losses"][0], loss_of_whole);
}

TEST_P(TrainRerank, learns_to_rank_real_lists) {
  auto const data = test_data("lambdarank/rank.train");
  if (!std::filesystem::exists(data)) {
    GTEST_SKIP() << "no " << data.string() << ": set MSSTREAM_TEST_DATA";
  }
  auto const test = test_data("lambdarank/rank.test");
  // With the seeds 1 to 6, NDCG@10 is 0.54 to 0.63 before training, 0.57 on average, and 0.70 to
  // 0.72 after it. The value before training depends on the first values alone, so that the gain is
  // tested on the average of three seeds.
  constexpr int kSeeds = 3;
  double gain = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    auto const report = report_of({"--runtime",
                                   runtime(),
                                   "--quiet",
                                   "--seed",
                                   std::to_string(seed),
                                   "--data",
                                   data.string(),
                                   "--test",
                                   test.string(),
                                   "--epochs",
                                   "2",
                                   "--capture"});
    auto const& before = report["before"];
    auto const& after = report["epochs"].back();
    auto const ndcg = after["test_ndcg10"].get<double>();
    gain += (ndcg - before["test_ndcg10"].get<double>()) / kSeeds;
    EXPECT_GE(ndcg, 0.7) << "seed " << seed;
    EXPECT_LT(after["test_loss"].get<double>(), 0.8 * before["test_loss"].get<double>())
        << "seed " << seed;
  }
  EXPECT_GE(gain, 0.12);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainRerank, kRuntimes, name_of_runtime);

class TrainRerankProgram : public TrainRerank {};

TEST_F(TrainRerankProgram, mistakes_are_named) {
  expect_mistakes_are_named();
  expect_usage_error({"--holdout", "1"}, "--holdout 1");
  expect_usage_error({"--test", path("missing")}, "--test goes with --data");
  Words const data = {"--data", path("missing")};
  expect_usage_error(data + Words{"--queries", "4"}, "--queries is for generated data");
  expect_usage_error(data + Words{"--columns", "4"}, "--columns is for generated data");
  expect_usage_error(data + Words{"--test", "x", "--holdout", "4"},
                     "--holdout is for data without");
  expect_usage_error(
      small() + Words{"--batch", "33"},
      "32 lists to train on fill no batch; expected a --batch of at most as many, found "
      "33");
  expect_usage_error(small() + Words{"--user-groups", "9"},
                     "--user-groups 9: expected at most as many as features, which are 8");
  expect_usage_error(small() + Words{"--item-groups", "9"}, "--item-groups 9: expected at most");
}

TEST_F(TrainRerankProgram, files_that_are_read_are_not_written_over) {
  auto const data = lists("rank");
  for (std::string const end : {"", ".query"}) {
    expect_usage_error({"--data", data, "--report", data + end}, "--data reads that file");
  }
  auto const groups = folder.write("groups.txt", "0:.*\n").string();
  expect_usage_error({"--assignment", groups, "--trace", groups}, "--assignment reads that file");
}

TEST_F(TrainRerankProgram, files_that_are_wrong_are_named) {
  expect_failure({"--data", path("missing")}, path("missing") + ": cannot open");
  auto const alone = folder.write("alone", "1 1:1\n").string();
  expect_failure({"--data", alone}, alone + ".query: cannot open");
  auto const short_lists = lists("short", "3\n1\n");
  expect_failure({"--data", short_lists}, short_lists + ".query: expected lists of 6 items");
  auto const rank = lists("rank");
  folder.write("wide.query", "1\n");
  auto const wide = folder.write("wide", "1 4:1\n").string();
  expect_failure({"--data", rank, "--test", wide},
                 wide + ":1: expected an index of at most 3, found '4:1'");
  expect_usage_error({"--data", rank, "--batch", "3", "--user-groups", "4"}, "--user-groups 4: ");
}

TEST_F(TrainRerankProgram, help_tells_of_every_option) {
  expect_help({"data",
               "test",
               "queries",
               "columns",
               "list",
               "holdout",
               "batch",
               "epochs",
               "user-groups",
               "item-groups",
               "width",
               "tower-hidden",
               "targets",
               "ranks",
               "parallel",
               "reproducible"});
}

TEST_F(TrainRerankProgram, results_go_to_stdout) {
  EXPECT_EQ(run(small()).out + run(small()).err, "");
  auto const ended = run(small() + Words{"--quiet=false"});
  EXPECT_THAT(
      ended.out,
      ::testing::ContainsRegex("before training: test loss [0-9.]+, NDCG@10 0\\.[0-9]+\n"
                               "epoch 1: loss [0-9.]+, test loss [0-9.]+, NDCG@10 0\\.[0-9]+, "
                               "[0-9,]+ lists/s\n"));
  EXPECT_THAT(ended.out, ::testing::HasSubstr("8 steps, eager: median "));
  EXPECT_THAT(ended.err,
              ::testing::HasSubstr("generated lists, seed 1: 32 lists to train, 8 to test, of up "
                                   "to 5 items; 8 features; 4 stream groups"));
  EXPECT_THAT(run(small() + Words{"--quiet=false", "--holdout", "0"}).out,
              ::testing::Not(::testing::HasSubstr("before training")));
}

}  // namespace
}  // namespace msstream::testing
