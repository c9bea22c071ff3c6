// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "data_parquet/parquet_files.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/parquet_reader.hpp>
#include <msstream/data/string_key.hpp>
#include <msstream/data/transforms.hpp>

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace msstream::data {
namespace {

using testing::array_of;
using testing::dictionary_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::lists_of;
using testing::message_of;

class ParquetReaderTest : public ::testing::Test {
 protected:
  /// Writes a file of row groups of two rows.
  std::filesystem::path write(std::string const& name, testing::ParquetFields const& fields) {
    return testing::write_parquet(folder_ / name, fields, 2);
  }
  std::filesystem::path write_rows(std::string const& name = "rows.parquet") {
    return write(
        name,
        {{"age", array_of<arrow::Int16Builder, std::int16_t>({30, std::nullopt, 50})},
         {"unused", array_of<arrow::BooleanBuilder, bool>({true, false, true})},
         {"income", array_of<arrow::DoubleBuilder, double>({1.5, 2.5, 3.5})},
         {"country", array_of<arrow::StringBuilder, std::string>({"de", std::nullopt, "fr"})},
         {"site", dictionary_of({"a", "b", "a"})},
         {"user", array_of<arrow::UInt32Builder, std::uint32_t>({7, 8, 4'000'000'000U})},
         {"seen", lists_of({{{1, 2, 3}}, std::nullopt, {{4}}})}});
  }
  static std::vector<ParquetColumn> columns() {
    return {{.name = "user", .type = ColumnType::int64},
            {.name = "dense", .fields = {"income", "age"}, .if_null = -1.0},
            {.name = "country", .type = ColumnType::hashed, .buckets = 1'000},
            {.name = "site", .type = ColumnType::hashed},
            {.name = "seen", .type = ColumnType::int64, .jagged = true}};
  }

  testing::TemporaryFolder folder_;
};

TEST_F(ParquetReaderTest, reads_the_fields_of_its_columns) {
  for (int const threads : {1, 3}) {
    ParquetReader reader({write_rows("1"), write_rows("2")}, columns());
    Loader loader(reader, {.batch_size = 6, .threads = threads});
    auto const batch = loader.next().value();
    auto const bucket = [](std::string_view word) { return bucket_of(string_key(word), 1'000); };
    EXPECT_THAT(batch.ints("user"), ElementsAre(7, 8, 4'000'000'000, 7, 8, 4'000'000'000));
    EXPECT_THAT(batch.floats("dense"),
                ElementsAre(1.5F, 30, 2.5F, -1, 3.5F, 50, 1.5F, 30, 2.5F, -1, 3.5F, 50));
    EXPECT_THAT(batch.ints("country").subspan(0, 3),
                ElementsAre(bucket("de"), bucket(""), bucket("fr")));
    EXPECT_THAT(batch.ints("site").subspan(0, 3),
                ElementsAre(string_key("a"), string_key("b"), string_key("a")));
    EXPECT_THAT(batch.ints("seen"), ElementsAre(1, 2, 3, 4, 1, 2, 3, 4));
    EXPECT_THAT(batch.offsets("seen"), ElementsAre(0, 3, 3, 4, 7, 7, 8));
    EXPECT_FALSE(loader.next());
  }
}

TEST_F(ParquetReaderTest, continues_at_a_row_group) {
  ParquetReader reader({write_rows("1"), write_rows("2")},
                       {{.name = "user", .type = ColumnType::int64}});
  Chunk chunk(reader.schema());
  std::vector<Reader::Position> positions{reader.position()};
  while (reader.next(chunk)) {
    positions.push_back(reader.position());
    chunk.clear();
  }
  EXPECT_EQ(positions.size(), 5U);
  reader.seek(positions[3]);
  ASSERT_TRUE(reader.next(chunk));
  EXPECT_THAT(chunk.ints("user"), ElementsAre(4'000'000'000));
  chunk.clear();
  EXPECT_FALSE(reader.next(chunk));
}

TEST_F(ParquetReaderTest, reads_numbers_of_16_bits) {
  auto const path = write(
      "halves.parquet",
      {{"x", array_of<arrow::HalfFloatBuilder, std::uint16_t>({0x3C00, 0xC500, std::nullopt})}});
  ParquetReader reader(path, {{.name = "x", .if_null = 7.0}});
  EXPECT_THAT(Loader(reader).next()->floats("x"), ElementsAre(1, -5, 7));
  EXPECT_THAT(message_of<DataError>([&] {
                Chunk ints(Schema({{.name = "x", .type = ColumnType::int64}}));
                ParquetReader(path, {{.name = "x", .type = ColumnType::int64}}).next(ints);
              }),
              HasSubstr("the field 'x' has values of type halffloat; expected integers"));
}

TEST_F(ParquetReaderTest, labels_are_booleans_or_integers_of_any_width) {
  auto const path =
      write("labels.parquet",
            {{"flag", array_of<arrow::BooleanBuilder, bool>({true, false, std::nullopt})},
             {"i8", array_of<arrow::Int8Builder, std::int8_t>({-128, 1, std::nullopt})},
             {"u8", array_of<arrow::UInt8Builder, std::uint8_t>({255, 1, std::nullopt})},
             {"i16", array_of<arrow::Int16Builder, std::int16_t>({-3, 1, std::nullopt})}});
  for (auto const* const name : {"flag", "i8", "u8", "i16"}) {
    ParquetReader floats(path, {{.name = name, .if_null = 9.0}});
    ParquetReader ints(path, {{.name = name, .type = ColumnType::int64, .if_null = 9.0}});
    auto const first = std::string_view(name) == "flag" ? 1
                       : std::string_view(name) == "i8" ? -128
                       : std::string_view(name) == "u8" ? 255
                                                        : -3;
    auto const second = std::string_view(name) == "flag" ? 0 : 1;
    EXPECT_THAT(Loader(floats).next()->floats(name),
                ElementsAre(static_cast<float>(first), static_cast<float>(second), 9.0F));
    EXPECT_THAT(Loader(ints).next()->ints(name), ElementsAre(first, second, 9));
  }
}

TEST_F(ParquetReaderTest, ids_may_be_whole_numbers_of_floating_point) {
  auto const ids_of = [&](std::shared_ptr<arrow::Array> const& values,
                          std::optional<double> if_null = std::nullopt,
                          std::int64_t bad_rows = 0) {
    auto const path = write("ids.parquet", {{"id", values}});
    ParquetReader reader(path,
                         {{.name = "id", .type = ColumnType::int64, .if_null = if_null}},
                         {.max_bad_rows = bad_rows});
    auto const batch = Loader(reader).next().value();
    auto const ids = batch.ints("id");
    return std::vector<std::int64_t>(ids.begin(), ids.end());
  };
  auto const doubles = [](std::vector<std::optional<double>> const& values) {
    return array_of<arrow::DoubleBuilder, double>(values);
  };
  EXPECT_THAT(ids_of(doubles({0.0, -0.0, -7.0, 4e9, 0x1p53, -0x1p53})),
              ElementsAre(0, 0, -7, 4'000'000'000, 1LL << 53, -(1LL << 53)));
  EXPECT_THAT(ids_of(array_of<arrow::FloatBuilder, float>({3.0F, 0x1p24F})),
              ElementsAre(3, 1 << 24));
  EXPECT_THAT(ids_of(doubles({1.0, NAN, std::nullopt, 2.0}), -1.0), ElementsAre(1, -1, -1, 2));
  auto const refusal = [&](std::shared_ptr<arrow::Array> const& values) {
    return message_of<DataError>([&] { ids_of(values); });
  };
  EXPECT_THAT(refusal(doubles({1.0, 2.5})),
              HasSubstr("ids.parquet, row 1 of row group 0: column 'id': the field 'id' is 2.5; "
                        "expected a whole number from -2^53 to 2^53"));
  for (double const wrong : {0x1p53 + 2, -0x1p60, HUGE_VAL, -HUGE_VAL, 1e-300}) {
    EXPECT_THAT(refusal(doubles({1.0, wrong})), HasSubstr("row 1 of row group 0"));
    EXPECT_THAT(ids_of(doubles({1.0, wrong, 3.0}), std::nullopt, 1), ElementsAre(1, 3));
  }
  EXPECT_THAT(refusal(doubles({1.0, NAN})), HasSubstr("is nan; expected a whole number"));
  EXPECT_THAT(refusal(array_of<arrow::FloatBuilder, float>({0x1p24F + 2})),
              HasSubstr("expected a whole number from -2^24 to 2^24"));
}

TEST_F(ParquetReaderTest, transforms_get_numbers_that_are_not_rounded_and_words) {
  constexpr std::int64_t midnight = 1'764'201'600;  // in seconds since 1970
  using Int64s = std::vector<std::optional<std::int64_t>>;
  Int64s const times{midnight, midnight + 1, midnight + 2, midnight + 3, std::nullopt};
  Int64s const whole{times[0], times[1], times[2], times[3], midnight};
  auto const path = write(
      "times.parquet",
      {{"time", array_of<arrow::Int64Builder, std::int64_t>(times)},
       {"whole", array_of<arrow::Int64Builder, std::int64_t>(whole)},
       {"exact", array_of<arrow::DoubleBuilder, double>({1e9, 1e9 + 1, 1e9 + 2, 1e9 + 3, 1e9})},
       {"site", dictionary_of({"a", "b", "b", "a", "b"})}});
  ParquetReader reader(
      path,
      {{.name = "time", .transforms = {Transform::normalize(), Transform::fill_missing(7)}},
       {.name = "whole", .type = ColumnType::int64, .transforms = {Transform::normalize()}},
       {.name = "exact", .transforms = {Transform::clip(1e9 + 1, 2e9), Transform::normalize()}},
       {.name = "site", .type = ColumnType::hashed, .transforms = {Transform::vocabulary()}}});
  Transforms const transforms(reader.schema());
  transforms.fit(reader);
  Loader loader(reader, {.transforms = transforms});
  auto const batch = loader.next().value();
  // The times are 0 to 3 seconds behind midnight, with a variance of 1.25.
  auto const times_found = batch.floats("time");
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(times_found[i], (static_cast<double>(i) - 1.5) / std::sqrt(1.25), 1e-6);
  }
  EXPECT_EQ(times_found[4], 7);
  // With midnight twice, the mean is 1.2 and the variance 1.36.
  EXPECT_NEAR(batch.floats("whole")[3], (3 - 1.2) / std::sqrt(1.36), 1e-6);
  // Seconds 1, 1, 2, 3 and 1 have the mean 1.6 and the variance 0.64.
  EXPECT_NEAR(batch.floats("exact")[2], (2 - 1.6) / 0.8, 1e-6);
  EXPECT_THAT(batch.ints("site"), ElementsAre(2, 1, 1, 2, 1));
  EXPECT_EQ(transforms.word("site", 1), "b");

  ParquetReader strict(path, {{.name = "time", .transforms = {Transform::normalize()}}});
  EXPECT_THAT(
      message_of<DataError>([&] { Transforms(strict.schema()).fit(strict); }),
      HasSubstr("times.parquet, row 0 of row group 2: column 'time': the field 'time' is null, and "
                "the column has no if_null"));
  ParquetReader logs(path,
                     {{.name = "exact", .transforms = {Transform::log1p()}},
                      {.name = "time", .if_null = -1.0, .transforms = {Transform::log1p()}}});
  Loader failing(logs, {.transforms = Transforms(logs.schema())});
  EXPECT_THAT(message_of<DataError>([&] { static_cast<void>(failing.next()); }),
              HasSubstr("times.parquet, position 2: column 'time': log1p() of -1"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                ParquetReader(path, {{.name = "user", .type = ColumnType::int64, .if_null = 0.5}});
              }),
              HasSubstr("column 'user' has the if_null 0.5; expected a value of type int64"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                ParquetReader(path, {{.name = "user", .type = ColumnType::hashed, .if_null = 1.0}});
              }),
              HasSubstr("column 'user' has if_null; the key of a null of type hashed is"));
}

TEST_F(ParquetReaderTest, a_rank_reads_its_row_groups_alone) {
  auto const values = array_of<arrow::Int64Builder, std::int64_t>({7, 8});
  auto const good = write("good.parquet", {{"id", values}});
  // The footer of the file is whole, and its row group is not.
  auto bytes = testing::read_all(good);
  for (std::size_t i = 4; i < 20; ++i) {
    bytes[i] = static_cast<char>(~bytes[i]);
  }
  auto const damaged = folder_.write("damaged.parquet", bytes);
  auto const rows_of = [&](int rank) {
    ParquetReader reader({good, damaged}, {{.name = "id", .type = ColumnType::int64}});
    Loader loader(reader, {.batch_size = 2, .rank = rank, .ranks = 2, .share = RankShare::tasks});
    auto const batch = loader.next().value();
    EXPECT_FALSE(loader.next());
    return std::vector<std::int64_t>(batch.ints("id").begin(), batch.ints("id").end());
  };
  EXPECT_THAT(rows_of(0), ElementsAre(7, 8));
  EXPECT_THAT(message_of<DataError>([&] { rows_of(1); }), HasSubstr("damaged.parquet: "));
}

TEST_F(ParquetReaderTest, files_that_do_not_fit_are_refused_by_name) {
  auto const path = write_rows();
  auto const failure = [&](std::filesystem::path const& file, ParquetColumn const& column) {
    return message_of<DataError>([&] {
      ParquetReader reader(file, {column});
      Chunk chunk(reader.schema());
      reader.next(chunk);
    });
  };
  EXPECT_THAT(
      failure(path, {.name = "weight"}),
      HasSubstr("rows.parquet: column 'weight': there is no field named 'weight'; the fields are "
                "age, unused, income, country, site, user, seen"));
  EXPECT_THAT(
      failure(path, {.name = "country"}),
      HasSubstr(
          "column 'country': the field 'country' has values of type string; expected numbers"));
  EXPECT_THAT(
      failure(path, {.name = "income", .type = ColumnType::int64}),
      HasSubstr("rows.parquet, row 0 of row group 0: column 'income': the field 'income' is "
                "1.5; expected a whole number from -2^53 to 2^53"));
  EXPECT_THAT(failure(path, {.name = "user", .type = ColumnType::hashed}),
              HasSubstr("has values of type uint32; expected strings"));
  EXPECT_THAT(failure(path, {.name = "seen", .type = ColumnType::int64}),
              HasSubstr("expected integers"));
  EXPECT_THAT(failure(path, {.name = "user", .type = ColumnType::int64, .jagged = true}),
              HasSubstr("expected lists of integers"));
  EXPECT_THAT(
      failure(path, {.name = "age"}),
      HasSubstr("rows.parquet, row 1 of row group 0: column 'age': the field 'age' is null"));
  EXPECT_THAT(failure(folder_ / "none", {.name = "age"}), HasSubstr("none"));
  EXPECT_THAT(failure(folder_.write("text", "no parquet"), {.name = "age"}), HasSubstr("text: "));
  auto bytes = testing::read_all(path);
  for (std::size_t i = 4; i < bytes.size() / 2; ++i) {
    bytes[i] = static_cast<char>(~bytes[i]);
  }
  EXPECT_THAT(failure(folder_.write("damaged", bytes), {.name = "user", .type = ColumnType::int64}),
              HasSubstr("damaged: "));
}

}  // namespace
}  // namespace msstream::data
