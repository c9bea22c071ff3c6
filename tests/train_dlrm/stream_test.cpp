// SPDX-License-Identifier: Apache-2.0
// Trains on rows that stay in their files.
#include "train_dlrm/click_rows.hpp"
#include "training/step_program.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TrainDlrmStream : public StepProgramTest {
 protected:
  TrainDlrmStream() : StepProgramTest(MSSTREAM_TRAIN_DLRM) {}

  /// Writes 120 rows, of which 96 are to train on, and returns options of a run on them.
  [[nodiscard]] Words on_rows(char const* name, int least = 1, int most = 1) const {
    write_tsv(path(name), click_rows(120, least, most));
    return on_clicks(path(name)) + Words{"--runtime", runtime()};
  }
  void expect_refused(Words const& arguments, int status, std::string const& message) const {
    auto const ended = run(arguments);
    EXPECT_EQ(ended.status, status) << ::testing::PrintToString(arguments);
    EXPECT_THAT(ended.err, HasSubstr(message));
  }
};

TEST_P(TrainDlrmStream, rows_of_one_window_train_with_the_bits_of_loaded_rows) {
  for (auto const& data : {on_rows("one.tsv"), on_rows("lists.tsv", 0, 5) + Words{"--multi-hot"}}) {
    auto const loaded = results_of(data);
    ASSERT_EQ(loaded[0].size(), 12U);
    EXPECT_EQ(results_of(data + Words{"--stream"}), loaded);
    EXPECT_EQ(results_of(data + Words{"--stream", "--capture", "--stream-groups", "7"}), loaded);
    EXPECT_NE(results_of(data + Words{"--stream", "--shuffle-rows", "32"}), loaded);
  }
}

TEST_P(TrainDlrmStream, the_order_depends_on_the_seed_and_the_window_alone) {
  auto const windows = on_rows("a.tsv") + Words{"--stream", "--shuffle-rows", "32"};
  auto const expected = results_of(windows);
  for (auto const& way : {Words{"--reader-threads", "1"},
                          Words{"--reader-threads", "7"},
                          Words{"--launch-threads", "per_group"},
                          Words{"--two-stage", "exact", "--capture"}}) {
    EXPECT_EQ(results_of(windows + way), expected) << ::testing::PrintToString(way);
  }
  EXPECT_EQ(results_of(windows + Words{"--reproducible", "any_rank_count"})[0].size(), 12U);
  auto const ordered = on_rows("a.tsv") + Words{"--stream", "--shuffle-rows", "0"};
  EXPECT_NE(results_of(ordered), expected);
}

TEST_P(TrainDlrmStream, several_files_are_one_data_set) {
  auto const rows = click_rows(120, 1, 1);
  write_tsv(path("all.tsv"), rows);
  write_tsv(path("day_0"), {rows.begin(), rows.begin() + 50});
  write_tsv(path("day_1"), {rows.begin() + 50, rows.begin() + 53});
  write_tsv(path("day_2"), {rows.begin() + 53, rows.end()});
  auto const days = path("day_0") + "," + path("day_1") + "," + path("day_2");
  for (auto const& way : {Words{}, Words{"--stream"}, Words{"--stream", "--shuffle-rows", "32"}}) {
    EXPECT_EQ(results_of(on_clicks(days) + way), results_of(on_clicks(path("all.tsv")) + way));
  }
}

TEST_P(TrainDlrmStream, goes_on_with_the_same_bits_in_the_middle_of_a_window) {
  for (auto const& way : {Words{}, Words{"--multi-hot"}}) {
    auto const loaded = on_rows("a.tsv", 1, way.empty() ? 1 : 5) + way;
    auto const data = loaded + Words{"--stream", "--shuffle-rows", "64"};
    auto const whole = report_of(data + Words{"--save", path("whole")});
    auto const first = report_of(data + Words{"--steps", "7", "--save", path("half")});
    auto const second =
        report_of(data + Words{"--resume", path("half"), "--save", path("second"), "--capture"});
    auto joined = first["losses"];
    joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
    EXPECT_EQ(joined, whole["losses"]);
    EXPECT_EQ(second["epochs"].back()["test_auc"], whole["epochs"].back()["test_auc"]);
    EXPECT_TRUE(read_all(path("second")) == read_all(path("whole"))) << "the saved models differ";
    expect_refused(data + Words{"--resume", path("half"), "--shuffle-rows", "32"},
                   1,
                   "the position is of windows of 64 rows to shuffle, the options of 32");
    expect_refused(loaded + Words{"--resume", path("half")},
                   1,
                   path("half") + ": was trained with --stream, this run is without it");
  }
  auto const loaded = on_rows("a.tsv");
  ASSERT_EQ(run(loaded + Words{"--steps", "7", "--save", path("loaded")}).status, 0);
  expect_refused(loaded + Words{"--stream", "--resume", path("loaded")},
                 1,
                 path("loaded") + ": was trained without --stream, this run is with it");
}

TEST_P(TrainDlrmStream, ranks_share_the_rows_of_the_files) {
  if (!has_devices_for(2)) {
    GTEST_SKIP() << "two ranks need two GPUs";
  }
  auto const data = on_rows("a.tsv") + Words{"--stream", "--shuffle-rows", "64"};
  auto const any = data + Words{"--reproducible", "any_rank_count"};
  EXPECT_EQ(report_of(any + Words{"--ranks", "2"})["losses"], report_of(any)["losses"]);
  EXPECT_EQ(report_of(data + Words{"--ranks", "2", "--parallel", "sharded"})["losses"].size(), 12U);
}

TEST_P(TrainDlrmStream, errors_of_files_end_the_program_by_their_place) {
  auto const data = on_rows("a.tsv") + Words{"--stream", "--shuffle-rows", "32"};
  ASSERT_EQ(run(data + Words{"--steps", "2", "--save", path("model")}).status, 0);
  // The run that resumes does not read the file before it trains. The file has as many bytes.
  auto lines = read_all(path("a.tsv"));
  auto const last = lines.rfind('\n', lines.size() - 2) + 1;
  lines[last] = 'x';
  { std::ofstream(path("a.tsv"), std::ios::binary) << lines; }
  expect_refused(data + Words{"--resume", path("model")},
                 1,
                 path("a.tsv") + ":120: column 1 (Label): expected 0 or 1, found 'x'");
  expect_refused(data, 1, path("a.tsv") + ":120: column 1 (Label)");
  { std::ofstream(path("empty")); }
  expect_refused(on_clicks(path("empty")) + Words{"--stream"}, 1, "found an empty file");
  write_tsv(path("few"), click_rows(10, 1, 1));
  expect_refused(on_clicks(path("few")) + Words{"--stream"}, 2, "8 rows to train on fill no batch");
  expect_refused(on_clicks("/dev/null") + Words{"--stream"}, 2, "/dev/null is no regular file");
}

TEST_P(TrainDlrmStream, all_files_are_opened_before_rows_are_read) {
  { std::ofstream(path("bad")) << "no row of clicks\n"; }
  for (auto const& way : {Words{}, Words{"--stream"}}) {
    auto const expect_files_refused = [&](std::string const& others, int status, auto const& why) {
      expect_refused(on_clicks(path("bad") + "," + others) + way, status, why);
    };
    expect_refused(on_clicks(path("bad")) + way, 1, path("bad") + ":1: cannot tell the format");
    expect_files_refused(path("none"), 1, path("none") + ": cannot open: ");
    expect_files_refused(path("."), 1, path(".") + ": expected a file, found a folder");
    for (auto const& names : {std::string(), "," + path("none")}) {
      expect_files_refused(names,
                           2,
                           "--data " + path("bad") + "," + names +
                               ": expected a file, or several with a comma between two, found an "
                               "empty name");
    }
  }
}

TEST_P(TrainDlrmStream, rows_that_are_added_meanwhile_are_noticed_in_the_last_epoch) {
  write_tsv(path("all"), click_rows(192, 1, 1));
  write_tsv(path("rows"), click_rows(128, 1, 1));
  write_tsv(path("one more"), click_rows(129, 1, 1));
  auto const all = read_all(path("all"));
  // Blank lines are no rows, so that the files have as many bytes.
  auto const write_filled = [&](std::string text) {
    ASSERT_TRUE(all.starts_with(text));
    text.resize(all.size(), '\n');
    std::ofstream(path("a.tsv"), std::ios::binary) << text;
  };
  auto const data = on_clicks(path("a.tsv")) + Words{"--runtime",
                                                     runtime(),
                                                     "--epochs",
                                                     "1",
                                                     "--holdout",
                                                     "0",
                                                     "--stream",
                                                     "--shuffle-rows",
                                                     "64"};
  write_filled(read_all(path("rows")));
  ASSERT_EQ(run(data + Words{"--steps", "2", "--save", path("model")}).status, 0);
  auto const rest = data + Words{"--resume", path("model"), "--save", path("end")};
  write_filled(read_all(path("one more")));
  expect_refused(rest, 1, path("a.tsv") + ": the data has 129 rows, and had 128");
  write_filled(all);
  expect_refused(rest, 1, path("a.tsv") + ": the data has more rows than when they were counted");
  EXPECT_FALSE(std::filesystem::exists(path("end"))) << "a model of other rows is saved";
  EXPECT_EQ(report_of(rest + Words{"--steps", "7"})["losses"].size(), 5U);
}

TEST_P(TrainDlrmStream, options_that_need_files_are_refused_without) {
  expect_refused({"--stream"}, 2, "--stream describes a file: give --data");
  for (std::string const rows : {"64", "262144"}) {
    expect_refused(on_rows("a.tsv") + Words{"--shuffle-rows", rows}, 2, "goes with --stream");
  }
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainDlrmStream, kRuntimes, name_of_runtime);

}  // namespace
}  // namespace msstream::testing
