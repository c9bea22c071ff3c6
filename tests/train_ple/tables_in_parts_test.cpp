// SPDX-License-Identifier: Apache-2.0
#include "datasets/data_files.hpp"
#include "train_ple/small_ranks.hpp"
#include "training/rows_ahead.hpp"
#include "training/step_program.hpp"
#include "training/table_plans.hpp"

#include <msstream/base/detail/env.hpp>

#include <cstddef>
#include <filesystem>
#include <string>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

class TrainPleTablesInParts : public StepProgramTest {
 protected:
  TrainPleTablesInParts() : StepProgramTest(MSSTREAM_TRAIN_PLE) {}

  /// Returns options for a form, whose losses move by far more than roundings.
  [[nodiscard]] static Words form_on(std::string const& form, int ranks) {
    return small_ple_on_ranks(std::to_string(ranks)) + Words{"--form", form, "--lr", "0.02"};
  }
  /// Returns options for tables in parts by a plan that has all shardings in turn.
  [[nodiscard]] Words in_parts(std::string const& form, int ranks) {
    auto const file = path("plan" + std::to_string(ranks));
    auto const options = form_on(form, ranks) + Words{"--parallel", "sharded", "--plan", file};
    if (!std::filesystem::exists(file)) {
      EXPECT_EQ(run_program(MSSTREAM_TRAIN_PLE, options + Words{"--steps", "1"}).status, 0);
      use_all_shardings(file, ranks);
    }
    return options;
  }
};

TEST_F(TrainPleTablesInParts, learn_what_whole_tables_learn) {
  for (std::string const form : {"branches", "grouped"}) {
    auto const one = results_of(form_on(form, 1));
    // One rank that has all tables rounds as a model that has them.
    EXPECT_EQ(results_of(form_on(form, 1) + Words{"--parallel", "sharded"}), one) << form;
    for (int const ranks : {2, 4}) {
      auto const found = results_of(in_parts(form, ranks));
      expect_equal_learning(found, one, form + " on " + std::to_string(ranks) + " ranks");
      expect_equal_learning(found, results_of(form_on(form, ranks)), form + ", whole tables");
      EXPECT_EQ(results_of(in_parts(form, ranks) + Words{"--stream-groups", "1", "--capture"}),
                found)
          << form << ", " << ranks << " ranks";
    }
  }
}

TEST_F(TrainPleTablesInParts, have_the_bits_of_no_lookahead_with_ids_and_rows_ahead) {
  for (std::string const form : {"branches", "grouped"}) {
    auto const expected = results_of(in_parts(form, 4));
    for (auto const& way : {Words{"--lookahead", "ids"},
                            Words{"--lookahead", "ids", "--stream-groups", "1", "--capture"},
                            Words{"--lookahead", "rows", "--stream-groups", "1"},
                            Words{"--lookahead", "rows", "--capture"}}) {
      EXPECT_EQ(results_of(in_parts(form, 4) + way), expected)
          << form << ::testing::PrintToString(way);
    }
  }
}

TEST_F(TrainPleTablesInParts, learn_from_rows_that_are_a_step_stale) {
  auto const exact = results_of(in_parts("grouped", 2))[0];
  auto const stale = in_parts("grouped", 2) + Words{"--lookahead", "stale_rows"};
  auto const found = results_of(stale)[0];
  ASSERT_EQ(found.size(), 8U);
  EXPECT_EQ(results_of(stale + Words{"--capture"})[0], found);
  EXPECT_EQ(found[0], exact[0]);
  EXPECT_NE(found[1], exact[1]);
  for (std::size_t i = 1; i < 8; ++i) {
    EXPECT_NEAR(found[i].get<double>(), exact[i].get<double>(), 0.1) << "step " << i;
  }
}

TEST_F(TrainPleTablesInParts, send_rows_ahead_of_the_update_of_their_step) {
  for (std::string const lookahead : {"none", "ids", "rows", "stale_rows"}) {
    auto const ended = run_program(
        MSSTREAM_TRAIN_PLE,
        in_parts("grouped", 2) + Words{"--lookahead", lookahead, "--trace", path("timeline")});
    ASSERT_EQ(ended.status, 0) << ended.err;
    expect_rows_ahead(path("timeline"), lookahead);
  }
}

TEST_F(TrainPleTablesInParts, of_processes_have_the_bits_of_threads) {
  auto const options = in_parts("grouped", 2) + Words{"--lookahead", "rows", "--capture"};
  auto const expected = results_of(options)[0];
  auto const ended = run_program(MSSTREAM_AS_PROCESSES,
                                 Words{"2", MSSTREAM_TRAIN_PLE} + options +
                                     Words{"--quiet=false", "--report", path("of_processes")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(nlohmann::json::parse(read_all(path("of_processes")))["losses"], expected);
  auto const line = ended.err.find("column_wise");
  ASSERT_NE(line, std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find("field0 ", line), std::string::npos) << "another rank prints, too";
}

TEST_F(TrainPleTablesInParts, take_the_options_of_one_rank) {
  auto const one = in_parts("grouped", 1) + Words{"--lookahead", "rows"};
  auto const expected = results_of(one);
  auto const way = Words{"--capture", "--assignment", "auto", "--waits"};
  EXPECT_EQ(results_of(one + way), expected);
}

TEST_F(TrainPleTablesInParts, that_cannot_be_are_refused) {
  expect_usage_error({"--plan", path("none")},
                     "--plan: goes with --parallel sharded, found --parallel data");
  expect_usage_error(
      {"--lookahead", "ids", "--parallel", "half_batches"},
      "--lookahead ids: goes with --parallel sharded, found --parallel half_batches");
  expect_usage_error({"--parallel", "sharded", "--reproducible", "any_rank_count"},
                     "--parallel sharded: does not go with --reproducible any_rank_count");
  auto const of_four =
      run_program(MSSTREAM_TRAIN_PLE, in_parts("grouped", 2) + Words{"--ranks", "4"});
  EXPECT_EQ(of_four.status, 1);
  EXPECT_THAT(of_four.err,
              HasSubstr("--plan " + path("plan2") + ": a plan for 2 ranks; this run has 4"));
}

TEST_F(TrainPleTablesInParts, learn_the_census_to_an_auc_of_94) {
  if (env::integer("MSSTREAM_TEST_ALL", 0, 0, 1) != 1) {
    GTEST_SKIP() << "minutes long: MSSTREAM_TEST_ALL=1 asks for it";
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
                                 "--form",
                                 "grouped",
                                 "--epochs",
                                 "3",
                                 "--capture",
                                 "--ranks",
                                 "4",
                                 "--parallel",
                                 "sharded",
                                 "--lookahead",
                                 "rows"});
  ASSERT_EQ(report["epochs"].size(), 3U);
  EXPECT_GE(report["epochs"].back()["tasks"][0]["test_auc"].get<double>(), 0.940);
}

}  // namespace
}  // namespace msstream::testing
