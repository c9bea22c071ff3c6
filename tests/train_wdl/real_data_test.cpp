// SPDX-License-Identifier: Apache-2.0
#include "base/many.hpp"
#include "datasets/data_files.hpp"
#include "train_wdl/program.hpp"

namespace msstream::testing {
namespace {

class TrainWdlRealData : public TrainWdlTest {
 protected:
  /// Returns the reason why the data file is not available, or an empty string if it is.
  [[nodiscard]] static std::string missing(std::string_view name) {
    auto const file = test_data(name);
    return std::filesystem::exists(file) ? "" : "no " + file.string();
  }
};

TEST_P(TrainWdlRealData, the_census_is_learnt_to_an_auc_of_94) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "minutes long under a sanitizer, and other tests reach the same code";
#endif
  if (auto const why = missing("census_income_kdd.csv.gz"); !why.empty()) {
    GTEST_SKIP() << why;
  }
  auto const report = report_of({"--runtime",
                                 runtime(),
                                 "--quiet",
                                 "--epochs",
                                 "3",
                                 "--batch",
                                 "512",
                                 "--data",
                                 test_data("census_income_kdd.csv.gz").string()});
  ASSERT_EQ(report["epochs"].size(), 3U);
  EXPECT_GE(report["epochs"].back()["test_auc"].get<double>(), 0.940);
}

TEST_P(TrainWdlRealData, a_checked_epoch_of_the_census_has_the_same_bits) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "minutes long under a sanitizer, and other tests reach the same code";
#endif
  if (!at_night()) {
    GTEST_SKIP() << "seconds long: MSSTREAM_TEST_ALL=1 asks for it";
  }
  if (auto const why = missing("census_income_kdd.csv.gz"); !why.empty()) {
    GTEST_SKIP() << why;
  }
  Words const plain = {"--runtime",
                       runtime(),
                       "--quiet",
                       "--epochs",
                       "1",
                       "--data",
                       test_data("census_income_kdd.csv.gz").string()};
  auto const unchecked = report_of(plain);
  auto const checked = report_of(plain + Words{"--check"});
  EXPECT_EQ(checked["check"]["findings"], 0) << checked["check"];
  EXPECT_EQ(checked["losses"], unchecked["losses"]);
  EXPECT_EQ(checked["epochs"][0]["test_auc"], unchecked["epochs"][0]["test_auc"]);
}

TEST_P(TrainWdlRealData, criteo_rows_train) {
  if (auto const why = missing("criteo_tiny.csv"); !why.empty()) {
    GTEST_SKIP() << why;
  }
  auto const report = report_of({"--runtime",
                                 runtime(),
                                 "--quiet",
                                 "--steps",
                                 "6",
                                 "--batch",
                                 "16",
                                 "--data",
                                 test_data("criteo_tiny.csv").string()});
  ASSERT_EQ(report["losses"].size(), 6U);
  for (auto const& loss : report["losses"]) {
    EXPECT_TRUE(loss.is_number() && loss > 0 && loss < 5) << loss;
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainWdlRealData, kRuntimes, name_of_runtime);

}  // namespace
}  // namespace msstream::testing
