// SPDX-License-Identifier: Apache-2.0
// Tests the forms of train_dlrm: a lookup for each table or one for all, and steps in two stages.
#include "training/step_program.hpp"

#include <msstream/step/step_trace.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

class TrainDlrmForms : public StepProgramTest {
 protected:
  TrainDlrmForms() : StepProgramTest(MSSTREAM_TRAIN_DLRM) {}

  /// Returns program options for 96 training rows, in six steps of 16 rows per epoch.
  [[nodiscard]] static Words small() {
    return {"--runtime",     runtime(), "--rows",   "120", "--max-rows", "50",
            "--max-hotness", "3",       "--batch",  "16",  "--epochs",   "2",
            "--dimension",   "4",       "--bottom", "8",   "--top",      "8,1",
            "--cross-rank",  "4",       "--steps",  "9",   "--quiet"};
  }
  static constexpr char const* kPrecisions[] = {"fp32", "bf16", "fp16"};
};

TEST_P(TrainDlrmForms, branches_learn_what_one_lookup_of_all_tables_learns) {
  for (std::string const interaction : {"cross", "dot"}) {
    for (std::string const precision : kPrecisions) {
      SCOPED_TRACE(interaction + " in " + precision);
      auto const model = small() + Words{"--interaction", interaction, "--precision", precision};
      auto const fused = report_of(model);
      auto const branches = report_of(model + Words{"--tables", "branches"});
      EXPECT_EQ(fused["options"]["tables"], "fused");
      EXPECT_EQ(branches["options"]["tables"], "branches");
      ASSERT_EQ(branches["losses"].size(), 9U);
      if (runtime() == "host") {
        EXPECT_EQ(branches["losses"], fused["losses"]) << "both add in the same order";
      }
      for (std::size_t i = 0; i < 9; ++i) {
        EXPECT_NEAR(branches["losses"][i].get<double>(),
                    fused["losses"][i].get<double>(),
                    precision == "fp32" ? 1e-5 : 5e-3)
            << "step " << i;
      }
    }
  }
}

TEST_P(TrainDlrmForms, branches_have_the_same_bits_however_issued) {
  for (Words const& more : {Words{"--precision", "fp32"},
                            Words{"--precision", "bf16"},
                            Words{"--precision", "fp16", "--half-tables"}}) {
    auto const model = small() + more + Words{"--tables", "branches"};
    auto const expected = results_of(model + Words{"--stream-groups", "1"});
    for (auto const& way : {Words{"--stream-groups", "4", "--launch-threads", "per_group"},
                            Words{"--stream-groups", "7", "--capture"},
                            Words{"--stream-groups", "7", "--update-each-table"}}) {
      EXPECT_EQ(results_of(model + way), expected) << ::testing::PrintToString(more + way);
    }
  }
}

TEST_P(TrainDlrmForms, stochastically_rounded_tables_have_the_same_bits_however_issued) {
  auto const half = small() + Words{"--precision", "bf16", "--half-tables", "--lr", "0.0001"};
  auto const rounded = half + Words{"--table-rounding", "stochastic"};
  for (std::string const tables : {"fused", "branches"}) {
    auto const model = rounded + Words{"--tables", tables};
    auto const expected = results_of(model + Words{"--stream-groups", "1"});
    for (auto const& way : {Words{"--stream-groups", "4", "--launch-threads", "per_group"},
                            Words{"--stream-groups", "7", "--capture"},
                            Words{"--stream-groups", "7", "--update-each-table"},
                            Words{"--two-stage", "exact", "--capture"}}) {
      EXPECT_EQ(results_of(model + way), expected) << ::testing::PrintToString(model + way);
    }
    auto const nearest = half + Words{"--tables", tables};
    EXPECT_NE(results_of(nearest), expected);
    EXPECT_EQ(results_of(nearest + Words{"--table-rounding", "nearest"}), results_of(nearest));
  }
  EXPECT_EQ(report_of(rounded)["options"]["table_rounding"], "stochastic");
  EXPECT_EQ(report_of(half)["options"]["table_rounding"], "nearest");
  expect_usage_error({"--table-rounding", "stochastic"}, "goes with --half-tables");
}

TEST_P(TrainDlrmForms, branches_are_a_lookup_for_each_table) {
  auto const operations = [&](std::string const& tables) {
    return report_of(small() + Words{"--tables", tables, "--waits"})["traced_step"]["operations"]
        .get<int>();
  };
  EXPECT_GT(operations("branches"), operations("fused") + 25);
}

TEST_P(TrainDlrmForms, work_on_rows_on_a_group_of_its_own_has_the_same_bits) {
  for (std::string const interaction : {"cross", "dot"}) {
    for (Words const& more : {Words{"--precision", "fp32"},
                              Words{"--precision", "bf16", "--half-tables"},
                              Words{"--precision", "fp16", "--reproducible", "any_rank_count"}}) {
      auto const model = small() + Words{"--interaction", interaction} + more;
      auto const expected = results_of(model + Words{"--stream-groups", "1"});
      for (auto const& way : {Words{"--stream-groups", "2"},
                              Words{"--stream-groups", "2", "--capture"},
                              Words{"--stream-groups", "4", "--launch-threads", "per_group"},
                              Words{"--stream-groups", "7", "--capture", "--update-each-table"}}) {
        EXPECT_EQ(results_of(model + way + Words{"--rows-beside"}), expected)
            << ::testing::PrintToString(model + way);
      }
    }
  }
  EXPECT_EQ(report_of(small() + Words{"--rows-beside"})["options"]["rows_beside"], true);
}

TEST_P(TrainDlrmForms, work_on_rows_waits_on_its_group_for_its_gradient_alone) {
  auto const ended = run(small() + Words{"--stream-groups", "3", "--precision", "bf16"} +
                         Words{"--rows-beside", "--step-trace", path("step.json")});
  ASSERT_EQ(ended.status, 0) << ended.err;
  auto const trace = StepTrace::load(path("step.json"));
  auto const& all = trace.operations();
  auto const is_of_rows = [](std::string const& name) {
    return name.find("tables/") != std::string::npos || name == "update_tables";
  };
  std::vector<std::string> grouping;
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].name);
    bool const is_bottom = all[i].name.find("bottom/") != std::string::npos;
    if (all[i].name != "advance_step") {
      EXPECT_EQ(trace.group_of(i), is_bottom ? 2 : is_of_rows(all[i].name) ? 1 : 0);
    }
    if (all[i].name.ends_with("tables/split")) {
      break;  // the first operation that needs the gradient of the joined features
    }
    if (all[i].name.starts_with("gradients/tables/")) {
      grouping.push_back(all[i].name);
    }
  }
  EXPECT_EQ(grouping,
            (std::vector<std::string>{"gradients/tables/embedding_tables_places",
                                      "gradients/tables/deduplicate"}));
  auto const update = std::find_if(
      all.begin(), all.end(), [](auto const& one) { return one.name == "update_tables"; });
  ASSERT_NE(update, all.end());
  for (auto const before : update->after) {
    EXPECT_EQ(all[before].name.find("weight_gradient"), std::string::npos);
  }
}

TEST_P(TrainDlrmForms, a_model_of_one_form_goes_on_in_the_other) {
  auto const first = Words{"--steps", "4", "--save", path("model")};
  ASSERT_EQ(run(small() + first).status, 0);
  auto const fused = report_of(small() + Words{"--resume", path("model")})["losses"];
  auto const branches =
      report_of(small() + Words{"--resume", path("model"), "--tables", "branches"})["losses"];
  ASSERT_EQ(branches.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(branches[i].get<double>(), fused[i].get<double>(), 1e-5);
  }
}

TEST_P(TrainDlrmForms, exact_steps_in_two_stages_have_the_bits_of_steps_in_turn) {
  for (std::string const tables : {"fused", "branches"}) {
    for (std::string const precision : kPrecisions) {
      auto const model = small() + Words{"--tables", tables, "--precision", precision};
      auto const expected = results_of(model + Words{"--stream-groups", "1"});
      for (auto const& way : {Words{"--stream-groups", "1"},
                              Words{"--stream-groups", "4", "--launch-threads", "per_group"},
                              Words{"--stream-groups", "7", "--capture"}}) {
        EXPECT_EQ(results_of(model + way + Words{"--two-stage", "exact"}), expected)
            << tables << " in " << precision << ' ' << ::testing::PrintToString(way);
      }
    }
  }
  auto const dot = small() + Words{"--interaction", "dot"};
  EXPECT_EQ(results_of(dot + Words{"--two-stage", "exact", "--capture"}), results_of(dot));
}

TEST_P(TrainDlrmForms, stale_steps_in_two_stages_see_rows_one_step_older) {
  for (std::string const tables : {"fused", "branches"}) {
    auto const model = small() + Words{"--tables", tables, "--lr", "0.1"};
    auto const in_turn = report_of(model)["losses"];
    auto const stale =
        report_of(model + Words{"--two-stage", "stale", "--stream-groups", "1"})["losses"];
    ASSERT_EQ(stale.size(), 9U);
    EXPECT_EQ(stale[0], in_turn[0]);
    EXPECT_NE(stale[1], in_turn[1]) << "the lookups of the second batch see the first update";
    for (std::size_t i = 0; i < 9; ++i) {
      EXPECT_NEAR(stale[i].get<double>(), in_turn[i].get<double>(), 0.3);
    }
    for (auto const& way : {Words{"--stream-groups", "4", "--launch-threads", "per_group"},
                            Words{"--stream-groups", "7", "--capture"}}) {
      EXPECT_EQ(report_of(model + way + Words{"--two-stage", "stale"})["losses"], stale)
          << tables << ::testing::PrintToString(way);
    }
  }
}

TEST_P(TrainDlrmForms, a_report_of_two_stages_says_how_they_were_issued) {
  for (bool const captured : {false, true}) {
    auto const report = report_of(small() + Words{"--two-stage", "exact"} +
                                  (captured ? Words{"--capture"} : Words{}));
    EXPECT_EQ(report["options"]["two_stage"], "exact");
    EXPECT_EQ(report["captured"], captured);
    EXPECT_FALSE(report.contains("waits_in_graph")) << "there are several graphs";
  }
  EXPECT_EQ(report_of(small())["options"]["two_stage"], "none");
}

TEST_P(TrainDlrmForms, exact_steps_in_two_stages_go_on_with_the_same_bits) {
  auto const staged = small() + Words{"--two-stage", "exact", "--capture"};
  auto const whole = report_of(small())["losses"];
  auto const first = report_of(staged + Words{"--steps", "4", "--save", path("model")});
  auto const second = report_of(staged + Words{"--resume", path("model")});
  auto joined = first["losses"];
  joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
  EXPECT_EQ(joined, whole);
}

TEST_P(TrainDlrmForms, that_do_not_go_together_are_refused) {
  for (auto const& [more, message] : std::vector<std::pair<Words, std::string>>{
           {{"--stream-groups", "1"}, "needs --stream-groups of 2 or more"},
           {{"--tables", "branches"}, "does not go with --tables branches"},
           {{"--parallel", "sharded"}, "does not go with --parallel sharded"},
           {{"--two-stage", "exact"}, "does not go with --two-stage"}}) {
    expect_usage_error(Words{"--rows-beside"} + more, "--rows-beside " + message);
  }
  expect_usage_error({"--tables", "branches", "--parallel", "sharded"},
                     "--tables branches does not go with --parallel sharded");
  expect_usage_error({"--tables", "branches", "--data", "clicks.tsv", "--multi-hot"},
                     "--tables branches does not go with --multi-hot");
  for (auto const& [more, message] : std::vector<std::pair<Words, std::string>>{
           {{"--ranks", "2"}, "batches in several parts"},
           {{"--parallel", "half_batches"}, "batches in several parts"},
           {{"--parallel", "sharded"}, "--parallel sharded"},
           {{"--precision", "fp16", "--find-overflow"}, "--find-overflow"},
           {{"--assignment", "auto"}, "--assignment auto"},
           {{"--waits"}, "--waits and --step-trace"},
           {{"--trace", path("trace.json"), "--capture"}, "--trace and --capture together"}}) {
    expect_usage_error(Words{"--two-stage", "exact"} + more,
                       "--two-stage does not go with " + message);
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainDlrmForms, kRuntimes, name_of_runtime);

}  // namespace
}  // namespace msstream::testing
