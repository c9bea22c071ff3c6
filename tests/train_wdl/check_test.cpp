// SPDX-License-Identifier: Apache-2.0
#include "../../examples/train_wdl/check_summary.hpp"
#include "base/many.hpp"
#include "train_wdl/program.hpp"

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class TrainWdlCheck : public TrainWdlTest {
 protected:
  [[nodiscard]] static nlohmann::json losses_and_tests(nlohmann::json const& report) {
    auto results = nlohmann::json::array({report["losses"]});
    for (auto const& epoch : report["epochs"]) {
      results.push_back({epoch["test_auc"], epoch["test_logloss"]});
    }
    return results;
  }
};

TEST_P(TrainWdlCheck, finds_nothing_and_changes_no_bit_in_any_way_of_running) {
  auto const arguments = small() + Words{"--steps", "8"};
  auto const expected = losses_and_tests(report_of(arguments));
  ASSERT_EQ(expected[0].size(), 8U);
  OneOf chosen(5);
  for (std::string const groups : {"1", "2", "4", "8"}) {
    for (auto const& merging : {Words{}, Words{"--merge-streams"}}) {
      for (auto const& waits : {Words{}, Words{"--no-reduce-waits"}}) {
        for (std::string const threads : {"none", "shared", "per_group"}) {
          if (!chosen.next()) {
            continue;
          }
          auto const way =
              Words{"--check", "--stream-groups", groups, "--launch-threads", threads} + merging +
              waits;
          auto const report = report_of(arguments + way);
          EXPECT_EQ(losses_and_tests(report), expected) << ::testing::PrintToString(way);
          EXPECT_EQ(report["check"]["findings"], 0) << report["check"];
        }
      }
    }
  }
}

TEST_P(TrainWdlCheck, covers_saving_resuming_and_tracing) {
  auto const train = [&](std::string const& steps, Words const& more) {
    auto const ended = train_wdl(small() + Words{"--check", "--steps", steps} + more);
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
  };
  train("4", {"--save", path("model"), "--trace", path("trace.json")});
  train("8", {"--resume", path("model"), "--save", path("model")});
}

TEST_P(TrainWdlCheck, ends_with_a_line_of_what_was_checked) {
  auto const ended = train_wdl(small() + Words{"--check", "--steps", "2", "--quiet=false"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out,
              MatchesRegex("epoch 1: [^\n]*\ncheck: [1-9][0-9]* operations, no findings\n"));
}

TEST_P(TrainWdlCheck, writes_the_findings_as_json_of_a_run_that_failed_too) {
  Words const checked = {"--check", "--check-report", path("found.json")};
  auto const reports = [&] {
    return nlohmann::json::parse(read_all(path("found.json"))).at("reports");
  };
  EXPECT_EQ(train_wdl(small() + checked + Words{"--steps", "2"}).status, 0);
  EXPECT_TRUE(reports().is_array());
  EXPECT_TRUE(reports().empty());
  EXPECT_THAT(folder.names(), ElementsAre("found.json"));
  std::filesystem::remove(path("found.json"));

  auto const diverged =
      train_wdl(small() + checked + Words{"--lr", "1e6", "--optimizer", "sgd", "--layers", "16"});
  EXPECT_EQ(diverged.status, 1);
  EXPECT_THAT(diverged.err, HasSubstr("training diverged"));
  EXPECT_TRUE(reports().empty()) << reports();
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainWdlCheck, kRuntimes, name_of_runtime);

TEST(TrainWdlCheckSummary, names_what_was_found_by_kind_and_refuses_it) {
  Checker checker({.mode = CheckMode::count, .report_path = ""});
  auto const report = [&] {
    return nlohmann::ordered_json{{"operations", 12}, {"check", train_wdl::findings_of(checker)}};
  };
  EXPECT_EQ(train_wdl::summary_line(report()), "check: 12 operations, no findings");
  EXPECT_NO_THROW(train_wdl::require_no_findings(report()));

  checker.event_created(1);
  EXPECT_TRUE(checker.waitable_moment_of(1, 7).has_value());  // the event was never recorded
  EXPECT_EQ(train_wdl::summary_line(report()),
            "check: 12 operations, 1 finding: 1 unrecorded wait");
  EXPECT_TRUE(checker.waitable_moment_of(1, 7).has_value());
  checker.event_destroyed(1);
  EXPECT_FALSE(checker.waitable_moment_of(1, 7).has_value());
  auto const line = "check: 12 operations, 3 findings: 2 unrecorded wait, 1 dead event";
  EXPECT_EQ(train_wdl::summary_line(report()), line);
  EXPECT_THAT([&] { train_wdl::require_no_findings(report()); },
              ::testing::ThrowsMessage<std::runtime_error>(::testing::StrEq(line)));
}

}  // namespace
}  // namespace msstream::testing
