// SPDX-License-Identifier: Apache-2.0
#include "training/step_program.hpp"

#include <fmt/core.h>

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

TEST_P(TrainDlrm, losses_with_fp8_products_are_near_those_of_float32) {
  // The layers have the 16 inputs and outputs from which products are of 8-bit floats.
  auto const wide = [](Words const& more) {
    return Words{"--runtime",     runtime(), "--rows",   "120", "--max-rows", "50",
                 "--max-hotness", "3",       "--batch",  "16",  "--epochs",   "2",
                 "--dimension",   "16",      "--bottom", "32",  "--top",      "32,16,1",
                 "--cross-rank",  "4",       "--steps",  "8",   "--quiet"} +
           more;
  };
  auto const exact = report_of(wide({}))["losses"];
  for (char const* const precision : {"fp32", "bf16", "fp16"}) {
    Words const more{"--precision", precision};
    auto const fp8 = wide(more + Words{"--fp8-products"});
    auto const losses = report_of(fp8)["losses"];
    ASSERT_EQ(losses.size(), exact.size());
    EXPECT_NE(losses, report_of(wide(more))["losses"]) << "the products were not of 8-bit floats";
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i].get<double>(), exact[i].get<double>(), 0.05) << precision << i;
    }
    expect_same_bits_however_issued(fp8);
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
  std::vector<Words> ways = {
      Words{"--precision", "fp32", "--interaction", "dot"},
      Words{"--precision", "bf16"},
      Words{"--precision", "bf16", "--half-tables"},
      Words{"--precision", "bf16", "--half-tables"} + Words{"--table-rounding", "stochastic"},
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
  auto const half = small() + Words{"--precision", "bf16", "--half-tables", "--steps", "3"};
  ASSERT_EQ(run(half + Words{"--table-rounding", "stochastic", "--save", model}).status, 0);
  auto const rounded = run(half + Words{"--resume", model});
  EXPECT_EQ(rounded.status, 1);
  EXPECT_THAT(rounded.err,
              ::testing::HasSubstr("was trained with half_tables = true, rounded stochastically, "
                                   "this run has true"));
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
  for (char const* const scale : {"0", "-8", "nan", "1e40", "many", "8x"}) {
    expect_refused(small() + Words{"--precision", "fp16", "--loss-scale", scale},
                   fmt::format("--loss-scale {}: expected dynamic, or a number", scale));
  }
  expect_refused(small() + Words{"--loss-scale", "8"}, "--loss-scale goes with --precision fp16");
  expect_refused(small() + Words{"--precision", "bf16", "--find-overflow"},
                 "--find-overflow goes with --precision fp16");
}

TEST_P(TrainDlrm, float16_trains_on_ranks_and_in_parts_of_batches) {
  if (!has_devices_for(2)) {
    GTEST_SKIP() << "two ranks need two GPUs";
  }
  auto const model = small() + Words{"--precision", "fp16"};
  auto const alone = report_of(model);
  for (auto const& parts :
       {Words{"--ranks", "2"},
        Words{"--parallel", "half_batches"},
        Words{"--ranks", "2", "--parallel", "half_batches"},
        Words{"--reproducible", "any_rank_count"},
        Words{"--ranks", "2", "--parallel", "sharded"},
        Words{"--ranks", "2", "--parallel", "sharded", "--lookahead", "rows"}}) {
    SCOPED_TRACE(::testing::PrintToString(parts));
    auto const found = report_of(model + parts);
    ASSERT_EQ(found["losses"].size(), 8U);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_NEAR(found["losses"][i].get<double>(), alone["losses"][i].get<double>(), 0.01) << i;
    }
    EXPECT_EQ(found["loss_scale"], 65'536);
    EXPECT_EQ(found["skipped_steps"], 0);
    EXPECT_EQ(report_of(model + parts)["losses"], found["losses"]);
    EXPECT_EQ(report_of(model + parts + Words{"--capture"})["losses"], found["losses"]);
  }
  auto const any = model + Words{"--reproducible", "any_rank_count"};
  EXPECT_EQ(report_of(any + Words{"--ranks", "2"})["losses"], report_of(any)["losses"]);
}

TEST_P(TrainDlrm, a_static_scale_stays_and_skips_what_overflows) {
  auto const model = small() + Words{"--precision", "fp16", "--loss-scale"};
  auto const good = report_of(model + Words{"1024"});
  EXPECT_EQ(good["options"]["loss_scale"], "1024");
  EXPECT_EQ(good["loss_scale"], 1024);
  EXPECT_EQ(good["skipped_steps"], 0);
  EXPECT_NE(good["losses"].front(), good["losses"].back());

  auto const half = Words{"--steps", "3", "--save", path("half")};
  auto const first = report_of(model + Words{"1e12"} + half);
  EXPECT_EQ(first["skipped_steps"], 3);
  EXPECT_EQ(first["loss_scale"], 1e12F);
  auto const second = report_of(model + Words{"1e12", "--resume", path("half")});
  EXPECT_EQ(second["skipped_steps"], 8) << "those before the resumption count";
  auto const mended = report_of(model + Words{"1024", "--resume", path("half")});
  EXPECT_EQ(mended["loss_scale"], 1024) << "the scale of the options, not of the file";
  EXPECT_EQ(mended["skipped_steps"], 3);
  if (has_devices_for(2)) {
    EXPECT_EQ(report_of(model + Words{"1e12", "--ranks", "2"})["skipped_steps"], 8);
  }
}

TEST_P(TrainDlrm, the_first_overflow_is_found_by_its_layer) {
  auto const model = small() + Words{"--precision", "fp16", "--loss-scale"};
  for (auto const& way : {Words{}, Words{"--capture", "--stream-groups", "4"}}) {
    auto const unsearched = report_of(model + Words{"1e12"} + way);
    auto const report = report_of(model + Words{"1e12", "--find-overflow"} + way);
    EXPECT_EQ(report["losses"], unsearched["losses"]);
    EXPECT_EQ(report["skipped_steps"], unsearched["skipped_steps"]);
    auto const& found = report["first_overflow"];
    EXPECT_THAT(found["layer"].get<std::string>(), ::testing::HasSubstr("top"));
    EXPECT_EQ(found["phase"], "backward");
    EXPECT_THAT(found["what"].get<std::string>(),
                ::testing::HasSubstr("made a NaN or an infinity"));
    EXPECT_FALSE(found.contains("rank"));
    EXPECT_FALSE(unsearched.contains("first_overflow"));
  }
  auto const good = report_of(model + Words{"1024", "--find-overflow"});
  ASSERT_TRUE(good.contains("first_overflow"));
  EXPECT_TRUE(good["first_overflow"].is_null());
  EXPECT_THAT(run(model + Words{"1e12", "--find-overflow", "--quiet=false"}).out,
              ::testing::HasSubstr("first overflow: backward of "));
  EXPECT_THAT(run(model + Words{"1024", "--find-overflow", "--quiet=false"}).out,
              ::testing::HasSubstr("no overflow in any layer\n"));
  // Steps that overflow forward have no finite losses. Many in a row end the training.
  auto const ended = run(model + Words{"1024", "--find-overflow", "--optimizer", "sgd", "--lr"} +
                         Words{"1e6", "--epochs", "4", "--steps", "24", "--report", path("end")});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err,
              ::testing::HasSubstr("training diverged: the losses of 16 steps in a row overflow"));
  EXPECT_THAT(ended.err, ::testing::HasSubstr("first overflow: forward of "));
  auto const last = nlohmann::json::parse(read_all(path("end")));
  EXPECT_EQ(last["first_overflow"]["phase"], "forward");
  EXPECT_EQ(last["options"]["precision"], "fp16");
  EXPECT_TRUE(last["losses"].back().is_null()) << last["losses"];
  EXPECT_GE(last["skipped_steps"], 16);
  EXPECT_THAT(last["diverged"].get<std::string>(), ::testing::HasSubstr("in float16"));
  if (has_devices_for(2)) {
    auto const ranks = report_of(model + Words{"1e12", "--find-overflow", "--ranks", "2"});
    EXPECT_EQ(ranks["first_overflow"]["rank"], 0);
  }
}

TEST_P(TrainDlrm, tf32_products_have_the_same_bits_however_a_step_is_issued) {
  auto const model = small() + Words{"--tf32"};
  auto const expected = results_of(model + Words{"--stream-groups", "1"});
  for (auto const& way : {Words{"--stream-groups", "4", "--launch-threads", "per_group"},
                          Words{"--stream-groups", "7", "--capture"},
                          Words{"--two-stage", "exact"},
                          Words{"--stream-groups", "3", "--update-each-table"}}) {
    EXPECT_EQ(results_of(model + way), expected) << ::testing::PrintToString(way);
  }
  if (runtime() == "host") {
    EXPECT_EQ(expected, results_of(small())) << "the host has no tensor cores";
  }
}

TEST_P(TrainDlrm, scores_that_overflow_in_float16_leave_the_test_without_metrics) {
  auto const growing = small() + Words{"--optimizer", "sgd", "--lr", "1e6"};
  auto const ended = run(growing + Words{"--precision", "fp16", "--report", path("end")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, ::testing::HasSubstr("warning: no test metric, because float16 "));
  auto const report = nlohmann::json::parse(read_all(path("end")));
  EXPECT_EQ(report["losses"].size(), 8U);
  EXPECT_TRUE(report["losses"].back().is_null()) << report["losses"];
  EXPECT_TRUE(report["epochs"].back()["test_auc"].is_null());
  // Without a loss scale, the first such loss ends the training.
  auto const diverged = run(growing + Words{"--report", path("diverged")});
  EXPECT_EQ(diverged.status, 1);
  EXPECT_THAT(diverged.err, ::testing::HasSubstr("training diverged: the loss of step "));
  EXPECT_TRUE(nlohmann::json::parse(read_all(path("diverged"))).contains("diverged"));
}

TEST_P(TrainDlrm, warns_of_a_scale_that_skips_every_step) {
  auto model = small() + Words{"--precision", "fp16", "--loss-scale"};
  EXPECT_THAT(run(model + Words{"1e30"}).err, ::testing::IsEmpty()) << "--quiet";
  std::erase(model, "--quiet");
  auto const skipped = run(model + Words{"1e30"});
  EXPECT_EQ(skipped.status, 0);
  EXPECT_THAT(skipped.err, ::testing::HasSubstr("warning: 8 of 8 steps were skipped"));
  EXPECT_THAT(run(model + Words{"1024"}).err, ::testing::Not(::testing::HasSubstr("warning")));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainDlrm, kRuntimes, name_of_runtime);

}  // namespace
}  // namespace msstream::testing
