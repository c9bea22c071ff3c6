// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "data_parquet/parquet_files.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/parquet_reader.hpp>
#include <msstream/data/part_reader.hpp>
#include <msstream/data/string_key.hpp>
#include <msstream/data/transforms.hpp>

#include <arrow/api.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace msstream::data {
namespace {

using testing::array_of;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::lists_of;
using testing::message_of;
using testing::write_parquet;
using enum ColumnType;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::shared_ptr<arrow::Array> numbers_of(std::vector<std::optional<double>> const& values) {
  return array_of<arrow::DoubleBuilder, double>(values);
}

std::shared_ptr<arrow::Array> ids_of(std::vector<std::optional<std::uint64_t>> const& values) {
  return array_of<arrow::UInt64Builder, std::uint64_t>(values);
}

/// Nine rows in groups of two, of which rows 1, 2, 4, 5 and 7 are bad.
std::filesystem::path write_spoiled(testing::TemporaryFolder const& folder) {
  return write_parquet(
      folder / "rows.parquet",
      {{"id", ids_of({0, 1, 2, 3, std::nullopt, std::uint64_t{1} << 63U, 6, 7, 8})},
       {"x", numbers_of({0.5, 1e39, kNan, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5})},
       {"a", lists_of({{{1, 2}}, {{3}}, {{}}, {{4}}, {{}}, {{}}, {{}}, {{5}}, {{6}}})},
       {"b", lists_of({{{1, 2}}, {{3}}, {{}}, {{4}}, {{}}, {{}}, {{}}, {{}}, {{6}}})}},
      2);
}

std::vector<ParquetColumn> spoiled_columns() {
  return {{.name = "id", .type = int64},
          {.name = "x"},
          {.name = "a", .type = int64, .jagged = true},
          {.name = "b", .jagged = true, .aligned_with = "a"}};
}

TEST(ParquetBadRows, are_left_out_and_counted) {
  testing::TemporaryFolder const folder;
  for (int const threads : {1, 3}) {
    ParquetReader reader(write_spoiled(folder), spoiled_columns(), {.max_bad_rows = 5});
    Loader loader(reader, {.epochs = 2, .threads = threads});
    for (int epoch = 0; epoch < 2; ++epoch) {
      auto const batch = loader.next().value();
      EXPECT_THAT(batch.ints("id"), ElementsAre(0, 3, 6, 8));
      EXPECT_THAT(batch.floats("x"), ::testing::Each(0.5F));
      EXPECT_THAT(batch.ints("a"), ElementsAre(1, 2, 4, 6));
      EXPECT_THAT(batch.offsets("b"), ElementsAre(0, 2, 3, 3, 4));
    }
    EXPECT_FALSE(loader.next());
    auto const bad = reader.bad_rows();
    EXPECT_EQ(bad.count, 5);
    EXPECT_THAT(
        bad.first,
        ElementsAre(
            EndsWith("rows.parquet, row 1 of row group 0: column 'x': the field 'x' is 1e+39; "
                     "expected a finite float32"),
            EndsWith("row 0 of row group 1: column 'x': the field 'x' is nan; expected a finite "
                     "float32"),
            EndsWith("row 0 of row group 2: column 'id': the field 'id' is null, and the column "
                     "has no if_null"),
            EndsWith("row 1 of row group 2: column 'id': the field 'id' is 9223372036854775808; "
                     "expected an int64"),
            EndsWith("row 1 of row group 3: column 'b' has 0 values, column 'a' 1; expected "
                     "equally many, as they are aligned")));
  }
}

TEST(ParquetBadRows, one_too_many_is_an_error_with_the_first_ones) {
  testing::TemporaryFolder const folder;
  for (int const threads : {1, 3}) {
    ParquetReader reader(write_spoiled(folder), spoiled_columns(), {.max_bad_rows = 2});
    Loader loader(reader, {.threads = threads});
    auto const error = message_of<DataError>([&] { static_cast<void>(loader.next()); });
    EXPECT_THAT(error, HasSubstr("rows.parquet, row 0 of row group 2: column 'id'"));
    EXPECT_THAT(error, HasSubstr("; more bad rows than max_bad_rows, which is 2; the first: "));
    EXPECT_EQ(reader.bad_rows().count, 2);
  }
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                ParquetReader(write_spoiled(folder), spoiled_columns(), {.max_bad_rows = -1});
              }),
              HasSubstr("max_bad_rows: expected at least 0, found -1"));
}

TEST(ParquetBadRows, the_first_row_is_the_error_whatever_its_column) {
  testing::TemporaryFolder const folder;
  // In one row group, row 1 of the second column comes before row 4 of the first.
  auto const path = write_parquet(
      folder / "rows.parquet",
      {{"id", ids_of({0, 1, 2, 3, std::nullopt})}, {"x", numbers_of({0.5, -1e39, 0.5, 0.5, 0.5})}},
      5);
  ParquetReader reader(path, {{.name = "id", .type = int64}, {.name = "x"}});
  Chunk chunk(reader.schema());
  EXPECT_THAT(message_of<DataError>([&] { reader.next(chunk); }),
              EndsWith("rows.parquet, row 1 of row group 0: column 'x': the field 'x' is -1e+39; "
                       "expected a finite float32"));
}

TEST(ParquetBadRows, an_element_of_a_list_spoils_its_row) {
  testing::TemporaryFolder const folder;
  auto const elements = std::make_shared<arrow::FloatBuilder>();
  arrow::ListBuilder lists(arrow::default_memory_pool(), elements);
  testing::check_arrow(lists.Append());
  testing::check_arrow(elements->AppendValues({1, 2}));
  testing::check_arrow(lists.Append());
  testing::check_arrow(elements->AppendValues({3, std::numeric_limits<float>::infinity()}));
  testing::check_arrow(lists.Append());
  testing::check_arrow(elements->AppendNull());
  testing::check_arrow(lists.Append());
  testing::check_arrow(elements->AppendValues({4}));
  auto const path =
      write_parquet(folder / "lists.parquet", {{"scores", lists.Finish().ValueOrDie()}}, 4);
  std::vector<ParquetColumn> const columns{{.name = "scores", .jagged = true}};
  ParquetReader reader(path, columns, {.max_bad_rows = 2});
  Loader loader(reader);
  auto const batch = loader.next().value();
  EXPECT_THAT(batch.floats("scores"), ElementsAre(1, 2, 4));
  EXPECT_THAT(batch.offsets("scores"), ElementsAre(0, 2, 3));
  EXPECT_THAT(reader.bad_rows().first,
              ElementsAre(HasSubstr("row 1 of row group 0: column 'scores': the field 'scores' is "
                                    "inf; expected a finite float32"),
                          HasSubstr("row 2 of row group 0: column 'scores': the field 'scores' is "
                                    "null")));
}

TEST(ParquetBadRows, nan_is_missing_for_columns_that_fill_it) {
  testing::TemporaryFolder const folder;
  auto const path =
      write_parquet(folder / "rows.parquet", {{"x", numbers_of({1e39, kNan, std::nullopt})}}, 3);
  ParquetReader reader(
      path, {{.name = "x", .transforms = {Transform::clip(0, 9), Transform::fill_missing(7)}}});
  Loader loader(reader, {.transforms = Transforms(reader.schema())});
  EXPECT_THAT(loader.next().value().floats("x"), ElementsAre(9, 7, 7));
}

TEST(ParquetBadRows, two_fields_of_one_name_are_refused) {
  testing::TemporaryFolder const folder;
  auto const path =
      write_parquet(folder / "twice.parquet",
                    {{"x", numbers_of({1})}, {"id", ids_of({1})}, {"x", numbers_of({2})}},
                    1);
  EXPECT_THAT(message_of<DataError>([&] { ParquetReader(path, {{.name = "x"}}); }),
              EndsWith("twice.parquet: column 'x': there are 2 fields named 'x'; expected one"));
  ParquetReader reader(path, {{.name = "id", .type = int64}});
  EXPECT_THAT(Loader(reader, {}).next().value().ints("id"), ElementsAre(1));
}

TEST(ParquetBadRows, files_with_other_fields_are_refused_when_they_are_reached) {
  testing::TemporaryFolder const folder;
  auto const good = write_parquet(
      folder / "good.parquet", {{"id", ids_of({0, 1})}, {"x", numbers_of({0, 1})}}, 2);
  // Other columns, and the fields in another order, do not matter.
  auto const more =
      write_parquet(folder / "more.parquet",
                    {{"z", numbers_of({9})}, {"x", numbers_of({2})}, {"id", ids_of({2})}},
                    1);
  auto const fewer = write_parquet(folder / "fewer.parquet", {{"id", ids_of({3})}}, 1);
  auto const other = write_parquet(
      folder / "other.parquet",
      {{"id", array_of<arrow::StringBuilder, std::string>({"3"})}, {"x", numbers_of({3})}},
      1);
  std::vector<ParquetColumn> const columns{{.name = "id", .type = int64}, {.name = "x"}};
  auto const failure = [&](std::filesystem::path const& last) {
    ParquetReader reader({good, more, last}, columns, {.max_bad_rows = 100});
    Loader loader(reader, {.batch_size = 3});
    EXPECT_THAT(loader.next().value().floats("x"), ElementsAre(0, 1, 2));
    return message_of<DataError>([&] { static_cast<void>(loader.next()); });
  };
  EXPECT_THAT(
      failure(fewer),
      EndsWith("fewer.parquet: column 'x': there is no field named 'x'; the fields are id"));
  EXPECT_THAT(failure(other),
              EndsWith("other.parquet: column 'id': the field 'id' has values of type string; "
                       "expected integers"));
}

TEST(ParquetBadRows, dates_and_timestamps_are_the_integers_of_the_file) {
  testing::TemporaryFolder const folder;
  arrow::TimestampBuilder times(arrow::timestamp(arrow::TimeUnit::MICRO),
                                arrow::default_memory_pool());
  testing::check_arrow(times.AppendValues({1'764'201'600'000'000, 5}));
  auto const path =
      write_parquet(folder / "times.parquet",
                    {{"time", times.Finish().ValueOrDie()},
                     {"day", array_of<arrow::Date32Builder, std::int32_t>({20'419, -1})}},
                    2);
  ParquetReader reader(path, {{.name = "time", .type = int64}, {.name = "day"}});
  auto const batch = Loader(reader).next().value();
  EXPECT_THAT(batch.ints("time"), ElementsAre(1'764'201'600'000'000, 5));
  EXPECT_THAT(batch.floats("day"), ElementsAre(20'419, -1));
}

TEST(ParquetBadRows, fields_of_nulls_alone_and_views_of_strings) {
  testing::TemporaryFolder const folder;
  // Such as pandas writes of a column of None, and polars of strings.
  auto const nulls = arrow::MakeArrayOfNull(arrow::null(), 3).ValueOrDie();
  auto const words = array_of<arrow::StringViewBuilder, std::string>(
      {"a", "a string that is longer than a view", "c"});
  auto const path = write_parquet(folder / "rows.parquet", {{"none", nulls}, {"word", words}}, 2);
  ParquetReader reader(path,
                       {{.name = "number", .fields = {"none"}, .if_null = 7.0},
                        {.name = "key", .type = hashed, .fields = {"none"}},
                        {.name = "list", .type = int64, .fields = {"none"}, .jagged = true},
                        {.name = "word", .type = hashed}});
  auto const batch = Loader(reader).next().value();
  EXPECT_THAT(batch.floats("number"), ElementsAre(7, 7, 7));
  EXPECT_THAT(batch.ints("key"), ::testing::Each(string_key("")));
  EXPECT_THAT(batch.offsets("list"), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(
      batch.ints("word"),
      ElementsAre(
          string_key("a"), string_key("a string that is longer than a view"), string_key("c")));
  ParquetReader strict(path, {{.name = "none"}});
  Chunk chunk(strict.schema());
  EXPECT_THAT(message_of<DataError>([&] { strict.next(chunk); }),
              EndsWith("row 0 of row group 0: column 'none': the field 'none' is null, and the "
                       "column has no if_null"));
}

TEST(ParquetBadRows, random_rows_in_row_groups_of_any_size) {
  std::mt19937_64 random(7);
  auto const below = [&](std::uint64_t most) { return random() % most; };
  testing::TemporaryFolder const folder;
  for (int round = 0; round < 40; ++round) {
    auto const rows = 1 + below(60);
    std::vector<std::optional<std::uint64_t>> ids(rows);
    std::vector<std::optional<double>> x(rows);
    std::vector<std::optional<std::vector<std::int32_t>>> a(rows);
    auto b = a;
    std::vector<std::int64_t> good;
    for (std::size_t row = 0; row < rows; ++row) {
      bool const null = below(12) == 0;
      bool const large = below(12) == 0;
      bool const longer = below(12) == 0;
      ids[row] = null ? std::nullopt : std::optional<std::uint64_t>(row);
      x[row] = large ? -1e300 : static_cast<double>(row);
      // A list that is null has no values.
      a[row] = below(5) == 0 ? std::nullopt : std::optional(std::vector<std::int32_t>(below(4), 3));
      b[row] = std::vector<std::int32_t>((a[row] ? a[row]->size() : 0) + (longer ? 1 : 0), 4);
      if (!null && !large && !longer) {
        good.push_back(static_cast<std::int64_t>(row));
      }
    }
    auto const path = write_parquet(
        folder / "rows.parquet",
        {{"b", lists_of(b)}, {"id", ids_of(ids)}, {"x", numbers_of(x)}, {"a", lists_of(a)}},
        static_cast<std::int64_t>(1 + below(rows + 3)));
    std::vector<std::int64_t> part_of_good;
    Part const part{.end = 0.6, .seed = static_cast<std::uint64_t>(round)};
    for (std::size_t i = 0; i < good.size(); ++i) {
      if (part.contains(static_cast<std::int64_t>(i))) {
        part_of_good.push_back(good[i]);
      }
    }
    ParquetReader reader(path, spoiled_columns(), {.max_bad_rows = 60});
    Chunk chunk(reader.schema());
    std::vector<std::int64_t> found;
    for (; reader.next(chunk); chunk.clear()) {
      for (std::size_t row = 0; row < chunk.ints("id").size(); ++row) {
        auto const id = static_cast<std::size_t>(chunk.ints("id")[row]);
        found.push_back(chunk.ints("id")[row]);
        EXPECT_EQ(chunk.floats("x")[row], static_cast<float>(id));
        auto const values = chunk.offsets("a")[row + 1] - chunk.offsets("a")[row];
        EXPECT_EQ(values, a[id] ? std::ssize(*a[id]) : 0);
      }
    }
    EXPECT_EQ(found, good);
    EXPECT_EQ(reader.bad_rows().count, static_cast<std::int64_t>(rows - good.size()));

    ParquetReader again(path, spoiled_columns(), {.max_bad_rows = 60});
    PartReader some(again, part);
    found.clear();
    for (chunk.clear(); some.next(chunk); chunk.clear()) {
      found.insert(found.end(), chunk.ints("id").begin(), chunk.ints("id").end());
    }
    EXPECT_EQ(found, part_of_good);
  }
}

TEST(ParquetBadRows, a_part_by_number_counts_rows_without_reading_them) {
  testing::TemporaryFolder const folder;
  ParquetReader reader(write_spoiled(folder), spoiled_columns());
  std::int64_t rows = 0;
  int failures = 0;
  while (auto const counted = reader.next_counted_task()) {
    rows += counted->rows;
    Chunk chunk(reader.schema());
    try {
      counted->task(chunk);
      EXPECT_EQ(chunk.rows(), counted->rows);
    } catch (DataError const&) {
      ++failures;
    }
  }
  EXPECT_EQ(rows, 9);
  EXPECT_EQ(failures, 4);
}

}  // namespace
}  // namespace msstream::data
