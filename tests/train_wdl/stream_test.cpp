// SPDX-License-Identifier: Apache-2.0
// Trains on rows that stay in their files.
#include "train_dlrm/click_rows.hpp"
#include "train_wdl/program.hpp"

namespace msstream::testing {
namespace {

class TrainWdlStream : public TrainWdlTest {
 protected:
  /// Writes 120 rows, of which 96 are to train on, and returns options of a run on them, in four
  /// batches an epoch, of which the last one is smaller.
  [[nodiscard]] Words on_rows() const {
    write_tsv(path("a.tsv"), click_rows(120, 1, 1));
    return small() + Words{"--data", path("a.tsv"), "--batch", "30", "--buckets", "0"};
  }
  [[nodiscard]] static nlohmann::json results_of(nlohmann::json const& report) {
    auto results = nlohmann::json::array({report["losses"]});
    for (auto const& epoch : report["epochs"]) {
      results.push_back({epoch["test_auc"], epoch["test_logloss"]});
    }
    return results;
  }
};

TEST_P(TrainWdlStream, rows_of_one_window_train_with_the_bits_of_loaded_rows) {
  auto const data = on_rows();
  auto const loaded = results_of(report_of(data));
  ASSERT_EQ(loaded[0].size(), 12U);
  EXPECT_EQ(results_of(report_of(data + Words{"--stream"})), loaded);
  EXPECT_EQ(results_of(report_of(data + Words{"--stream", "--capture"})), loaded);
  EXPECT_NE(results_of(report_of(data + Words{"--stream", "--shuffle-rows", "30"})), loaded);
}

TEST_P(TrainWdlStream, goes_on_with_the_same_bits_in_the_middle_of_a_window) {
  auto const data = on_rows() + Words{"--stream", "--shuffle-rows", "60"};
  auto const whole = report_of(data + Words{"--save", path("whole")});
  auto const first = report_of(data + Words{"--steps", "5", "--save", path("half")});
  auto const second = report_of(data + Words{"--resume", path("half"), "--save", path("second")});
  auto joined = first["losses"];
  joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
  EXPECT_EQ(joined, whole["losses"]);
  EXPECT_TRUE(read_all(path("second")) == read_all(path("whole"))) << "the saved models differ";
}

TEST_P(TrainWdlStream, needs_files) {
  auto const ended = train_wdl(small() + Words{"--stream"});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, ::testing::HasSubstr("--stream describes a file: give --data"));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainWdlStream, kRuntimes, name_of_runtime);

}  // namespace
}  // namespace msstream::testing
