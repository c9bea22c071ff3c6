// SPDX-License-Identifier: Apache-2.0
#include "base/many.hpp"
#include "datasets/data_files.hpp"
#include "train_wdl/program.hpp"

#include <fmt/core.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

class TrainWdlPrecision : public TrainWdlTest {
 protected:
  static constexpr char const* kPrecisions[] = {"fp32", "tf32", "bf16", "fp16"};

  /// Returns the options of a precision; tf32 is that of the products of a float32 model.
  [[nodiscard]] static Words options_of(std::string const& precision) {
    return precision == "tf32" ? Words{"--tf32"} : Words{"--precision", precision};
  }
};

TEST_P(TrainWdlPrecision, losses_of_each_have_the_same_bits_however_a_step_is_issued) {
  OneOf chosen(5);
  for (std::string const precision : kPrecisions) {
    auto const arguments = small() + Words{"--steps", "8"} + options_of(precision);
    auto const expected = report_of(arguments + Words{"--stream-groups", "1"});
    EXPECT_EQ(expected["options"]["precision"], precision == "tf32" ? "fp32" : precision);
    EXPECT_EQ(expected["options"]["tf32"], precision == "tf32");
    ASSERT_EQ(expected["losses"].size(), 8U);
    for (std::string const groups : {"1", "3", "8"}) {
      for (auto const& issued : {Words{},
                                 Words{"--launch-threads", "per_group"},
                                 Words{"--capture"},
                                 Words{"--update-each-table"}}) {
        if (!chosen.next()) {
          continue;
        }
        auto const way = Words{"--stream-groups", groups} + issued;
        auto const found = report_of(arguments + way);
        EXPECT_EQ(found["losses"], expected["losses"])
            << precision << ' ' << ::testing::PrintToString(way);
        EXPECT_EQ(found["epochs"].back()["test_auc"], expected["epochs"].back()["test_auc"]);
      }
    }
  }
}

TEST_P(TrainWdlPrecision, losses_of_half_precision_are_near_those_of_float32_and_differ) {
  auto const model = small() + Words{"--optimizer", "sgd", "--lr", "0.5", "--steps", "8"};
  auto const exact = report_of(model)["losses"];
  auto const untrained = report_of(model + Words{"--lr", "0"})["losses"];
  EXPECT_GT(untrained.back().get<double>() - exact.back().get<double>(), 0.04)
      << "too little is learnt to compare";
  for (std::string const precision : {"bf16", "fp16"}) {
    auto const report = report_of(model + Words{"--precision", precision});
    EXPECT_EQ(report.contains("loss_scale"), precision == "fp16");
    EXPECT_EQ(report.contains("skipped_steps"), precision == "fp16");
    auto const& losses = report["losses"];
    ASSERT_EQ(losses.size(), exact.size());
    EXPECT_NE(losses, exact) << "the layers were not computed in half precision";
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i].get<double>(), exact[i].get<double>(), 0.002) << precision << i;
    }
  }
}

TEST_P(TrainWdlPrecision, a_resumed_run_goes_on_with_the_same_bits) {
  for (std::string const precision : {"bf16", "fp16"}) {
    auto const arguments = small() + Words{"--precision", precision};
    auto const whole = report_of(arguments + Words{"--steps", "12"});
    auto const first = report_of(arguments + Words{"--steps", "5", "--save", path("half")});
    auto const second =
        report_of(arguments + Words{"--steps", "12", "--resume", path("half"), "--capture"});
    auto joined = first["losses"];
    joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
    EXPECT_EQ(joined, whole["losses"]) << precision;
    auto const other = train_wdl(small() + Words{"--resume", path("half")});
    EXPECT_EQ(other.status, 1);
    EXPECT_THAT(
        other.err,
        ::testing::HasSubstr("was trained with precision = " + precision + ", this run has fp32"));
  }
}

/// The last batch of an epoch has rows for some of the ranks alone.
TEST_P(TrainWdlPrecision, float16_trains_on_ranks_also_on_one_without_rows) {
  if (!has_devices_for(4)) {
    GTEST_SKIP() << "four ranks need four GPUs";
  }
  // A scale that does not overflow in a batch of one row, whose gradients are large.
  auto const uneven = small() + Words{"--rows", "1252", "--batch", "500"} +
                      Words{"--precision", "fp16", "--loss-scale", "256"};
  auto const alone = report_of(uneven);
  for (auto const& parts : {Words{"--ranks", "4"},
                            Words{"--ranks", "2", "--parallel", "half_batches"},
                            Words{"--ranks", "4", "--parallel", "sharded"}}) {
    SCOPED_TRACE(::testing::PrintToString(parts));
    auto const found = report_of(uneven + parts);
    ASSERT_EQ(found["losses"].size(), alone["losses"].size());
    for (std::size_t i = 0; i < alone["losses"].size(); ++i) {
      EXPECT_NEAR(found["losses"][i].get<double>(), alone["losses"][i].get<double>(), 0.002) << i;
    }
    EXPECT_EQ(found["loss_scale"], alone["loss_scale"]);
    EXPECT_EQ(found["skipped_steps"], alone["skipped_steps"]);
    EXPECT_EQ(report_of(uneven + parts + Words{"--capture"})["losses"], found["losses"]);
  }
}

TEST_P(TrainWdlPrecision, a_training_that_diverges_leaves_a_report) {
  auto const ended = train_wdl(small() + Words{"--lr", "1e6", "--optimizer", "sgd", "--layers"} +
                               Words{"16", "--report", path("end.json")});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, ::testing::HasSubstr("training diverged: the loss of step "));
  auto const report = nlohmann::json::parse(read_all(path("end.json")));
  EXPECT_THAT(report["diverged"].get<std::string>(), ::testing::HasSubstr("the loss of step "));
  EXPECT_EQ(report["options"]["optimizer"], "sgd");
  EXPECT_TRUE(report["losses"].back().is_null()) << report["losses"];
}

TEST_P(TrainWdlPrecision, an_overflow_skips_the_step_and_is_found_by_its_layer) {
  auto const model = small() + Words{"--steps", "6", "--precision", "fp16", "--loss-scale"};
  auto const report = report_of(model + Words{"1e12", "--find-overflow", "--save", path("model")});
  EXPECT_EQ(report["skipped_steps"], 6);
  EXPECT_EQ(report["first_overflow"]["phase"], "backward");
  EXPECT_THAT(report["first_overflow"]["layer"].get<std::string>(), ::testing::HasSubstr("mlp"));
  EXPECT_EQ(report_of(model + Words{"1e12", "--capture"})["losses"], report["losses"]);
  auto const resumed = report_of(model + Words{"512", "--steps", "9", "--resume", path("model")});
  EXPECT_EQ(resumed["skipped_steps"], 6);
  EXPECT_EQ(resumed["loss_scale"], 512);
  EXPECT_THAT(train_wdl(model + Words{"1e12", "--find-overflow", "--quiet=false"}).out,
              ::testing::HasSubstr("first overflow: backward of "));
  EXPECT_TRUE(report_of(model + Words{"512", "--find-overflow"})["first_overflow"].is_null());
  auto const refused = train_wdl(small() + Words{"--find-overflow"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, ::testing::HasSubstr("--find-overflow goes with --precision fp16"));
}

TEST_P(TrainWdlPrecision, the_census_is_learnt_to_the_auc_of_float32_in_each) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "minutes long under a sanitizer, and other tests reach the same code";
#endif
  if (!at_night()) {
    GTEST_SKIP() << "half a minute long: MSSTREAM_TEST_ALL=1 asks for it";
  }
  auto const file = test_data("census_income_kdd.csv.gz");
  if (!std::filesystem::exists(file)) {
    GTEST_SKIP() << "no " << file;
  }
  constexpr double kMostDifference = 0.0005;
  constexpr std::size_t kSteps = 40;  // of the runs that compare bits
  double auc_of_float32 = 0;
  for (std::string const precision : kPrecisions) {
    SCOPED_TRACE(precision);
    Words const arguments = {"--runtime", runtime(), "--quiet", "--batch", "512"};
    auto const of = arguments + options_of(precision) + Words{"--data", file.string()};
    auto const whole = report_of(of + Words{"--epochs", "2", "--stream-groups", "4"});
    auto const auc = whole["epochs"].back()["test_auc"].get<double>();
    if (precision == "fp32") {
      auc_of_float32 = auc;
      EXPECT_GE(auc, 0.940);
    }
    EXPECT_NEAR(auc, auc_of_float32, kMostDifference);
    RecordProperty("test_auc_" + precision, fmt::format("{}", auc));
    auto const& losses = whole["losses"];
    ASSERT_GT(losses.size(), kSteps);
    nlohmann::json const first(std::vector<nlohmann::json>(
        losses.begin(), losses.begin() + static_cast<std::ptrdiff_t>(kSteps)));
    for (auto const& way :
         {Words{"--stream-groups", "1"},
          Words{"--stream-groups", "7", "--launch-threads", "per_group", "--capture"}}) {
      auto const some = report_of(of + way + Words{"--steps", std::to_string(kSteps)});
      EXPECT_EQ(some["losses"], first) << ::testing::PrintToString(way);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainWdlPrecision, kRuntimes, name_of_runtime);

}  // namespace
}  // namespace msstream::testing
