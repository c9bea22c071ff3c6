// SPDX-License-Identifier: Apache-2.0
// Trains on Parquet files of Criteo's fields, in a build with Arrow.
#include "data_parquet/parquet_files.hpp"
#include "train_dlrm/click_rows.hpp"
#include "training/step_program.hpp"

#include <arrow/api.h>
#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The content of a field of ids.
enum class Ids : std::uint8_t { words, numbers };

class TrainDlrmParquet : public StepProgramTest {
 protected:
  TrainDlrmParquet() : StepProgramTest(MSSTREAM_TRAIN_DLRM) {}

  static constexpr std::int64_t kGroupRows = 50;

  /// Returns the fields of a file, the ids first. Lists are lists, or their only words.
  [[nodiscard]] static ParquetFields fields_of(std::vector<ClickRow> const& rows,
                                               bool are_lists,
                                               Ids ids = Ids::words) {
    ParquetFields fields;
    for (std::size_t i = 0; i < 26; ++i) {
      auto const array = ids == Ids::words ? ids_of<arrow::StringBuilder>(rows, i, are_lists)
                                           : ids_of<arrow::Int64Builder>(rows, i, are_lists);
      fields.emplace_back(fmt::format("C{}", i + 1), array);
    }
    for (std::size_t i = 0; i < 13; ++i) {
      std::vector<std::optional<std::int64_t>> numbers;
      for (auto const& row : rows) {
        numbers.push_back(row.numbers[i]);
      }
      fields.emplace_back(fmt::format("I{}", i + 1), array_of<arrow::Int64Builder>(numbers));
    }
    std::vector<std::optional<std::int32_t>> labels;
    for (auto const& row : rows) {
      labels.emplace_back(row.label);
    }
    fields.emplace_back("Label", array_of<arrow::Int32Builder>(labels));
    return fields;
  }
  /// Writes a file, and returns the options of a run on it.
  [[nodiscard]] Words on(std::string const& name, ParquetFields const& fields) const {
    return on_clicks(write_parquet(path(name), fields, kGroupRows).string());
  }
  [[nodiscard]] Words on_tsv(std::string const& name, std::vector<ClickRow> const& rows) const {
    write_tsv(path(name), rows);
    return on_clicks(path(name));
  }
  void expect_refused(Words const& arguments, std::string const& first, std::string const& second) {
    auto const ended = run(arguments);
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.err, AllOf(HasSubstr(first), HasSubstr(second)));
  }

 private:
  static void append(arrow::StringBuilder& builder, std::string const& word) {
    check_arrow(builder.Append(word));
  }
  static void append(arrow::Int64Builder& builder, std::string const& word) {
    check_arrow(builder.Append(std::stoll(word, nullptr, 16)));
  }
  template <class Builder>
  [[nodiscard]] static std::shared_ptr<arrow::Array> ids_of(std::vector<ClickRow> const& rows,
                                                            std::size_t field,
                                                            bool are_lists) {
    auto const values = std::make_shared<Builder>();
    arrow::ListBuilder lists(arrow::default_memory_pool(), values);
    for (auto const& row : rows) {
      if (are_lists) {
        check_arrow(lists.Append());
      }
      for (auto const& word : row.words[field]) {
        append(*values, word);
      }
    }
    return (are_lists ? static_cast<arrow::ArrayBuilder&>(lists) : *values).Finish().ValueOrDie();
  }
};

TEST_F(TrainDlrmParquet, words_have_the_bits_of_the_same_words_in_text) {
  auto const rows = click_rows(120, 1, 1);
  auto const text = results_of(on_tsv("one.tsv", rows));
  ASSERT_EQ(text[0].size(), 12U);
  auto const parquet = on("one.parquet", fields_of(rows, false));
  EXPECT_EQ(results_of(parquet), text);
  EXPECT_EQ(results_of(parquet + Words{"--capture", "--stream-groups", "7"}), text);
}

TEST_F(TrainDlrmParquet, lists_have_the_bits_of_the_same_lists_in_text) {
  auto const rows = click_rows(120, 0, 5);
  auto const text = results_of(on_tsv("many.tsv", rows) + Words{"--multi-hot"});
  auto const parquet = on("many.parquet", fields_of(rows, true)) + Words{"--multi-hot"};
  EXPECT_EQ(results_of(parquet), text);
  EXPECT_EQ(results_of(parquet + Words{"--capture", "--stream-groups", "7"}), text);
}

TEST_F(TrainDlrmParquet, ids_that_are_integers_have_the_bits_of_lists_of_one) {
  auto const rows = click_rows(120, 1, 1);
  auto const scalars = results_of(on("one.parquet", fields_of(rows, false, Ids::numbers)));
  ASSERT_EQ(scalars[0].size(), 12U);
  auto const lists = on("list.parquet", fields_of(rows, true, Ids::numbers));
  EXPECT_EQ(results_of(lists + Words{"--multi-hot"}), scalars);
}

TEST_F(TrainDlrmParquet, rows_that_stay_in_files_have_the_bits_of_loaded_rows) {
  for (bool const are_lists : {false, true}) {
    auto const rows = click_rows(120, are_lists ? 0 : 1, are_lists ? 5 : 1);
    auto const whole = on("all.parquet", fields_of(rows, are_lists)) +
                       (are_lists ? Words{"--multi-hot"} : Words{});
    auto const loaded = results_of(whole);
    EXPECT_EQ(results_of(whole + Words{"--stream"}), loaded);
    auto const windows = results_of(whole + Words{"--stream", "--shuffle-rows", "32"});
    EXPECT_NE(windows, loaded);
    static_cast<void>(on("day_0", fields_of({rows.begin(), rows.begin() + 70}, are_lists)));
    static_cast<void>(on("day_1", fields_of({rows.begin() + 70, rows.end()}, are_lists)));
    EXPECT_EQ(results_of(whole + Words{"--data", path("day_0") + "," + path("day_1")} +
                         Words{"--stream", "--shuffle-rows", "32"}),
              windows);
    ASSERT_EQ(run(whole + Words{"--stream", "--steps", "5", "--save", path("half")}).status, 0);
    auto const second = report_of(whole + Words{"--stream", "--resume", path("half")});
    EXPECT_EQ(second["first_step"], 5);
    EXPECT_EQ(second["losses"].back(), loaded[0].back());
  }
}

TEST_F(TrainDlrmParquet, files_that_do_not_fit_are_refused_by_what_is_wrong) {
  auto const rows = click_rows(120, 1, 1);
  auto const words = fields_of(rows, false);
  expect_refused(on("one.parquet", words) + Words{"--multi-hot"}, "one.parquet", "'C1'");
  expect_refused(on("list.parquet", fields_of(rows, true)), "list.parquet", "'C1'");
  auto lacking = words;
  lacking.erase(lacking.begin() + 3);
  expect_refused(on("lacking.parquet", lacking), "lacking.parquet", "no field named 'C4'");
  auto wrong = rows;
  wrong[7].label = 2;
  expect_refused(on("label.parquet", fields_of(wrong, false)),
                 "label.parquet: column 'Label'",
                 "expected 0 or 1, found 2");
  expect_refused(on("label.parquet", fields_of(wrong, false)) + Words{"--stream"},
                 "label.parquet: column 'Label'",
                 "expected 0 or 1, found 2");
}

}  // namespace
}  // namespace msstream::testing
