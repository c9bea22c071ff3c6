// SPDX-License-Identifier: Apache-2.0
#include "train_dlrm/click_rows.hpp"
#include "training/step_program.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

/// Runs train_dlrm on files whose fields hold lists of words.
class TrainDlrmLists : public StepProgramTest {
 protected:
  TrainDlrmLists() : StepProgramTest(MSSTREAM_TRAIN_DLRM) {}

  /// Writes rows to a file of this name, and returns the options of a run on it.
  [[nodiscard]] Words on(std::string const& name, std::vector<ClickRow> const& rows) const {
    write_tsv(path(name), rows);
    return on_clicks(path(name)) + Words{"--runtime", runtime()};
  }
  void expect_refused(Words const& arguments, int status, std::string const& message) const {
    auto const ended = run(arguments);
    EXPECT_EQ(ended.status, status) << ::testing::PrintToString(arguments);
    EXPECT_THAT(ended.err, ::testing::HasSubstr(message));
  }
};

TEST_P(TrainDlrmLists, of_one_word_have_the_bits_of_words) {
  auto const words = on("one.tsv", click_rows(120, 1, 1));
  for (char const* const precision : {"fp32", "bf16"}) {
    auto const arguments = words + Words{"--precision", precision};
    auto const expected = results_of(arguments);
    ASSERT_EQ(expected[0].size(), 12U);
    EXPECT_EQ(results_of(arguments + Words{"--multi-hot"}), expected) << precision;
  }
}

TEST_P(TrainDlrmLists, have_the_same_bits_however_a_step_is_issued) {
  auto const lists = on("many.tsv", click_rows(120, 0, 5)) + Words{"--multi-hot", "--steps", "8"};
  expect_same_bits_however_issued(lists);
  expect_same_bits_however_issued(lists + Words{"--precision", "fp16", "--interaction", "dot"});
}

TEST_P(TrainDlrmLists, are_cut_to_the_first_ids) {
  auto rows = click_rows(120, 0, 5);
  auto const whole = results_of(on("whole.tsv", rows) + Words{"--multi-hot"});
  auto const cut = results_of(on("whole.tsv", rows) + Words{"--multi-hot", "--max-hotness", "2"});
  EXPECT_NE(cut, whole);
  for (auto& row : rows) {
    for (auto& list : row.words) {
      list.resize(std::min<std::size_t>(list.size(), 2));
    }
  }
  EXPECT_EQ(results_of(on("short.tsv", rows) + Words{"--multi-hot"}), cut);
}

TEST_P(TrainDlrmLists, that_are_cut_are_named) {
  auto rows = click_rows(120, 1, 2);
  rows[7].words[4] = {"a", "b", "c"};
  auto arguments = on("whole.tsv", rows) + Words{"--multi-hot", "--max-hotness", "2"};
  std::erase(arguments, "--quiet");
  auto const ended = run(arguments);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, ::testing::HasSubstr("field C5 has lists of up to 3 ids"));
  EXPECT_THAT(ended.err, ::testing::Not(::testing::HasSubstr("field C6 ")));
}

TEST_P(TrainDlrmLists, go_on_from_a_saved_model_with_the_same_bits) {
  auto const lists = on("many.tsv", click_rows(120, 0, 3)) + Words{"--multi-hot"};
  auto const whole = report_of(lists + Words{"--steps", "10"});
  auto const first = report_of(lists + Words{"--steps", "4", "--save", path("half")});
  auto const second =
      report_of(lists + Words{"--steps", "10", "--resume", path("half"), "--capture"});
  auto joined = first["losses"];
  joined.insert(joined.end(), second["losses"].begin(), second["losses"].end());
  EXPECT_EQ(joined, whole["losses"]);
}

TEST_P(TrainDlrmLists, and_their_options_go_with_files) {
  auto const words = on("one.tsv", click_rows(120, 1, 1));
  expect_refused(words + Words{"--max-hotness", "3"}, 2, "--multi-hot");
  expect_refused({"--multi-hot"}, 2, "--multi-hot describes a file");
  expect_refused(words + Words{"--rows", "100"}, 2, "--rows is for generated data");
}

TEST_P(TrainDlrmLists, are_refused_without_multi_hot) {
  auto rows = click_rows(120, 1, 1);
  rows[7].words[4] = {"a", "b", "c"};
  auto const lists = on("lists.tsv", rows);
  for (auto const& way : {Words{}, Words{"--stream"}}) {
    expect_refused(lists + way,
                   1,
                   path("lists.tsv") +
                       ":8: column 19 (C5): expected one word; train_dlrm reads lists, with | "
                       "between words, by --multi-hot, found 'a|b|c'");
  }
  EXPECT_EQ(run(lists + Words{"--multi-hot"}).status, 0);
}

TEST_P(TrainDlrmLists, a_broken_parquet_file_is_refused_by_name) {
  std::ofstream(path("bad.parquet")) << "PAR1 and no more";
  expect_refused(on_clicks(path("bad.parquet")) + Words{"--runtime", runtime()}, 1, "bad.parquet");
}

INSTANTIATE_TEST_SUITE_P(Runtimes, TrainDlrmLists, kRuntimes, name_of_runtime);

class TrainDlrmListsOfRanks : public TrainDlrmLists {};

/// On the host runtime, where any machine has as many ranks as it is asked for.
TEST_F(TrainDlrmListsOfRanks, train_as_those_of_one) {
  write_tsv(path("many.tsv"), click_rows(120, 0, 4));
  auto const lists = on_clicks(path("many.tsv")) + Words{"--runtime", "host", "--multi-hot"};
  auto const one = report_of(lists);
  auto const two = report_of(lists + Words{"--ranks", "2"});
  ASSERT_EQ(two["losses"].size(), one["losses"].size());
  for (std::size_t i = 0; i < one["losses"].size(); ++i) {
    EXPECT_NEAR(two["losses"][i].get<double>(), one["losses"][i].get<double>(), 1e-5) << i;
  }
}

}  // namespace
}  // namespace msstream::testing
