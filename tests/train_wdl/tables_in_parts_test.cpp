// SPDX-License-Identifier: Apache-2.0
#include "datasets/data_files.hpp"
#include "train_wdl/program.hpp"
#include "training/rows_ahead.hpp"
#include "training/table_plans.hpp"

#include <msstream/base/detail/env.hpp>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// On the host runtime, where any machine has as many ranks as it is asked for.
class TrainWdlTablesInParts : public TrainWdlTest {
 protected:
  /// Returns options for epochs of four batches of 504 rows, and one of a single row.
  [[nodiscard]] static Words uneven(std::string const& ranks) {
    return small() + Words{"--rows", "2521", "--batch", "504", "--steps", "11", "--ranks", ranks};
  }
  /// Returns options for tables in parts by a plan that has all shardings in turn.
  [[nodiscard]] Words in_parts(int ranks) {
    auto const file = path("plan" + std::to_string(ranks));
    if (!std::filesystem::exists(file)) {
      auto const made =
          train_wdl(uneven(std::to_string(ranks)) + Words{"--parallel", "sharded", "--plan", file});
      EXPECT_EQ(made.status, 0) << made.err;
      use_all_shardings(file, ranks, "wide/");
    }
    return uneven(std::to_string(ranks)) + Words{"--parallel", "sharded", "--plan", file};
  }
  static void expect_near(nlohmann::json const& found,
                          nlohmann::json const& expected,
                          std::string const& what) {
    ASSERT_EQ(found.size(), expected.size()) << what;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i].get<double>(), expected[i].get<double>(), 1e-5)
          << what << ", step " << i;
    }
  }
};

TEST_F(TrainWdlTablesInParts, learn_what_whole_tables_learn) {
  auto const expected = report_of(uneven("1"));
  for (int const ranks : {1, 2, 4}) {
    auto const what = std::to_string(ranks) + " ranks";
    nlohmann::json bits;
    for (auto const& way :
         {Words{}, Words{"--capture"}, Words{"--stream-groups", "1", "--capture"}}) {
      auto const found = report_of(in_parts(ranks) + way);
      expect_near(found["losses"], expected["losses"], what);
      for (std::size_t epoch = 0; epoch < 3; ++epoch) {
        for (auto const* const metric : {"test_auc", "test_logloss"}) {
          EXPECT_NEAR(found["epochs"][epoch][metric].get<double>(),
                      expected["epochs"][epoch][metric].get<double>(),
                      2e-4)
              << what;
        }
      }
      EXPECT_EQ(found["options"]["parallel"], "sharded");
      EXPECT_TRUE(bits.is_null() || found["losses"] == bits) << what;
      bits = found["losses"];
    }
  }
}

TEST_F(TrainWdlTablesInParts, have_the_bits_of_no_lookahead_with_ids_and_rows_ahead) {
  auto const expected = report_of(in_parts(4))["losses"];
  ASSERT_EQ(expected.size(), 11U);
  for (auto const& way : {Words{"--lookahead", "ids"},
                          Words{"--lookahead", "ids", "--stream-groups", "1", "--capture"},
                          Words{"--lookahead", "rows", "--stream-groups", "1"},
                          Words{"--lookahead", "rows", "--capture"}}) {
    auto const found = report_of(in_parts(4) + way);
    EXPECT_EQ(found["losses"], expected) << ::testing::PrintToString(way);
    EXPECT_EQ(found["options"]["lookahead"], way[1]);
  }
}

TEST_F(TrainWdlTablesInParts, learn_from_rows_that_are_a_step_stale) {
  auto const exact = report_of(in_parts(2))["losses"];
  auto const stale = in_parts(2) + Words{"--lookahead", "stale_rows"};
  auto const found = report_of(stale)["losses"];
  ASSERT_EQ(found.size(), 11U);
  EXPECT_EQ(report_of(stale + Words{"--capture"})["losses"], found);
  // The rows of the first step are no older than without lookahead, those of the second are.
  EXPECT_EQ(found[0], exact[0]);
  EXPECT_NE(found[1], exact[1]);
  for (std::size_t i = 1; i < 11; ++i) {
    EXPECT_NEAR(found[i].get<double>(), exact[i].get<double>(), 0.02) << "step " << i;
  }
}

TEST_F(TrainWdlTablesInParts, send_rows_ahead_of_the_update_of_their_step) {
  for (std::string const lookahead : {"none", "ids", "rows", "stale_rows"}) {
    // Epochs have eight full batches. The eleventh step of the run is the one in the timeline.
    auto const ended = train_wdl(in_parts(2) + Words{"--rows", "5040", "--steps", "12"} +
                                 Words{"--lookahead", lookahead, "--trace", path("timeline")});
    ASSERT_EQ(ended.status, 0) << ended.err;
    expect_rows_ahead(path("timeline"), lookahead);
  }
}

TEST_F(TrainWdlTablesInParts, look_ahead_from_the_place_of_a_checkpoint) {
  auto const ahead = in_parts(2) + Words{"--lookahead", "rows", "--capture"};
  auto const expected = report_of(in_parts(2) + Words{"--save", path("whole")});
  // Steps 5 and 10 have a single row. A run must not have read beyond its last batch.
  for (std::string const steps : {"3", "4", "5"}) {
    auto const first = report_of(ahead + Words{"--steps", steps, "--save", path("first")});
    auto const second =
        report_of(ahead + Words{"--resume", path("first"), "--save", path("second")});
    auto joined = first["losses"];
    joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
    EXPECT_EQ(joined, expected["losses"]) << steps << " steps before";
    EXPECT_TRUE(read_all(path("second")) == read_all(path("whole"))) << steps;
  }
}

TEST_F(TrainWdlTablesInParts, go_on_from_a_checkpoint_on_other_ranks_and_whole) {
  auto const expected = report_of(uneven("1"))["losses"];
  auto const first = report_of(in_parts(4) + Words{"--steps", "7", "--save", path("first")});
  for (auto const& way : {in_parts(4), in_parts(2), uneven("1"), uneven("2")}) {
    auto const second = report_of(way + Words{"--resume", path("first")});
    EXPECT_EQ(second["first_step"], 7);
    auto joined = first["losses"];
    joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
    expect_near(joined, expected, ::testing::PrintToString(way));
  }
  // The file of a training with whole tables serves one with tables in parts, too.
  EXPECT_EQ(train_wdl(uneven("2") + Words{"--steps", "7", "--save", path("whole")}).status, 0);
  auto const second = report_of(in_parts(2) + Words{"--resume", path("whole")});
  auto joined = first["losses"];
  joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
  expect_near(joined, expected, "from whole tables");
}

TEST_F(TrainWdlTablesInParts, of_processes_have_the_bits_of_threads) {
  auto const options = in_parts(2);
  auto const expected = report_of(options + Words{"--save", path("threads")});
  auto const ended =
      run_program(MSSTREAM_AS_PROCESSES,
                  Words{"2", MSSTREAM_TRAIN_WDL} + options +
                      Words{"--report", path("report"), "--save", path("processes")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(nlohmann::json::parse(read_all(path("report")))["losses"], expected["losses"]);
  EXPECT_TRUE(read_all(path("processes")) == read_all(path("threads")));
  auto const resumed = run_program(
      MSSTREAM_AS_PROCESSES,
      Words{"2", MSSTREAM_TRAIN_WDL} + options +
          Words{"--steps", "12", "--resume", path("processes"), "--report", path("report")});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(nlohmann::json::parse(read_all(path("report")))["losses"].size(), 1U);
}

TEST_F(TrainWdlTablesInParts, print_their_plan_and_keep_that_of_a_file) {
  auto const made = train_wdl(uneven("2") + Words{"--quiet=false", "--parallel", "sharded"});
  EXPECT_EQ(made.status, 0);
  EXPECT_THAT(made.err, AllOf(HasSubstr("deep/C1 "), HasSubstr("replicated")));
  auto const options = in_parts(2) + Words{"--quiet=false"};
  auto const plan = read_all(path("plan2"));
  auto const kept = train_wdl(options);
  EXPECT_EQ(kept.status, 0) << kept.err;
  EXPECT_THAT(kept.err,
              AllOf(HasSubstr("table_wise"), HasSubstr("row_wise"), HasSubstr("column_wise")));
  EXPECT_EQ(read_all(path("plan2")), plan);
}

TEST_F(TrainWdlTablesInParts, that_cannot_be_are_refused) {
  auto const error_of = [](Words const& arguments) { return train_wdl(arguments).err; };
  EXPECT_THAT(error_of({"--plan", path("none")}),
              StartsWith("train_wdl: error: --plan: goes with --parallel sharded, found --parallel "
                         "data"));
  EXPECT_THAT(error_of({"--plan", path("none"), "--parallel", "half_batches"}),
              HasSubstr("goes with --parallel sharded, found --parallel half_batches"));
  EXPECT_THAT(
      error_of({"--ranks", "2", "--parallel", "sharded", "--reproducible", "any_rank_count"}),
      HasSubstr("--parallel sharded: does not go with --reproducible any_rank_count"));
  EXPECT_THAT(error_of({"--lookahead", "rows"}),
              StartsWith("train_wdl: error: --lookahead rows: goes with --parallel sharded, found "
                         "--parallel data"));
  EXPECT_THAT(error_of({"--lookahead", "all"}),
              HasSubstr("--lookahead: expected one of none, ids, rows, stale_rows, found 'all'"));
  EXPECT_THAT(error_of({"--tables", "sharded"}), HasSubstr("--tables"));
  auto const of_two = in_parts(2);
  auto const of_four = train_wdl(of_two + Words{"--ranks", "4"});
  EXPECT_EQ(of_four.status, 1);
  EXPECT_THAT(of_four.err,
              StartsWith("train_wdl: error: --plan " + path("plan2") +
                         ": a plan for 2 ranks; this run has 4"));
  EXPECT_THAT(error_of(of_two + Words{"--embedding-dim", "1"}),
              StartsWith("train_wdl: error: --plan " + path("plan2") +
                         ": table 'deep/C4', column_wise: 2 ranks for 1 columns"));
  std::ofstream(path("plan2")) << "{}";
  EXPECT_THAT(error_of(of_two), StartsWith("train_wdl: error: --plan " + path("plan2")));
}

TEST_F(TrainWdlTablesInParts, learn_the_census_to_an_auc_of_94) {
  if (env::integer("MSSTREAM_TEST_ALL", 0, 0, 1) != 1) {
    GTEST_SKIP() << "half a minute long: MSSTREAM_TEST_ALL=1 asks for it";
  }
  auto const file = test_data("census_income_kdd.csv.gz");
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << "no " << file.string();
  }
  auto const report = report_of({"--runtime",
                                 "host",
                                 "--quiet",
                                 "--data",
                                 file.string(),
                                 "--epochs",
                                 "3",
                                 "--capture",
                                 "--ranks",
                                 "4",
                                 "--parallel",
                                 "sharded",
                                 "--plan",
                                 path("census")});
  ASSERT_EQ(report["epochs"].size(), 3U);
  EXPECT_GE(report["epochs"].back()["test_auc"].get<double>(), 0.940);
  EXPECT_THAT(read_all(path("census")), HasSubstr("table_wise"));
}

}  // namespace
}  // namespace msstream::testing
