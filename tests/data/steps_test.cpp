// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "data/learned.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/string_key.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/data/transforms.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::data {
namespace {

using msstream::testing::message_of;
using msstream::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum ColumnType;

/// Returns the ids that steps make of numbers of a float32 column.
std::vector<std::int64_t> ids_of(std::vector<Transform> steps, std::vector<double> const& numbers) {
  Schema const schema({{.name = "x", .transforms = std::move(steps)}});
  Chunk raw(schema);
  raw.doubles("x").assign(numbers.begin(), numbers.end());
  auto const made = Transforms(schema).apply(raw);
  EXPECT_EQ(made.schema().columns()[0].type, int64);
  made.check();
  return {made.ints("x").begin(), made.ints("x").end()};
}

TEST(Steps, bucketize_counts_the_boundaries_up_to_a_number) {
  EXPECT_THAT(ids_of({Transform::bucketize({0, 1.5, 10})}, {-1, 0, 1.4, 1.5, 9, 10, 1e30}),
              ElementsAre(0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(ids_of({Transform::clip(0, 5), Transform::log1p(), Transform::bucketize({1})},
                     {-7, 1, 2, 100}),
              ElementsAre(0, 0, 1, 1));
  constexpr auto missing = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(ids_of({Transform::fill_missing(3), Transform::bucketize({2})}, {1, missing}),
              ElementsAre(0, 1));
  EXPECT_THAT(message_of<DataError>([&] {
                ids_of({Transform::bucketize({2})}, {1, missing});
              }),
              HasSubstr("row 1: column 'x': a number is missing; expected one, or fill_missing()"));
}

TEST(Steps, bucketize_takes_integers_and_counts_its_ids) {
  Schema const schema(
      {{.name = "age", .type = int64, .width = 2, .transforms = {Transform::bucketize({18, 65})}}});
  Chunk raw(schema);
  raw.ints("age").assign({17, 18, 64, 65});
  Transforms const transforms(schema);
  EXPECT_EQ(transforms.id_count("age"), 3);
  EXPECT_EQ(transforms.key("age", 2), std::nullopt);
  auto const made = transforms.apply(raw);
  EXPECT_THAT(made.ints("age"), ElementsAre(0, 1, 1, 2));
}

TEST(Steps, quantiles_have_equally_many_numbers) {
  std::vector<double> numbers(1'000);
  std::iota(numbers.begin(), numbers.end(), -100.0);
  std::ranges::shuffle(numbers, std::mt19937(7));  // NOLINT(bugprone-random-generator-seed)
  std::string text = "x,constant\n";
  for (auto const number : numbers) {
    text += fmt::format("{},5\n", number);
  }
  TemporaryFolder const folder;
  CsvReader reader(TextFile(folder.write("x.csv", text)),
                   {.columns = {{.name = "x", .transforms = {Transform::quantiles(8)}},
                                {.name = "constant", .transforms = {Transform::quantiles(8)}}}});
  Transforms const transforms(reader.schema());
  EXPECT_FALSE(transforms.is_fitted());
  transforms.fit(reader);
  EXPECT_EQ(transforms.id_count("x"), 8);
  EXPECT_EQ(transforms.id_count("constant"), 1);
  std::vector<int> counts(8);
  auto const batch = Loader(reader, {.batch_size = 1'000, .transforms = transforms}).next().value();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    auto const id = batch.ints("x")[i];
    ASSERT_EQ(id, static_cast<std::int64_t>((numbers[i] + 100) / 125));
    ++counts[static_cast<std::size_t>(id)];
  }
  EXPECT_THAT(counts, ::testing::Each(125));
  EXPECT_THAT(batch.ints("constant"), ::testing::Each(0));
  Transforms const restored(reader.schema());
  restore(restored, saved_arrays(transforms));
  EXPECT_EQ(saved_arrays(restored), saved_arrays(transforms));
  EXPECT_EQ(restored.id_count("x"), 8);
}

TEST(Steps, times_become_hours_and_days_of_the_week) {
  constexpr double thursday = 1'764'201'600;  // 2025-11-27, 00:00:00
  std::vector<double> const times{
      0, -1, thursday, thursday + 3'599, thursday + 3'600, thursday + 86'399};
  EXPECT_THAT(ids_of({Transform::hour_of_day()}, times), ElementsAre(0, 23, 0, 0, 1, 23));
  EXPECT_THAT(ids_of({Transform::day_of_week()}, times), ElementsAre(3, 2, 3, 3, 3, 3));
  // In China it is eight hours later.
  EXPECT_THAT(ids_of({Transform::hour_of_day({.utc_offset_s = 8 * 3'600})}, times),
              ElementsAre(8, 7, 8, 8, 9, 7));
  EXPECT_THAT(ids_of({Transform::day_of_week({.utc_offset_s = 8 * 3'600})}, times),
              ElementsAre(3, 3, 3, 3, 3, 4));
  EXPECT_THAT(ids_of({Transform::hour_of_day({.per_second = 1'000})}, {7'199'999, 7'200'000, -1}),
              ElementsAre(1, 2, 23));
  Schema const schema({{.name = "x", .transforms = {Transform::day_of_week()}},
                       {.name = "y", .transforms = {Transform::hour_of_day()}}});
  EXPECT_EQ(Transforms(schema).id_count("x"), 7);
  EXPECT_EQ(Transforms(schema).id_count("y"), 24);
  EXPECT_THAT(message_of<DataError>([&] { ids_of({Transform::hour_of_day()}, {1e20}); }),
              HasSubstr("row 0: column 'x': hour_of_day(per_second=1, utc_offset_s=0) of 1e+20"));
}

constexpr char const* kHistories =
    "seen,times\n"
    "a|b|c,1|2|3\n"
    ",\n"
    "d,4\n"
    "e|f|g|h,5|6|7|8\n";

std::vector<TextColumn> histories(Transform const& shortened) {
  return {
      {.name = "seen",
       .type = hashed,
       .value_separator = '|',
       .transforms = {shortened, Transform::vocabulary()}},
      {.name = "times", .value_separator = '|', .transforms = {shortened}, .aligned_with = "seen"}};
}

TEST(Steps, first_and_last_shorten_rows) {
  TemporaryFolder const folder;
  auto const path = folder.write("rows.csv", kHistories);
  for (bool const last : {false, true}) {
    CsvReader reader(
        TextFile(path),
        {.columns = histories(last ? Transform::last(2) : Transform::first(2)), .chunk_bytes = 20});
    Transforms const transforms(reader.schema());
    transforms.fit(reader);
    EXPECT_EQ(transforms.id_count("seen"), 6);  // without words that are left out
    auto const batch = Loader(reader, {.transforms = transforms}).next().value();
    EXPECT_THAT(batch.offsets("seen"), ElementsAre(0, 2, 2, 3, 5));
    EXPECT_THAT(batch.offsets("times"), ElementsAre(0, 2, 2, 3, 5));
    std::string seen;
    for (auto const id : batch.ints("seen")) {
      seen += transforms.word("seen", id).value();
    }
    EXPECT_EQ(seen, last ? "bcdgh" : "abdef");
    EXPECT_THAT(batch.floats("times"),
                last ? ElementsAre(2, 3, 4, 7, 8) : ElementsAre(1, 2, 4, 5, 6));
  }
}

TEST(Steps, rows_of_keys_alone_are_shortened_too) {
  Schema const schema(
      {{.name = "id", .type = int64, .width = kJagged, .transforms = {Transform::last(1)}},
       {.name = "word", .type = hashed, .width = kJagged, .transforms = {Transform::first(9)}}});
  Chunk raw(schema);
  raw.ints("id").assign({5, 6, 7});
  raw.offsets("id").assign({0, 2, 3});
  raw.ints("word").assign({1});
  raw.offsets("word").assign({0, 0, 1});
  Transforms const transforms(schema);
  auto const made = transforms.apply(raw);
  EXPECT_THAT(made.ints("id"), ElementsAre(6, 7));
  EXPECT_THAT(made.offsets("id"), ElementsAre(0, 1, 2));
  EXPECT_THAT(made.ints("word"), ElementsAre(1));
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] { static_cast<void>(transforms.id_count("id")); }),
      HasSubstr("column 'id' has numbers; expected ids"));
}

TEST(Steps, aligned_columns_have_rows_of_equal_lengths) {
  TemporaryFolder const folder;
  auto const path = folder.write("rows.csv", "seen,times\na|b,1|2\n\"c\",1\nd|e|f,1|2\ng,1\n");
  for (std::size_t const bytes : {1UL, 1'000UL}) {
    CsvReader reader(
        TextFile(path),
        {.columns = {{.name = "seen", .type = hashed, .value_separator = '|'},
                     {.name = "times", .value_separator = '|', .aligned_with = "seen"}},
         .chunk_bytes = bytes});
    auto const place = bytes == 1 ? ", line 4" : ", 2 rows behind line 2";
    EXPECT_EQ(message_of<DataError>([&] { static_cast<void>(Loader(reader).next()); }),
              path.string() + place +
                  ": column 'times' has 2 values, column 'seen' 3; expected equally many, as they "
                  "are aligned");
  }
  Chunk query(Schema({{"a", int64, kJagged}, {"b", int64, kJagged, {}, "a"}}));
  query.ints("a").assign({1});
  query.offsets("a").assign({0, 0, 1});
  query.offsets("b").assign({0, 0, 0});
  EXPECT_THAT(message_of<DataError>([&] { query.check(); }),
              HasSubstr("row 1: column 'b' has 0 values, column 'a' 1"));
}

TEST(Steps, wrong_alignments_are_refused) {
  auto const refusal = [](std::vector<Column> const& columns) {
    return message_of<std::invalid_argument>([&] { Transforms const made((Schema(columns))); });
  };
  auto const expected = HasSubstr("is aligned with 'a'; expected two jagged columns");
  EXPECT_THAT(refusal({{"a", int64, 2}, {"b", int64, kJagged, {}, "a"}}), expected);
  EXPECT_THAT(refusal({{"a", int64, kJagged}, {"b", int64, 1, {}, "a"}}), expected);
  EXPECT_THAT(refusal({{"a", int64, kJagged, {}, "a"}}), expected);
  EXPECT_THAT(refusal({{"b", int64, kJagged, {}, "a"}}), expected);
  EXPECT_THAT(
      refusal({{"a", int64, kJagged, {Transform::last(5)}}, {"b", int64, kJagged, {}, "a"}}),
      HasSubstr("column 'b' is unshortened, and column 'a', which it is aligned with, last(5)"));
}

TEST(Steps, wrong_steps_are_refused) {
  auto const refusal = [](Column const& column) {
    return message_of<std::invalid_argument>([&] { Transforms const made(Schema({column})); });
  };
  auto const of = [&](std::vector<Transform> steps) {
    return refusal({.name = "x", .width = kJagged, .transforms = std::move(steps)});
  };
  EXPECT_THAT(of({Transform::bucketize({})}), HasSubstr("expected at least one boundary"));
  EXPECT_THAT(of({Transform::bucketize({1, 1})}), HasSubstr("bucketize(1, 1); expected"));
  EXPECT_THAT(of({Transform::quantiles(1)}), HasSubstr("quantiles(1); expected 2 to 2^20"));
  EXPECT_THAT(of({Transform::last(0)}), HasSubstr("last(0); expected at least 1 value"));
  EXPECT_THAT(of({Transform::hour_of_day({.per_second = 0})}), HasSubstr("per_second=0"));
  EXPECT_THAT(of({Transform::day_of_week({.utc_offset_s = 86'400})}),
              HasSubstr("an offset of less than a day"));
  EXPECT_THAT(of({Transform::log1p(), Transform::last(3)}),
              HasSubstr("last(3) is transform number 2; expected it in front of the others"));
  EXPECT_THAT(of({Transform::hour_of_day(), Transform::log1p()}),
              HasSubstr("log1p() behind hour_of_day("));
  EXPECT_THAT(of({Transform::normalize(), Transform::quantiles(4)}),
              HasSubstr("has normalize() and quantiles(4)"));
  EXPECT_THAT(refusal({.name = "x", .transforms = {Transform::first(3)}}),
              HasSubstr("first(3) is for jagged columns"));
  EXPECT_THAT(refusal({.name = "x", .type = hashed, .transforms = {Transform::day_of_week()}}),
              HasSubstr("is for numbers"));
}

}  // namespace
}  // namespace msstream::data
