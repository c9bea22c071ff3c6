// SPDX-License-Identifier: Apache-2.0
#include "base/many.hpp"
#include "datasets/data_files.hpp"
#include "train_wdl/program.hpp"

#include <cstddef>
#include <filesystem>
#include <string>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// On the host runtime, where any machine has as many ranks as it is asked for.
class TrainWdlRanks : public TrainWdlTest {
 protected:
  /// Returns options for an epoch of four batches of 504 rows, and one of 4 rows, in which some of
  /// 8 parts have none.
  [[nodiscard]] static Words uneven(std::string const& ranks) {
    return small() + Words{"--rows", "2525", "--batch", "504", "--steps", "11", "--ranks", ranks};
  }
  [[nodiscard]] static Words any_ranks(std::string const& ranks) {
    return uneven(ranks) + Words{"--reproducible", "any_rank_count"};
  }
  [[nodiscard]] nlohmann::json results_of_ranks(Words const& arguments) {
    auto const report = report_of(arguments);
    auto results = nlohmann::json::array({report["losses"]});
    for (auto const& epoch : report["epochs"]) {
      results.push_back({epoch["test_auc"], epoch["test_logloss"]});
    }
    return results;
  }
  /// Runs the program on two ranks that are processes.
  [[nodiscard]] static Ended as_processes(Words const& arguments) {
    return run_program(MSSTREAM_AS_PROCESSES, Words{"2", MSSTREAM_TRAIN_WDL} + arguments);
  }
  static void expect_refused(Words const& arguments,
                             std::string const& message,
                             Words const& environment = {}) {
    auto const ended = train_wdl(arguments, {.environment = environment});
    EXPECT_EQ(ended.status, 2) << ::testing::PrintToString(arguments + environment);
    EXPECT_THAT(ended.err, AllOf(StartsWith("train_wdl: error: "), HasSubstr(message)));
  }
};

TEST_F(TrainWdlRanks, have_the_bits_of_one_with_any_rank_count) {
  auto const expected = results_of_ranks(any_ranks("1"));
  ASSERT_EQ(expected[0].size(), 11U);
  ASSERT_EQ(expected.size(), 4U);
  OneOf chosen(3);
  for (std::string const ranks : {"1", "2", "4", "8"}) {
    for (std::string const groups : {"1", "4"}) {
      for (auto const& capture : {Words{}, Words{"--capture"}}) {
        if (!chosen.next()) {
          continue;
        }
        auto const way = Words{"--stream-groups", groups} + capture;
        EXPECT_EQ(results_of_ranks(any_ranks(ranks) + way), expected)
            << ranks << " ranks " << ::testing::PrintToString(way);
      }
    }
  }
}

TEST_F(TrainWdlRanks, learn_what_one_learns) {
  auto const expected = report_of(uneven("1"));
  for (std::string const ranks : {"2", "3", "8"}) {
    nlohmann::json of_eager;
    for (auto const& capture : {Words{}, Words{"--capture"}}) {
      auto const found = report_of(uneven(ranks) + capture);
      ASSERT_EQ(found["losses"].size(), 11U);
      for (std::size_t i = 0; i < 11; ++i) {
        EXPECT_NEAR(found["losses"][i].get<double>(), expected["losses"][i].get<double>(), 1e-5)
            << ranks << " ranks, step " << i;
      }
      auto const& epochs = found["epochs"];
      ASSERT_EQ(epochs.size(), 3U);
      for (std::size_t i = 0; i < 3; ++i) {
        for (auto const* const metric : {"test_auc", "test_logloss"}) {
          EXPECT_NEAR(
              epochs[i][metric].get<double>(), expected["epochs"][i][metric].get<double>(), 2e-4)
              << ranks << " ranks, epoch " << i;
        }
        EXPECT_NEAR(epochs[i]["rows_per_s"].get<double>() * epochs[i]["seconds"].get<double>(),
                    i < 2 ? 2020 : 504,
                    1e-3);
      }
      EXPECT_EQ(found["options"]["ranks"], std::stoi(ranks));
      // The bits are those of the number of ranks, captured or not.
      EXPECT_TRUE(of_eager.is_null() || found["losses"] == of_eager);
      of_eager = found["losses"];
    }
  }
}

TEST_F(TrainWdlRanks, learn_what_one_learns_in_half_batches) {
  Words const halves = {"--parallel", "half_batches"};
  auto const expected = report_of(uneven("1"))["losses"];
  OneOf chosen(2);
  for (std::string const ranks : {"1", "2", "6"}) {
    auto const found = results_of_ranks(uneven(ranks) + halves);
    ASSERT_EQ(found[0].size(), 11U);
    for (std::size_t i = 0; i < 11; ++i) {
      EXPECT_NEAR(found[0][i].get<double>(), expected[i].get<double>(), 1e-5)
          << ranks << " ranks, step " << i;
    }
    for (auto const& way : {Words{"--stream-groups", "1"},
                            Words{"--stream-groups", "4", "--capture"},
                            Words{"--stream-groups", "1", "--capture"}}) {
      if (chosen.next()) {
        EXPECT_EQ(results_of_ranks(uneven(ranks) + halves + way), found)
            << ranks << " ranks " << ::testing::PrintToString(way);
      }
    }
  }
}

TEST_F(TrainWdlRanks, go_on_from_the_checkpoint_of_another_number_of_ranks) {
  auto const whole = report_of(any_ranks("1") + Words{"--save", path("whole")});
  auto const first = report_of(any_ranks("4") + Words{"--steps", "7", "--save", path("first")});
  for (std::string const ranks : {"1", "2"}) {
    auto const second =
        report_of(any_ranks(ranks) + Words{"--resume", path("first"), "--save", path("second")});
    EXPECT_EQ(second["first_step"], 7);
    auto joined = first["losses"];
    joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
    EXPECT_EQ(joined, whole["losses"]) << ranks;
    EXPECT_TRUE(read_all(path("second")) == read_all(path("whole")))
        << ranks << " ranks: the saved models differ";
  }
}

TEST_F(TrainWdlRanks, that_are_processes_have_the_bits_of_threads) {
  auto const expected = report_of(uneven("2") + Words{"--save", path("threads")});
  auto const ended =
      as_processes(uneven("0") + Words{"--report", path("report"), "--save", path("processes")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(nlohmann::json::parse(read_all(path("report")))["losses"], expected["losses"]);
  EXPECT_TRUE(read_all(path("processes")) == read_all(path("threads")));
  auto const resumed = as_processes(
      uneven("0") +
      Words{"--steps", "12", "--resume", path("processes"), "--report", path("report")});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_EQ(nlohmann::json::parse(read_all(path("report")))["losses"].size(), 1U);
}

/// All ranks issue the recorded step eagerly, among replays.
TEST_F(TrainWdlRanks, trace_a_step_of_rank_0_among_captured_ones) {
  auto const expected = report_of(uneven("2") + Words{"--capture"});
  auto const traced = report_of(uneven("2") + Words{"--capture", "--trace", path("threads.json")});
  EXPECT_EQ(traced["losses"], expected["losses"]);
  auto const ended = as_processes(
      uneven("0") +
      Words{"--capture", "--trace", path("processes.json"), "--report", path("report")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(nlohmann::json::parse(read_all(path("report")))["losses"], expected["losses"]);
  for (std::string const name : {"threads.json", "processes.json"}) {
    auto const trace = nlohmann::json::parse(read_all(path(name)));
    EXPECT_TRUE(trace.contains("otherData"));
    int updates = 0;
    for (auto const& event : trace["traceEvents"]) {
      EXPECT_NE(event["name"], "replay");
      updates += event["name"] == "update_dense" ? 1 : 0;
    }
    EXPECT_EQ(updates, 1) << name;
  }
}

TEST_F(TrainWdlRanks, print_once) {
  auto const count = [](std::string const& text, std::string const& part) {
    std::size_t found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  auto const loud = Words{"--quiet=false"};
  for (auto const& ended : {train_wdl(uneven("4") + loud), as_processes(uneven("0") + loud)}) {
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(count(ended.out, "epoch 1: test AUC"), 1U) << ended.out;
    EXPECT_EQ(count(ended.err, "2020 rows to train"), 1U) << ended.err;
  }
  EXPECT_THAT(train_wdl(uneven("4") + loud).err, HasSubstr("; 4 ranks, which are threads\n"));
  EXPECT_THAT(train_wdl(uneven("1") + loud).err, Not(HasSubstr("ranks")));
}

TEST_F(TrainWdlRanks, that_cannot_be_are_refused_by_option_and_range) {
  expect_refused({"--ranks", "-1"}, "--ranks: expected an integer from 0 to 1024, found '-1'");
  expect_refused({"--ranks", "1025"}, "--ranks: expected an integer from 0 to 1024, found '1025'");
  expect_refused({"--parallel", "tables"},
                 "--parallel: expected one of data, half_batches, sharded, found 'tables'");
  expect_refused({"--parallel", "half_batches", "--reproducible", "any_rank_count"},
                 "--parallel half_batches: does not go with --reproducible any_rank_count");
  expect_refused({"--parallel", "half_batches", "--ranks", "3", "--batch", "9"},
                 "--batch 9: rows of all ranks together; expected a multiple of 6, the halves of "
                 "all ranks");
  expect_refused({"--ranks", "3"},
                 "--batch 512: rows of all ranks together; expected a multiple of 3, the number of "
                 "ranks");
  expect_refused({"--ranks", "4", "--batch", "2"},
                 "--batch 2: rows of all ranks together; expected a multiple of 4");
  expect_refused({"--ranks", "3", "--batch", "24", "--reproducible", "any_rank_count"},
                 "--reproducible any_rank_count on 3 ranks; expected 1, 2, 4 or 8");
  expect_refused({"--ranks", "16", "--reproducible", "any_rank_count"},
                 "--reproducible any_rank_count on 16 ranks; expected 1, 2, 4 or 8");
  expect_refused({"--batch", "12", "--reproducible", "any_rank_count"},
                 "expected a multiple of 8, the parts of --reproducible any_rank_count");
  expect_refused({"--ranks", "2", "--waits"},
                 "--waits: traces a step of one rank; expected one rank, found 2");
  expect_refused({"--ranks", "2", "--check"},
                 "--check: checks one rank; expected one rank, found 2");
  Words const started = {"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=1"};
  expect_refused({"--ranks", "4"},
                 "--ranks 4: this process is rank 1 of 2 (torchrun, local rank 1); expected 2, or "
                 "no --ranks",
                 started);
  expect_refused({}, "WORLD_SIZE", {"RANK=1"});
}

TEST_F(TrainWdlRanks, that_are_processes_with_different_options_are_refused_on_all) {
  // as_processes.sh starts the shell, which knows the number of its rank.
  auto const ended = run_program(
      MSSTREAM_AS_PROCESSES,
      {"3",
       "/bin/sh",
       "-c",
       R"sh(exec "$0" --runtime host --rows 2000 --steps 2 --seed "$((RANK / 2))" --batch "$((RANK * 6 + 6))")sh",
       MSSTREAM_TRAIN_WDL});
  EXPECT_EQ(ended.status, 1);  // of the script: some rank has failed
  std::string const expected =
      "train_wdl: error: the processes have different options: --batch is 6 on rank 0 and 12 on "
      "rank 1, --seed is 0 on rank 0 and 1 on rank 2\n";
  auto const first = ended.err.find(expected);
  auto const second = ended.err.find(expected, first + 1);
  EXPECT_NE(ended.err.find(expected, second + 1), std::string::npos) << ended.err;
}

TEST_F(TrainWdlRanks, tell_of_the_failure_of_one) {
  auto const ended = train_wdl(
      uneven("4") +
      Words{"--lr", "1e6", "--optimizer", "sgd", "--embedding-dim", "16", "--layers", "256,128"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, StartsWith("train_wdl: error: training diverged: the loss of step "));
  auto const missing = train_wdl(uneven("4") + Words{"--resume", path("missing")});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, StartsWith("train_wdl: error: " + path("missing") + ": cannot open"));
  EXPECT_THAT(missing.out, IsEmpty());
}

TEST_F(TrainWdlRanks, learn_the_census_to_an_auc_of_94) {
  if (!at_night()) {
    GTEST_SKIP() << "half a minute long: MSSTREAM_TEST_ALL=1 asks for it";
  }
  auto const file = test_data("census_income_kdd.csv.gz");
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << "no " << file.string();
  }
  Words const census = {"--runtime",
                        "host",
                        "--quiet",
                        "--data",
                        file.string(),
                        "--epochs",
                        "3",
                        "--capture",
                        "--ranks",
                        "4"};
  for (auto const& bits : {Words{}, Words{"--reproducible", "any_rank_count"}}) {
    auto const report = report_of(census + bits);
    ASSERT_EQ(report["epochs"].size(), 3U);
    EXPECT_GE(report["epochs"].back()["test_auc"].get<double>(), 0.940);
  }
}

}  // namespace
}  // namespace msstream::testing
