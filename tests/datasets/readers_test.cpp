// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "datasets/distinct_values.hpp"
#include "datasets/reader_rows.hpp"

#include <msstream/data/transforms.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <thread>
#include <utility>

namespace msstream::datasets {

namespace {

using data::string_key;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::gzipped;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;
using testing::test_data;

TEST(Readers, census_fields_go_where_they_belong) {
  TemporaryFolder const folder;
  auto const data = load(folder.write("x", census_row() + "\n" + census_row("50000+.") + "\n"));
  ASSERT_EQ(data.rows(), 2);
  ASSERT_EQ(data.columns().categorical.size(), 33U);
  EXPECT_THAT(data.columns().labels, ElementsAre("income"));
  EXPECT_THAT(data.continuous(0), ElementsAre(0, 5, 16, 17, 18, 30, 39));
  EXPECT_EQ(data.keys(0)[0], string_key("c1"));
  EXPECT_EQ(data.keys(0)[5], string_key("c7"));
  EXPECT_EQ(data.keys(1)[32], string_key("c40"));
  EXPECT_EQ(data.labels(0)[0], 0.0F);
  EXPECT_EQ(data.labels(1)[0], 1.0F);
}

TEST(Readers, never_married_is_a_second_label_and_then_no_input) {
  TemporaryFolder const folder;
  auto const married = census_row("50000+.");
  auto const never = with_column(census_row(), 7, " Never married", ',');
  auto const data = load(folder.write("x", married + "\n" + never), {.never_married_task = true});
  EXPECT_EQ(data.columns().categorical.size(), 32U);
  EXPECT_THAT(data.columns().labels, ElementsAre("income", "never married"));
  EXPECT_THAT(data.labels(0), ElementsAre(1, 0));
  EXPECT_THAT(data.labels(1), ElementsAre(0, 1));
  for (auto const key : data.keys(1)) {
    EXPECT_NE(key, string_key("Never married"));
  }
}

TEST(Readers, never_married_needs_census_data) {
  TemporaryFolder const folder;
  auto const path = folder.write("x", criteo_row('\t'));
  EXPECT_THROW((void)load(path, {.never_married_task = true}), std::invalid_argument);
}

TEST(Readers, text_is_no_parquet_file) {
  TemporaryFolder const folder;
  auto const path = folder.write("x", criteo_row('\t'));
  EXPECT_THAT(message_of<data::DataError>(
                  [&] { (void)load(path, {.format = DataFormat::criteo_parquet}); }),
              ::testing::HasSubstr("expected a Parquet file, which begins with PAR1"));
}

TEST(Readers, income_may_lack_its_full_stop_or_be_padded) {
  TemporaryFolder const folder;
  auto const path = folder.write("x", census_row("- 50000") + "\n" + census_row(" 50000+.  "));
  auto const data = load(path);
  EXPECT_EQ(data.labels(0)[0], 0.0F);
  EXPECT_EQ(data.labels(1)[0], 1.0F);
}

TEST(Readers, criteo_tsv_fields_go_where_they_belong) {
  TemporaryFolder const folder;
  auto row = with_column(criteo_row('\t'), 1, "-2", '\t');
  row = with_column(row, 2, "", '\t');
  row = with_column(row, 14, "", '\t');
  auto const data = load(folder.write("x", row + "\n" + criteo_row('\t', "0")));
  ASSERT_EQ(data.rows(), 2);
  EXPECT_EQ(data.continuous(0)[0], -2.0F);
  EXPECT_TRUE(std::isnan(data.continuous(0)[1])) << "a missing value";
  EXPECT_EQ(data.continuous(0)[12], 12.0F);
  EXPECT_EQ(data.keys(0)[0], string_key(""));
  EXPECT_EQ(data.keys(1)[0], string_key("w1"));
  EXPECT_EQ(data.keys(0)[25], string_key("w26"));
  EXPECT_EQ(data.labels(0)[0], 1.0F);
  EXPECT_EQ(data.labels(1)[0], 0.0F);
}

TEST(Readers, criteo_transforms_take_logs_and_read_missing_values_as_zero) {
  TemporaryFolder const folder;
  std::string rows;
  // The first two fields are 0, log 2 and 2 log 2, a standard deviation of sqrt(2 / 3) log 2.
  for (auto const& [negative, missing] : {std::pair("-2", ""), {"1", "1"}, {"3", "3"}}) {
    auto const row = with_column(criteo_row('\t'), 1, negative, '\t');
    rows += with_column(row, 2, missing, '\t') + "\n";
  }
  auto data = load(folder.write("x", rows));
  data::Transforms const transforms(data.stored().schema());
  transforms.fit(*data.stored().reader());
  auto const values = transforms.apply(data.stored().chunks().front()).floats(kContinuous);
  float const end = std::sqrt(1.5F);
  for (std::size_t const field : {0, 1}) {
    EXPECT_FLOAT_EQ(values[field], -end);
    EXPECT_NEAR(values[13 + field], 0.0F, 1e-6F);
    EXPECT_FLOAT_EQ(values[26 + field], end);
  }
  EXPECT_EQ(values[12], 0.0F) << "a constant field";
}

TEST(Readers, criteo_csv_skips_its_header_and_id) {
  TemporaryFolder const folder;
  auto const path = folder.write(
      "x", criteo_header() + "\r\n77," + criteo_row(',') + "\r\n78," + criteo_row(','));
  auto const data = load(path);
  ASSERT_EQ(data.rows(), 2);
  EXPECT_EQ(data.continuous(0)[1], 1.0F);
  EXPECT_EQ(data.keys(1)[25], string_key("w26")) << "the carriage return is part of the line end";
}

TEST(Readers, both_spellings_of_unknown_are_one_key) {
  TemporaryFolder const folder;
  auto const of = [](std::string_view value) { return with_column(census_row(), 1, value, ','); };
  auto const data = load(folder.write("x", of("?") + "\n" + of("") + "\n" + of("\"?\"")));
  for (std::int64_t row = 0; row < 3; ++row) {
    EXPECT_EQ(data.keys(row)[0], string_key("")) << row;
  }
}

TEST(Readers, begin_again_after_a_seek) {
  TemporaryFolder const folder;
  for (auto const& bytes :
       {census_row() + "\n" + census_row("50000+."), criteo_header() + "\n77," + criteo_row(',')}) {
    auto const reader = open_data(folder.write("x", bytes), {.chunk_bytes = 100});
    EXPECT_EQ(reader->position(), data::Reader::Position());
    ReadRows const first(load_rows(*reader, 2));
    for (int round = 0; round < 2; ++round) {
      reader->seek({});
      ReadRows const again(load_rows(*reader, 2));
      ASSERT_EQ(again.rows(), first.rows());
      EXPECT_EQ(again.keys(0), first.keys(0));
      EXPECT_EQ(again.labels(first.rows() - 1), first.labels(first.rows() - 1));
    }
  }
}

TEST(Readers, a_pipe_is_read_once) {
  TemporaryFolder const folder;
  std::string rows;
  for (int i = 0; i < 300; ++i) {
    rows += census_row() + "\n";
  }
  auto const path = folder / "pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::jthread const writer([&] { std::ofstream(path) << rows; });
  EXPECT_EQ(load(path, {.chunk_bytes = 1'000}).rows(), 300);
}

TEST(Readers, chunks_and_threads_do_not_show) {
  TemporaryFolder const folder;
  std::string rows = "\n";
  for (int i = 0; i < 300; ++i) {
    rows +=
        with_column(census_row(), 0, fmt::format("{}", i), ',') + (i % 7 == 0 ? "\n\n" : "\r\n");
  }
  auto const path = folder.write("x", rows);
  for (std::size_t const chunk_bytes : {1UL, 100UL, 511UL, 100'000UL}) {
    auto const data = load(path, {.chunk_bytes = chunk_bytes}, 3);
    ASSERT_EQ(data.rows(), 300) << chunk_bytes;
    for (int i = 0; i < 300; ++i) {
      ASSERT_EQ(data.continuous(i)[0], static_cast<float>(i)) << chunk_bytes;
    }
  }
}

TEST(Readers, a_line_may_be_longer_than_a_chunk) {
  TemporaryFolder const folder;
  std::string const word(3'000'000, 'w');
  auto const data =
      load(folder.write("x", with_column(census_row(), 1, word, ',') + "\n" + census_row()));
  ASSERT_EQ(data.rows(), 2);
  EXPECT_EQ(data.keys(0)[0], string_key(word));
}

TEST(Readers, errors_name_file_line_column_and_value) {
  TemporaryFolder const folder;
  auto const bad_number = with_column(census_row(), 5, " 12x", ',');
  auto const path = folder.write("data.csv", census_row() + "\n\n" + bad_number + "\n");
  EXPECT_EQ(read_failure(path),
            path.string() +
                ":3: column 6 (wage per hour): expected a number from -1e12 to 1e12, found '12x'");
}

TEST(Readers, refuses_numbers_that_are_not_finite) {
  TemporaryFolder const folder;
  for (auto const* value : {"nan", "inf", "1e99", "", "?"}) {
    auto const path = folder.write("x", with_column(census_row(), 0, value, ','));
    EXPECT_THAT(read_failure(path),
                EndsWith(fmt::format("expected a number from -1e12 to 1e12, found '{}'", value)))
        << value;
  }
}

TEST(Readers, refuses_bad_labels) {
  TemporaryFolder const folder;
  EXPECT_THAT(read_failure(folder.write("x", census_row("50000."))),
              EndsWith(":1: column 42 (income): expected '- 50000.' or '50000+.', found '50000.'"));
  EXPECT_THAT(read_failure(folder.write("x", criteo_row('\t', "2"))),
              EndsWith(":1: column 1 (Label): expected 0 or 1, found '2'"));
}

TEST(Readers, refuses_rows_of_another_length) {
  TemporaryFolder const folder;
  EXPECT_THAT(read_failure(folder.write("x", census_row() + "\n" + census_row() + ", more\n")),
              EndsWith("x:2: expected 42 columns, found 43"));
  EXPECT_THAT(read_failure(folder.write("x", census_row() + "\n1, 2\n")),
              EndsWith("x:2: expected 42 columns, found 2"));
}

TEST(Readers, the_same_error_of_a_row_is_reported_whatever_stands_quoted_beside) {
  TemporaryFolder const folder;
  auto const bad = with_column(census_row(), 39, "c10", ',') + ", more\n";
  auto const beside = with_column(census_row(), 1, "\"a\"", ',') + "\n";
  for (auto const& rows : {census_row() + "\n" + bad, beside + bad}) {
    for (std::size_t const chunk_bytes : {1UL, 100'000UL}) {
      EXPECT_THAT(read_failure(folder.write("x", rows), {.chunk_bytes = chunk_bytes}),
                  EndsWith("x:2: expected 42 columns, found 43"));
    }
  }
}

TEST(Readers, shortens_and_cleans_what_it_quotes) {
  TemporaryFolder const folder;
  auto const path =
      folder.write("x", with_column(census_row(), 0, "\x1b" + std::string(99, 'z'), ','));
  EXPECT_THAT(read_failure(path), EndsWith("found '?" + std::string(39, 'z') + "…'"));
}

TEST(Readers, the_first_error_in_the_file_is_reported_whatever_the_threads) {
  TemporaryFolder const folder;
  std::string rows;
  for (int i = 0; i < 400; ++i) {
    rows += i >= 200 ? "bad\n" : census_row() + "\n";
  }
  auto const path = folder.write("x", rows);
  for (int round = 0; round < 20; ++round) {
    EXPECT_THAT(message_of<data::DataError>([&] { (void)load(path, {.chunk_bytes = 64}, 4); }),
                HasSubstr(":201: "));
  }
}

TEST(Readers, refuses_nul_bytes_and_says_where) {
  TemporaryFolder const folder;
  auto const path = folder.write("x", census_row() + "\n" + std::string("a\0b\n", 4));
  EXPECT_THAT(read_failure(path), EndsWith("x:2: expected text, found a NUL byte"));
}

TEST(Readers, the_first_error_in_the_file_is_reported_whatever_the_chunks) {
  TemporaryFolder const folder;
  auto const good = census_row() + "\n";
  auto const nul = good + "bad\n" + std::string("a\0b\n", 4);
  auto stored = gzipped(good + "bad\n" + good);
  stored[stored.size() - 6] ^= 1;  // a byte of the checksum
  for (auto const& bytes : {nul, stored, gzipped(good + "bad\n") + "rest"}) {
    auto const path = folder.write("x", bytes);
    for (std::size_t const chunk_bytes : {1UL, 300UL, 100'000UL}) {
      EXPECT_THAT(read_failure(path, {.chunk_bytes = chunk_bytes}),
                  EndsWith("x:2: expected 42 columns, found 1"))
          << chunk_bytes;
    }
  }
}

TEST(Readers, lines_before_a_damaged_part_tell_the_format) {
  TemporaryFolder const folder;
  auto const whole = gzipped("bad\n" + census_row());
  for (std::size_t const chunk_bytes : {1UL, 100'000UL}) {
    EXPECT_THAT(read_failure(folder.write("x", whole.substr(0, whole.size() - 1)),
                             {.chunk_bytes = chunk_bytes}),
                HasSubstr("x:1: cannot tell the format"));
  }
}

TEST(Readers, a_header_and_blank_lines_are_no_rows_whatever_the_chunks) {
  TemporaryFolder const folder;
  auto const path = folder.write("x", criteo_header() + "\n\n\r\n\n");
  for (std::size_t const chunk_bytes : {1UL, 100'000UL}) {
    EXPECT_THAT(read_failure(path, {.chunk_bytes = chunk_bytes}),
                EndsWith("expected rows after the header, found none"));
  }
}

TEST(Readers, chunks_hold_something) {
  TemporaryFolder const folder;
  auto const path = folder.write("x", census_row());
  EXPECT_THROW((void)load(path, {.chunk_bytes = 0}), std::invalid_argument);
}

TEST(Readers, refuses_files_that_are_none) {
  TemporaryFolder const folder;
  EXPECT_THAT(read_failure(folder / "absent"),
              EndsWith("absent: cannot open: No such file or directory"));
  EXPECT_THAT(read_failure(folder.path()), EndsWith(": expected a file, found a folder"));
  for (auto const* bytes : {"", "\n", "\r\n\n"}) {
    EXPECT_THAT(read_failure(folder.write("x", bytes)),
                EndsWith("x: expected rows, found an empty file"));
  }
  EXPECT_THAT(read_failure(folder.write("x", gzipped(""))), EndsWith("found an empty file"));
  EXPECT_THAT(read_failure(folder.write("x", criteo_header() + "\n")),
              EndsWith("expected rows after the header, found none"));
}

TEST(Readers, numbers_that_floats_cannot_be_reckoned_with_are_refused_by_column_and_range) {
  TemporaryFolder const folder;
  for (std::string const value : {"3.4e38", "-3.4e38", "1.1e12"}) {
    EXPECT_THAT(read_failure(folder.write("x", with_column(census_row(), 0, value, ','))),
                EndsWith("x:1: column 1 (age): expected a number from -1e12 to 1e12, found '" +
                         value + "'"));
  }
  EXPECT_EQ(load(folder.write("x", with_column(census_row(), 0, "1e12", ','))).rows(), 1);
}

TEST(Readers, says_what_it_would_have_recognised) {
  TemporaryFolder const folder;
  EXPECT_THAT(read_failure(folder.write("x", "1 2 3\n")),
              AllOf(HasSubstr("x:1: cannot tell the format"), HasSubstr("criteo-tsv")));
}

TEST(Readers, a_format_that_was_asked_for_is_held_to) {
  TemporaryFolder const folder;
  auto const path = folder.write("x", census_row());
  EXPECT_THAT(read_failure(path, {.format = DataFormat::criteo_csv}),
              HasSubstr(":1: expected the header 'Id,Label,I1"));
  EXPECT_THAT(read_failure(path, {.format = DataFormat::criteo_tsv}),
              EndsWith("expected 40 columns, found 1"));
}

TEST(ReadersOfRealData, read_the_census) {
  auto const path = test_data("census_income_kdd.csv.gz");
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "no " << path << ": set MSSTREAM_TEST_DATA";
  }
  auto data = load(path, {.never_married_task = true});
  ASSERT_EQ(data.rows(), 99'762);
  double rich = 0;
  for (std::int64_t row = 0; row < data.rows(); ++row) {
    rich += static_cast<double>(data.labels(row)[0]);
  }
  EXPECT_EQ(rich, 6'186);
  DistinctValues classes;
  for (auto const& chunk : data.stored().chunks()) {
    for (auto const key : chunk.ints("class of worker")) {
      classes.insert(key);
    }
  }
  EXPECT_EQ(classes.count(), 9);

  auto const [training, held_out] = divide(std::move(data.stored()), 5);
  EXPECT_EQ(training.rows(), 79'810);
  data::Transforms const transforms(training.schema());
  transforms.fit(*training.reader());
  constexpr std::size_t fields = 7;
  double sums[fields] = {};
  double squares[fields] = {};
  for (auto const& chunk : training.chunks()) {
    auto const values = transforms.apply(chunk).floats(kContinuous);
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto const value = static_cast<double>(values[i]);
      sums[i % fields] += value;
      squares[i % fields] += value * value;
    }
  }
  for (std::size_t field = 0; field < fields; ++field) {
    EXPECT_NEAR(sums[field] / 79'810, 0.0, 1e-4);
    EXPECT_NEAR(squares[field] / 79'810, 1.0, 1e-4);
  }
}

TEST(ReadersOfRealData, read_criteo) {
  auto const path = test_data("criteo_tiny.csv");
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "no " << path << ": set MSSTREAM_TEST_DATA";
  }
  auto const data = load(path);
  EXPECT_EQ(data.rows(), 1'999);
  EXPECT_EQ(data.continuous(0)[4], 1382.0F);
  EXPECT_EQ(data.keys(0)[25], string_key("9727dd16"));
}

}  // namespace
}  // namespace msstream::datasets
