// SPDX-License-Identifier: Apache-2.0
#include "train_wdl/program.hpp"

#include <msstream/step/step_trace.hpp>

#include <fmt/core.h>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TrainWdlReport : public TrainWdlTest {};

TEST_P(TrainWdlReport, says_how_the_run_was_and_went) {
  auto const report =
      report_of(small() + Words{"--steps", "8", "--stream-groups", "3", "--lr", "0.5"});
  auto const& options = report["options"];
  EXPECT_EQ(options["runtime"], runtime());
  EXPECT_EQ(options["stream_groups"], 3);
  EXPECT_EQ(options["launch_threads"], "none");
  EXPECT_EQ(options["merge_streams"], false);
  EXPECT_EQ(options["reduce_waits"], true);
  EXPECT_EQ(options["batch"], 500);
  EXPECT_EQ(options["layers"], (nlohmann::json{16, 8}));
  EXPECT_EQ(options["optimizer"], "adam");
  EXPECT_EQ(options["lr"], 0.5);
  EXPECT_EQ(options["tables_together"], true);
  EXPECT_EQ(options["seed"], 1);
  EXPECT_EQ(report["first_step"], 0);
  EXPECT_EQ(report["losses"].size(), 8U);
  auto const& epochs = report["epochs"];
  ASSERT_EQ(epochs.size(), 2U);
  for (std::size_t i = 0; i < epochs.size(); ++i) {
    EXPECT_EQ(epochs[i]["epoch"], i + 1);
    EXPECT_EQ(epochs[i]["complete"], i == 0);
    auto const auc = epochs[i]["test_auc"].get<double>();
    EXPECT_TRUE(auc > 0.3 && auc < 1) << auc;
    EXPECT_GT(epochs[i]["test_logloss"].get<double>(), 0);
    EXPECT_GT(epochs[i]["seconds"].get<double>(), 0);
    // The first epoch trains all 2400 rows; the second one is cut off after three batches of 500.
    double const rows = i == 0 ? 2400 : 1500;
    EXPECT_NEAR(
        epochs[i]["rows_per_s"].get<double>() * epochs[i]["seconds"].get<double>(), rows, 1e-3);
  }
  EXPECT_GT(report["operations"].get<std::int64_t>(), 8 * 26);
  auto const& waits = report["waits"];
  EXPECT_GT(waits["elided"].get<std::int64_t>(), 0);
  EXPECT_GT(waits["issued"].get<std::int64_t>(), 0);
  EXPECT_EQ(waits["needed"],
            waits["issued"].get<std::int64_t>() + waits["elided"].get<std::int64_t>());
  // The 26 deep and 26 wide tables of 64 rows, with Adam's state, are in memory all the time.
  EXPECT_GT(report["peak_bytes"].get<std::int64_t>(), 26 * 64 * (4 + 1) * 4 * 3);
  EXPECT_GE(report["reserved_bytes"], report["peak_bytes"]);
}

TEST_P(TrainWdlReport, seven_groups_reserve_hardly_more_memory_than_one) {
  auto const reserved = [&](std::string const& groups, Words const& environment) {
    Words const model{"--runtime", runtime(), "--rows", "5000", "--batch", "1024", "--steps", "6"};
    auto const report =
        report_of(model + Words{"--stream-groups", groups}, {.environment = environment});
    return report["reserved_bytes"].get<double>();
  };
  auto const one = reserved("1", {});
  EXPECT_LE(reserved("7", {}), 1.10 * one);
  EXPECT_GT(reserved("7", {"MSSTREAM_MEMORY_POOLS=private"}), 1.10 * one) << "too little to tell";
}

TEST_P(TrainWdlReport, a_captured_step_has_two_copies_beside_its_graph) {
  auto const operations = [&](std::string const& steps) {
    auto const way = Words{"--capture", "--holdout", "0", "--stream-groups", "4", "--steps", steps};
    return report_of(small() + way)["operations"].get<std::int64_t>();
  };
  // Two uploads of the batch after it, two copies to what the graph reads, the graph, and its loss.
  EXPECT_EQ(operations("5") - operations("4"), 6);
}

TEST_P(TrainWdlReport, counts_every_wait_as_issued_without_reduction) {
  auto const waits = report_of(small() + Words{"--steps", "4", "--no-reduce-waits"})["waits"];
  EXPECT_EQ(waits["elided"], 0);
  EXPECT_EQ(waits["issued"], waits["needed"]);
}

TEST_P(TrainWdlReport, without_held_out_rows_has_no_test_results) {
  auto const report = report_of(small() + Words{"--steps", "2", "--holdout", "0"});
  EXPECT_TRUE(report["epochs"][0]["test_auc"].is_null());
  EXPECT_TRUE(report["epochs"][0]["test_logloss"].is_null());
}

TEST_P(TrainWdlReport, a_trace_shows_one_step_of_however_short_a_run) {
  for (std::string const steps : {"1", "13"}) {
    ASSERT_EQ(train_wdl(small() + Words{"--steps", steps, "--trace", path("trace.json")}).status,
              0);
    auto const trace = nlohmann::json::parse(read_all(path("trace.json")));
    int updates = 0;
    for (auto const& event : trace["traceEvents"]) {
      updates += event["name"] == "update_dense" ? 1 : 0;
    }
    EXPECT_EQ(updates, 1) << steps << " steps";
    std::filesystem::remove(path("trace.json"));
  }
}

TEST_P(TrainWdlReport, a_trace_of_captured_steps_shows_the_operations_of_an_eager_one) {
  auto const arguments = small() + Words{"--steps", "13", "--capture", "--no-reduce-waits"};
  auto const untraced = report_of(arguments);
  auto const traced = report_of(arguments + Words{"--trace", path("trace.json")});
  EXPECT_EQ(traced["losses"], untraced["losses"]);
  EXPECT_GT(traced["operations"], untraced["operations"]) << "one step more is eager";
  auto const trace = nlohmann::json::parse(read_all(path("trace.json")));
  EXPECT_EQ(trace["otherData"]["step"], "an eager step, issued in place of a replay");
  int updates = 0;
  int waits = 0;
  for (auto const& event : trace["traceEvents"]) {
    EXPECT_NE(event["name"], "replay");
    updates += event["name"] == "update_dense" ? 1 : 0;
    waits += event["ph"] == "f" ? 1 : 0;
  }
  EXPECT_EQ(updates, 1);
  EXPECT_GT(waits, 0);
}

TEST_P(TrainWdlReport, says_which_waits_a_step_takes_and_needs) {
  auto const model = small() + Words{"--steps", "4", "--stream-groups", "3"};
  auto const losses = report_of(model)["losses"];
  for (auto const& way : {Words{},
                          Words{"--capture"},
                          Words{"--tables", "fused"},
                          Words{"--precision", "fp16"},
                          Words{"--parallel", "sharded", "--lookahead", "rows"}}) {
    SCOPED_TRACE(::testing::PrintToString(way));
    auto const report = report_of(model + way + Words{"--waits"});
    auto const& traced = report["traced_step"];
    EXPECT_GT(traced["operations"], 20);
    EXPECT_GT(traced["critical_path_ms"], 0);
    EXPECT_LE(traced["critical_path_ms"], traced["busy_ms"]);
    EXPECT_GE(traced["waits"]["hazards"], traced["waits"]["necessary"]);
    EXPECT_EQ(report["losses"], report_of(model + way)["losses"]);
  }
  auto const branches = report_of(model + Words{"--waits"})["traced_step"];
  EXPECT_GT(branches["operations"], 26 * 3) << "a hash and two lookups for each field";
  EXPECT_GT(branches["waits"]["necessary"], 0);
  EXPECT_GT(branches["waits"]["issued"], 0);
  EXPECT_FALSE(report_of(model).contains("traced_step"));
  auto const ended = train_wdl(model + Words{"--waits", "--quiet=false"});
  EXPECT_THAT(ended.out, HasSubstr(" hazards between streams, "));
}

TEST_P(TrainWdlReport, a_step_can_be_drawn) {
  auto const record = [&](std::string const& name) {
    auto const ended = train_wdl(small() + Words{"--steps", "2", "--step-trace", path(name)});
    EXPECT_EQ(ended.status, 0) << ended.err;
    return read_all(path(name));
  };
  record("step.json");
  EXPECT_GT(StepTrace::load(path("step.json")).operations().size(), 26U);
  EXPECT_THAT(record("step.svg"), HasSubstr("</svg>"));
  EXPECT_THAT(record("step.dot"), HasSubstr("digraph"));
}

/// The host launches too slowly for eager steps: one update for all tables of a group saves the
/// launches of the others.
TEST_P(TrainWdlReport, the_tables_of_a_group_are_updated_at_once) {
  auto const updates = [&](Words const& way) {
    auto const arguments = small() + Words{"--steps", "13", "--stream-groups", "3"} + way;
    EXPECT_EQ(train_wdl(arguments + Words{"--trace", path("trace.json")}).status, 0);
    auto const trace = nlohmann::json::parse(read_all(path("trace.json")));
    std::filesystem::remove(path("trace.json"));
    int count = 0;
    for (auto const& event : trace["traceEvents"]) {
      count += event.value("name", "").ends_with("update_rows") ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(updates({}), 3);
  EXPECT_EQ(updates({"--update-each-table"}), 52);
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainWdlReport, kRuntimes, name_of_runtime);

class TrainWdlFiles : public TrainWdlTest {};

TEST_F(TrainWdlFiles, are_never_half_written) {
  for (std::string const option : {"--report", "--trace"}) {
    auto const run = [&](RunOptions const& options) {
      return train_wdl(small() + Words{"--steps", "2", option, path("file")}, options);
    };
    ASSERT_EQ(run({}).status, 0);
    auto const before = read_all(path("file"));
    auto const ended = run({.most_file_bytes = 100});
    EXPECT_EQ(ended.status, 1) << option;
    EXPECT_THAT(ended.err, HasSubstr("File too large"));
    EXPECT_EQ(read_all(path("file")), before) << option;
    EXPECT_THAT(folder.names(), ElementsAre("file"));
  }
}

TEST_F(TrainWdlFiles, that_are_devices_are_written_to_and_stay) {
  auto const ended = train_wdl(small() + Words{"--steps", "1", "--report", "/dev/full"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("cannot write /dev/full: No space left on device\n"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  auto const shown = train_wdl(small() + Words{"--steps", "1", "--report", "/dev/stdout"});
  EXPECT_EQ(nlohmann::json::parse(shown.out)["losses"].size(), 1U);
}

TEST_F(TrainWdlFiles, all_others_are_written_when_one_fails) {
  for (std::string const failing : {"--report", "--trace", "--check-report"}) {
    Words arguments = small() + Words{"--steps", "2", "--check", "--save", path("save")};
    for (std::string const option : {"--report", "--trace", "--check-report"}) {
      arguments =
          arguments + Words{option, option == failing ? "/dev/full" : path(option.substr(2))};
    }
    auto const ended = train_wdl(arguments);
    EXPECT_EQ(ended.status, 1);
    EXPECT_EQ(
        ended.err,
        "train_wdl: error: " + failing + ": cannot write /dev/full: No space left on device\n");
    auto names = std::vector<std::string>{"check-report", "report", "save", "trace"};
    std::erase(names, failing.substr(2));
    EXPECT_EQ(folder.names(), names);
    for (auto const& name : names) {
      std::filesystem::remove(path(name));
    }
  }
}

TEST_F(TrainWdlFiles, that_are_inputs_are_not_written_over) {
  auto const data = folder.write("data.csv", "not read").string();
  std::filesystem::create_hard_link(data, path("hard"));
  std::filesystem::create_symlink("data.csv", path("link"));
  for (auto const& spelling : {data, path("./data.csv"), path("hard"), path("link")}) {
    for (std::string const option : {"--save", "--report", "--trace"}) {
      auto const ended = train_wdl({"--data", data, option, spelling});
      EXPECT_EQ(ended.status, 2);
      EXPECT_THAT(ended.err,
                  HasSubstr(fmt::format("{} {}: --data reads that file\n", option, spelling)));
    }
    auto const ended = train_wdl({"--resume", data, "--report", spelling});
    EXPECT_EQ(ended.status, 2);
    EXPECT_THAT(ended.err, HasSubstr(": --resume reads that file\n"));
  }
  EXPECT_EQ(read_all(data), "not read");
}

TEST_F(TrainWdlFiles, progress_goes_to_stderr_and_results_to_stdout) {
  auto const arguments = small() + Words{"--steps", "8"};
  auto const quiet = train_wdl(arguments);
  EXPECT_EQ(quiet.out, "");
  EXPECT_EQ(quiet.err, "");
  auto const talking = train_wdl(arguments + Words{"--quiet=false"});
  EXPECT_THAT(talking.out,
              ::testing::MatchesRegex(
                  "epoch 1: test AUC 0\\.[0-9]+, log loss 0\\.[0-9]+, [0-9,]+ rows/s\n"
                  "epoch 2: test AUC 0\\.[0-9]+, log loss 0\\.[0-9]+, [0-9,]+ rows/s\n"));
  EXPECT_THAT(talking.err,
              AllOf(HasSubstr("2400 rows to train, 600 to test; 26 branches on 4"),
                    HasSubstr("host runtime (no GPU is used)"),
                    HasSubstr("epoch 1/3")));
}

}  // namespace
}  // namespace msstream::testing
