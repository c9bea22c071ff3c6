// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/data/binary_reader.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/libsvm_reader.hpp>
#include <msstream/data/loader.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace msstream::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

template <class T>
std::string bytes_of(std::vector<T> const& values) {
  return {reinterpret_cast<char const*>(values.data()), values.size() * sizeof(T)};
}

TEST(LibSvmReader, reads_labels_queries_and_the_features_that_a_row_has) {
  TemporaryFolder const folder;
  auto const path = folder.write(
      "rows", "+1 qid:7 1:0.5 3:-2 # a comment\r\n\n# nothing else\n-1 qid:8\n0.5 qid:8\t10:1e3");
  for (std::size_t const chunk_bytes : {1, 1'000}) {
    LibSvmReader reader(path, {.query = "query", .chunk_bytes = chunk_bytes});
    Loader loader(reader, {.batch_size = 10});
    auto const batch = loader.next().value();
    EXPECT_THAT(batch.floats("label"), ElementsAre(1, -1, 0.5F));
    EXPECT_THAT(batch.ints("query"), ElementsAre(7, 8, 8));
    EXPECT_THAT(batch.offsets("index"), ElementsAre(0, 2, 2, 3));
    EXPECT_THAT(batch.offsets("value"), ElementsAre(0, 2, 2, 3));
    EXPECT_THAT(batch.ints("index"), ElementsAre(0, 2, 9));
    EXPECT_THAT(batch.floats("value"), ElementsAre(0.5F, -2, 1'000));
  }
}

TEST(LibSvmReader, malformed_lines_are_refused_with_file_and_line) {
  struct Malformed {
    std::string_view line;
    std::string_view message;
  };
  for (auto const& [line, message] : std::vector<Malformed>{
           {"x 1:2", "rows:2: expected a label, found 'x'"},
           {"nan 1:2", "rows:2: expected a label, found 'nan'"},
           {"++1 1:2", "rows:2: expected a label, found '++1'"},
           {"1 2", "rows:2: expected index:value, found '2'"},
           {"1 :2", "rows:2: expected index:value, found ':2'"},
           {"1 1:", "rows:2: expected index:value, found '1:'"},
           {"1 1:2:3", "rows:2: expected index:value, found '1:2:3'"},
           {"1 a:2", "rows:2: expected index:value, found 'a:2'"},
           {"1 1:inf", "rows:2: expected index:value, found '1:inf'"},
           {"1 0:2", "rows:2: expected an index above 0, found '0:2'"},
           {"1 -3:2", "rows:2: expected an index above 0, found '-3:2'"},
           {"1 2:2 2:3", "rows:2: expected an index above 2, found '2:3'"},
           {"1 5:2", "rows:2: expected an index of at most 4, found '5:2'"},
           {"1 1:1e39", "rows:2: expected index:value, found '1:1e39'"},
           {"1 qid:1 2:2", "rows:2: expected index:value, found 'qid:1'"},
       }) {
    TemporaryFolder const folder;
    LibSvmReader reader(folder.write("rows", "1 1:1\n" + std::string(line) + "\n0 1:1\n"),
                        {.features = 4});
    Chunk chunk(reader.schema());
    EXPECT_THAT(message_of<DataError>([&] { reader.next(chunk); }), ::testing::EndsWith(message));
  }
  TemporaryFolder const folder;
  LibSvmReader reader(folder.write("rows", "1 1:1\n"), {.query = "q"});
  Chunk chunk(reader.schema());
  EXPECT_THAT(message_of<DataError>([&] { reader.next(chunk); }),
              HasSubstr("rows:1: expected qid:number, found '1:1'"));
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] { LibSvmReader(folder / "rows", {.features = -1}); }),
      HasSubstr("features is -1"));
}

class BinaryReaderTest : public ::testing::Test {
 protected:
  std::vector<BinaryColumn> columns() {
    return {{"x",
             folder_.write("x", bytes_of<float>({1, 2, 3, 4, 5, 6})),
             BinaryColumn::Stored::float32,
             2},
            {"id",
             folder_.write("id", bytes_of<std::int32_t>({-7, 8, 9})),
             BinaryColumn::Stored::int32},
            {.name = "bag",
             .path = folder_.write("bag", bytes_of<std::int64_t>({10, 20, 30, 40})),
             .stored = BinaryColumn::Stored::int64,
             .width = kJagged,
             .offsets = folder_.write("offsets", bytes_of<std::int64_t>({0, 3, 3, 4}))}};
  }
  std::string failure(std::vector<BinaryColumn> const& columns) {
    return message_of<DataError>([&] {
      BinaryReader reader(columns);
      Chunk chunk(reader.schema());
      reader.next(chunk);
    });
  }

  TemporaryFolder folder_;
};

TEST_F(BinaryReaderTest, reads_rows_from_the_files_of_their_columns) {
  for (std::int64_t const chunk_rows : {1, 2, 100}) {
    BinaryReader reader(columns(), {.chunk_rows = chunk_rows});
    EXPECT_EQ(reader.rows(), 3);
    Loader loader(reader, {.batch_size = 10, .threads = 3});
    auto const batch = loader.next().value();
    EXPECT_THAT(batch.floats("x"), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(batch.ints("id"), ElementsAre(-7, 8, 9));
    EXPECT_THAT(batch.ints("bag"), ElementsAre(10, 20, 30, 40));
    EXPECT_THAT(batch.offsets("bag"), ElementsAre(0, 3, 3, 4));
  }
}

template <class T>
void expect_read(TemporaryFolder const& folder,
                 BinaryColumn::Stored stored,
                 std::vector<T> const& values) {
  BinaryReader reader(
      {{.name = "x", .path = folder.write("x", bytes_of(values)), .stored = stored}});
  Chunk chunk(reader.schema());
  ASSERT_TRUE(reader.next(chunk));
  if constexpr (std::is_floating_point_v<T>) {
    EXPECT_THAT(chunk.floats("x"), ::testing::ElementsAreArray(values));
  } else {
    EXPECT_THAT(chunk.ints("x"), ::testing::ElementsAreArray(values));
  }
}

TEST_F(BinaryReaderTest, numbers_of_every_type_become_float32_or_int64) {
  using enum BinaryColumn::Stored;
  expect_read<double>(folder_, float64, {-1.5, 0, 0x1p127});
  expect_read<std::int8_t>(folder_, int8, {-128, 0, 127});
  expect_read<std::uint8_t>(folder_, uint8, {0, 128, 255});
  expect_read<std::int16_t>(folder_, int16, {-32'768, 0, 32'767});
  expect_read<std::uint16_t>(folder_, uint16, {0, 32'768, 65'535});
  expect_read<std::int32_t>(folder_, int32, {INT32_MIN, INT32_MAX});
  expect_read<std::uint32_t>(folder_, uint32, {0, UINT32_MAX});
  expect_read<std::int64_t>(folder_, int64, {INT64_MIN, INT64_MAX});
}

TEST_F(BinaryReaderTest, numbers_that_a_column_does_not_have_are_refused_with_their_row) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  using enum BinaryColumn::Stored;
  BinaryColumn column{.name = "x", .path = folder_ / "x", .stored = float64, .width = 2};
  auto const failure_of = [&](auto const& values) {
    folder_.write("x", bytes_of(values));
    return failure({column});
  };
  EXPECT_THAT(failure_of(std::vector<double>{1, 2, 3, 4, 5, 1e39}),
              ::testing::EndsWith("x: column 'x': row 2 is 1e+39; expected a finite float32"));
  EXPECT_THAT(failure_of(std::vector<double>{1, 2, nan, 4}), HasSubstr("row 1 is nan"));
  column.stored = float32;
  EXPECT_THAT(failure_of(std::vector<float>{1, -INFINITY}), HasSubstr("row 0 is -inf"));
  column.transforms = {Transform::normalize()};
  EXPECT_THAT(failure_of(std::vector<float>{1, NAN}), HasSubstr("row 0 is nan"));
  column.transforms.push_back(Transform::fill_missing(0));
  EXPECT_THAT(failure_of(std::vector<float>{1, INFINITY}), HasSubstr("row 0 is inf"));
  folder_.write("x", bytes_of<float>({1, NAN}));
  BinaryReader reader({column});
  Chunk chunk(reader.schema());
  EXPECT_TRUE(reader.next(chunk));
  column = {.name = "x",
            .path = folder_.write("x", bytes_of<double>({1, nan})),
            .stored = float64,
            .width = kJagged,
            .offsets = folder_.write("o", bytes_of<std::int64_t>({0, 2}))};
  EXPECT_THAT(failure({column}), HasSubstr("value 1 is nan"));
}

TEST_F(BinaryReaderTest, continues_at_a_row) {
  BinaryReader reader(columns(), {.chunk_rows = 1});
  Chunk chunk(reader.schema());
  ASSERT_TRUE(reader.next(chunk));
  auto const position = reader.position();
  BinaryReader other(columns(), {.chunk_rows = 9});
  other.seek(position);
  chunk.clear();
  ASSERT_TRUE(other.next(chunk));
  EXPECT_THAT(chunk.ints("id"), ElementsAre(8, 9));
  EXPECT_THAT(chunk.ints("bag"), ElementsAre(40));
  EXPECT_THAT(chunk.offsets("bag"), ElementsAre(0, 0, 1));
  chunk.clear();
  EXPECT_FALSE(other.next(chunk));
  EXPECT_THROW(other.seek({.offset = 4}), std::invalid_argument);
}

TEST_F(BinaryReaderTest, files_that_do_not_fit_are_refused_by_name) {
  auto all = columns();
  folder_.write("id", bytes_of<std::int32_t>({1, 2}));
  EXPECT_THAT(failure(all), HasSubstr("id: has 2 rows; "));
  folder_.write("id", "12345");
  EXPECT_THAT(failure(all), HasSubstr("id: has 5 bytes; expected a multiple of 4"));
  folder_.write("id", "\x93NUMPY\x01\x02");
  EXPECT_THAT(failure(all), HasSubstr("id: is a .npy file; expected values without a header"));
  all = columns();
  folder_.write("x", bytes_of<float>({1, 2, 3}));
  EXPECT_THAT(failure(all), HasSubstr("x: has 3 values; expected a multiple of 2"));
  all = columns();
  for (auto const& offsets : std::vector<std::vector<std::int64_t>>{
           {0, 3, 2, 4}, {1, 3, 3, 4}, {0, -1, 3, 4}, {0, 5, 5, 4}}) {
    folder_.write("offsets", bytes_of(offsets));
    EXPECT_THAT(failure(all), HasSubstr("offsets: the offsets of rows 0 to 2 do not ascend"));
  }
  for (std::int64_t const last : {std::int64_t{3}, std::int64_t{5}, INT64_MAX}) {
    folder_.write("offsets", bytes_of<std::int64_t>({0, 3, 3, last}));
    EXPECT_THAT(failure(all), HasSubstr(fmt::format("offsets: ends with {}; expected 4", last)));
  }
  folder_.write("offsets", "");
  EXPECT_THAT(failure(all), HasSubstr("offsets: "));
  all = columns();
  all[0].path = folder_ / "none";
  EXPECT_THAT(failure(all), HasSubstr("none: cannot open: No such file"));
  all = columns();
  all[2].offsets.clear();
  EXPECT_THAT(message_of<std::invalid_argument>([&] { BinaryReader reader(all); }),
              HasSubstr("column 'bag' has a width of 0 and no file of offsets"));
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] { BinaryReader(columns(), {.chunk_rows = 0}); }),
      HasSubstr("chunk_rows is 0"));
}

}  // namespace
}  // namespace msstream::data
