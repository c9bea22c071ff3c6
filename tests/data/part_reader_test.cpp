// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "data/loaded.hpp"

#include <msstream/data/binary_reader.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/libsvm_reader.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/part_reader.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/data/transforms.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::data {
namespace {

using msstream::testing::message_of;
using msstream::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum ColumnType;

std::vector<std::int64_t> ids_in(Reader& reader, LoaderOptions options = {}) {
  std::vector<std::int64_t> ids;
  options.batch_size = 64;
  Loader loader(reader, options);
  for (auto const& batch : all_of(loader)) {
    ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
  }
  return ids;
}

std::vector<std::int64_t> part_of_counting(Part const& part, std::int64_t chunk_rows, int threads) {
  CountingReader rows(5'000, chunk_rows);
  PartReader reader(rows, part);
  return ids_in(reader, {.threads = threads});
}

TEST(PartReader, parts_are_disjoint_and_together_everything) {
  for (std::string const key : {"", "id"}) {
    std::vector<std::int64_t> all;
    for (auto const& [begin, end] :
         std::vector<std::pair<double, double>>{{0, 0.7}, {0.7, 0.9}, {0.9, 1}}) {
      Part const part{.begin = begin, .end = end, .seed = 3, .key = key};
      auto const ids = part_of_counting(part, 7, 1);
      EXPECT_NEAR(static_cast<double>(ids.size()) / 5'000, end - begin, 0.03);
      EXPECT_TRUE(std::ranges::is_sorted(ids));
      EXPECT_EQ(part_of_counting(part, 500, 3), ids);
      for (auto const id : ids) {
        EXPECT_TRUE(part.contains(id));
      }
      all.insert(all.end(), ids.begin(), ids.end());
    }
    std::ranges::sort(all);
    std::vector<std::int64_t> expected(5'000);
    std::iota(expected.begin(), expected.end(), 0);
    EXPECT_EQ(all, expected);
  }
  EXPECT_NE(part_of_counting({.end = 0.5, .seed = 1}, 7, 1),
            part_of_counting({.end = 0.5, .seed = 2}, 7, 1));
}

TEST(PartReader, the_function_of_parts_stays_the_same) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t number = 0; number < 40; ++number) {
    if (Part{.end = 0.2}.contains(number)) {
      numbers.push_back(number);
    }
  }
  EXPECT_THAT(numbers, ElementsAre(8, 12, 13, 20, 24, 29, 33, 37, 39));
}

TEST(PartReader, rows_of_a_user_are_in_one_part) {
  std::string text = "user,seen,x\n";
  for (int row = 0; row < 600; ++row) {
    text += fmt::format("u{},{}|{},{}\n", row * 37 % 60, row, row + 1, row);
  }
  TemporaryFolder const folder;
  auto const path = folder.write("rows.csv", text);
  std::vector<std::set<std::int64_t>> users;
  std::size_t rows = 0;
  for (auto const& part : {Part{.end = 0.8, .key = "user"}, Part{.begin = 0.8, .key = "user"}}) {
    CsvReader all(
        TextFile(path),
        {.columns = {{.name = "user", .type = hashed, .transforms = {Transform::vocabulary()}},
                     {.name = "seen", .type = int64, .value_separator = '|'},
                     {.name = "x"}},
         .chunk_bytes = 100});
    PartReader reader(all, part);
    Transforms const transforms(reader.schema());
    transforms.fit(reader);
    auto& found = users.emplace_back();
    Loader loader(reader, {.batch_size = 1'000, .transforms = transforms});
    auto const batch = loader.next().value();
    rows += static_cast<std::size_t>(batch.rows());
    for (std::size_t row = 0; row < static_cast<std::size_t>(batch.rows()); ++row) {
      auto const number = static_cast<std::int64_t>(batch.floats("x")[row]);
      EXPECT_EQ(batch.ints("seen")[2 * row], number);
      EXPECT_EQ(transforms.word("user", batch.ints("user")[row]),
                fmt::format("u{}", number * 37 % 60));
      found.insert(number * 37 % 60);
    }
    // Users of the other part are unknown.
    EXPECT_EQ(transforms.id_count("user"), static_cast<std::int64_t>(found.size()) + 1);
  }
  EXPECT_EQ(rows, 600U);
  EXPECT_EQ(users[0].size() + users[1].size(), 60U);
  EXPECT_GT(users[1].size(), 3U);
}

TEST(PartReader, a_position_continues_it) {
  for (std::string const key : {"", "id"}) {
    Part const part{.begin = 0.2, .end = 0.6, .key = key};
    LoaderOptions options{.batch_size = 10, .epochs = 3, .shuffle_rows = 20};
    CountingReader all(300);
    PartReader reader(all, part);
    std::vector<SeenBatch> expected;
    std::vector<std::string> positions;
    {
      Loader loader(reader, options);
      positions.push_back(to_string(loader.position()));
      while (auto const batch = loader.next()) {
        expected.push_back(seen(*batch));
        positions.push_back(to_string(loader.position()));
      }
    }
    for (std::size_t given = 0; given <= expected.size(); ++given) {
      CountingReader same(300);
      PartReader later(same, part);
      options.start = LoaderPosition::parse(positions[given]);
      EXPECT_EQ(to_string(*options.start), positions[given]);
      Loader loader(later, options);
      EXPECT_EQ(all_of(loader),
                std::vector(expected.begin() + static_cast<std::ptrdiff_t>(given), expected.end()));
    }
  }
}

TEST(PartReader, a_position_of_another_part_is_refused) {
  auto const position_of = [](Reader& reader) { return to_string(Loader(reader).position()); };
  auto const refusal = [](Reader& reader, std::string const& position) {
    return message_of<std::invalid_argument>(
        [&] { Loader(reader, {.start = LoaderPosition::parse(position)}).stop(); });
  };
  Part const training{.end = 0.9, .key = "id"};
  CountingReader rows(100);
  CountingReader others(100);
  auto const of_all = position_of(rows);
  std::string saved;
  {
    PartReader reader(rows, training);
    saved = position_of(reader);
    EXPECT_THAT(
        refusal(reader, of_all),
        HasSubstr("of another part of the rows: all; the reader gives the part: 0 to 0.9 of "
                  "seed 1 by column 'id' of all"));
    EXPECT_THAT(refusal(reader, of_all + " more=1"), HasSubstr("expected nothing more, found"));
  }
  EXPECT_THAT(
      refusal(rows, saved),
      HasSubstr("of another part of the rows: 0 to 0.9 of seed 1 by column 'id' of all; the "
                "reader gives the part: all"));
  for (auto const& part : {Part{.begin = 0.9, .key = "id"},
                           Part{.end = 0.91, .key = "id"},
                           Part{.end = 0.9, .seed = 2, .key = "id"},
                           Part{.end = 0.9}}) {
    PartReader reader(others, part);
    EXPECT_THAT(refusal(reader, saved),
                HasSubstr("of another part of the rows: 0 to 0.9 of seed 1"));
    // Text of former versions does not have the part.
    Loader(reader, {.start = LoaderPosition::parse(saved.substr(0, saved.find(" part=")))}).stop();
  }
  PartReader inner(others, {.end = 0.5, .seed = 3});
  PartReader outer(inner, training);
  EXPECT_THAT(
      refusal(outer, saved),
      HasSubstr("0 to 0.9 of seed 1 by column 'id' of 0 to 0.5 of seed 3 by number of all"));
  PartReader same(rows, training);
  EXPECT_EQ(Loader(same, {.start = LoaderPosition::parse(saved)}).position(),
            LoaderPosition::parse(saved));
}

TEST(PartReader, a_small_part_keeps_memory_for_its_rows_alone) {
  for (std::string const key : {"", "id"}) {
    CountingReader rows(4'000, 4'000);
    PartReader reader(rows, {.end = 0.02, .key = key});
    Chunk chunk(reader.schema());
    std::size_t row_count = 0;
    for (; reader.next(chunk); chunk = Chunk(reader.schema())) {
      auto const count = static_cast<std::size_t>(chunk.rows());
      row_count += count;
      EXPECT_LE(chunk.floats("pair").capacity(), 4 * count + 1);
      EXPECT_LE(chunk.ints("id").capacity(), 2 * count + 1);
      EXPECT_LE(chunk.ints("bag").capacity(), 2 * chunk.ints("bag").size() + 1);
      EXPECT_LE(chunk.offsets("bag").capacity(), 2 * count + 3);
    }
    EXPECT_NEAR(static_cast<double>(row_count), 80, 40);
  }
}

TEST(PartReader, errors_name_the_rows_of_the_file) {
  TemporaryFolder const folder;
  std::string text = "x\n";
  for (int row = 0; row < 200; ++row) {
    text += row == 123 ? "-5\n" : "1\n";
  }
  auto const path = folder.write("rows.csv", text);
  for (std::uint64_t const seed : {1, 2, 3, 4}) {
    Part const part{.end = 0.7, .seed = seed};
    CsvReader all(TextFile(path), {.columns = {{.name = "x", .transforms = {Transform::log1p()}}}});
    PartReader reader(all, part);
    Transforms const transforms(reader.schema());
    Loader loader(reader, {.transforms = transforms});
    if (part.contains(123)) {
      EXPECT_THAT(message_of<DataError>([&] { static_cast<void>(loader.next()); }),
                  HasSubstr("rows.csv, 123 rows behind line 2: column 'x': log1p() of -5"));
    } else {
      EXPECT_TRUE(loader.next());
    }
  }
}

TEST(PartReader, next_checks_rows_as_a_loader_does) {
  TemporaryFolder const folder;
  auto const path = folder.write("rows.csv", "id,a,b\n0,1,1\n1,2,2\n2,1|2,1\n");
  TextOptions const options{
      .columns = {{.name = "id", .type = int64},
                  {.name = "a", .type = int64, .value_separator = '|'},
                  {.name = "b", .value_separator = '|', .aligned_with = "a"}}};
  auto const error = [](Reader& reader) {
    Chunk chunk(reader.schema());
    return message_of<DataError>([&] { reader.next(chunk); });
  };
  auto const expected = ::testing::EndsWith(
      "rows.csv, 2 rows behind line 2: column 'b' has 1 values, column 'a' 2; expected equally "
      "many, as they are aligned");
  CsvReader reader(TextFile(path), options);
  EXPECT_THAT(error(reader), expected);
  for (std::string const key : {"", "id"}) {
    CsvReader all(TextFile(path), options);
    PartReader part(all, {.key = key});
    EXPECT_THAT(error(part), expected);
  }
}

/// Returns whether a task of the reader, and not the reading, finds the bad value in its rows, and
/// whether a part of the rows leaves that to its task.
bool parses_in_the_task(Reader& reader) {
  PartReader part(reader, {.end = 0.5});
  Chunk chunk(part.schema());
  auto const task = part.next_task();  // does not throw
  return !message_of<DataError>([&] { task(chunk); }).empty();
}

TEST(PartReader, threads_parse_the_rows_of_a_part_by_number) {
  TemporaryFolder const folder;
  CsvReader csv(TextFile(folder.write("rows.csv", "x\n1\nbad\n")), {.columns = {{"x"}}});
  EXPECT_TRUE(parses_in_the_task(csv));
  LibSvmReader libsvm(TextFile(folder.write("rows.svm", "1 1:2\n1 1:bad\n")));
  EXPECT_TRUE(parses_in_the_task(libsvm));
  std::vector<float> const values{1, std::numeric_limits<float>::infinity()};
  std::string_view const bytes(reinterpret_cast<char const*>(values.data()), 8);
  BinaryReader binary({{.name = "x", .path = folder.write("rows.f32", bytes)}});
  EXPECT_TRUE(parses_in_the_task(binary));
}

TEST(PartReader, texts_are_counted_before_they_are_parsed) {
  std::mt19937 random(5);
  auto const one_of = [&](std::vector<std::string> const& texts) {
    return texts[random() % texts.size()];
  };
  TemporaryFolder const folder;
  for (int round = 0; round < 60; ++round) {
    bool const is_csv = round % 2 == 0;
    std::string text = is_csv ? "id,name\n" : "";
    std::int64_t rows = 0;
    for (int line = 0; line < 40; ++line) {
      auto const id = fmt::format("{}", rows);
      auto const row = is_csv
                           ? id + one_of({",a", ",\"b\"", ",\"c\n\nd\"", ",\"e\r\n\"\"\n\"", ","})
                           : id + one_of({" 1:2", " 1:2 3:4", "", " # 5", "\t"});
      bool const none = random() % 3 == 0;
      rows += none ? 0 : 1;
      text += (none ? one_of(is_csv ? std::vector<std::string>{""}
                                    : std::vector<std::string>{"", "# 1 1:2", " \t", " #"})
                    : row) +
              (line == 39 && round % 3 == 0 ? "" : one_of({"\n", "\r\n"}));
    }
    auto const path = folder.write("rows", text);
    std::size_t const chunk_bytes = 1 + random() % 200;
    std::unique_ptr<Reader> reader;
    if (is_csv) {
      reader = std::make_unique<CsvReader>(
          TextFile(path),
          TextOptions{.columns = {{.name = "id"}, {.name = "name", .type = hashed}},
                      .chunk_bytes = chunk_bytes});
    } else {
      reader = std::make_unique<LibSvmReader>(
          TextFile(path), LibSvmOptions{.label = "id", .chunk_bytes = chunk_bytes});
    }
    std::int64_t counted_rows = 0;
    while (auto const counted = reader->next_counted_task()) {
      Chunk chunk(reader->schema());
      counted->task(chunk);
      ASSERT_EQ(chunk.rows(), counted->rows) << text;
      for (auto const id : chunk.floats("id")) {
        EXPECT_EQ(id, static_cast<float>(counted_rows++));
      }
    }
    EXPECT_EQ(counted_rows, rows);
    reader->seek({});
    for (int const threads : {1, 3}) {
      PartReader part(*reader, {.end = 0.5, .seed = 9});
      Loader loader(part, {.batch_size = 64, .threads = threads});
      std::vector<float> expected;
      for (std::int64_t row = 0; row < rows; ++row) {
        if (Part{.end = 0.5, .seed = 9}.contains(row)) {
          expected.push_back(static_cast<float>(row));
        }
      }
      EXPECT_THAT(loader.next().value().floats("id"), ::testing::ElementsAreArray(expected));
    }
  }
}

/// Says that its tasks append one row more than they do.
class Miscounting final : public Reader {
 public:
  [[nodiscard]] Schema const& schema() const override { return rows_.schema(); }
  bool next(Chunk& chunk) override { return rows_.next(chunk); }
  [[nodiscard]] Position position() const override { return rows_.position(); }
  void seek(Position const& position) override { rows_.seek(position); }
  [[nodiscard]] std::optional<CountedTask> next_counted_task() override {
    auto counted = Reader::next_counted_task();
    counted->rows += 1;
    return counted;
  }

 private:
  CountingReader rows_{10, 1};
};

TEST(PartReader, a_wrong_count_of_rows_is_refused) {
  Miscounting rows;
  PartReader part(rows, {.end = 0.5});
  Chunk chunk(part.schema());
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] { part.next(chunk); }),
      HasSubstr("part: a task of the reader appended 1 rows; its next_counted_task() said 2"));
}

TEST(PartReader, wrong_parts_are_refused) {
  auto const refusal = [](Part const& part) {
    CountingReader rows(10);
    return message_of<std::invalid_argument>([&] { PartReader reader(rows, part); });
  };
  EXPECT_THAT(refusal({.begin = 0.5, .end = 0.5}), HasSubstr("part: from 0.5 to 0.5; expected"));
  EXPECT_THAT(refusal({.end = 1.5}), HasSubstr("part: from 0 to 1.5"));
  EXPECT_THAT(refusal({.key = "user"}),
              HasSubstr("there is no column 'user'; the columns are pair"));
  EXPECT_THAT(refusal({.key = "pair"}), HasSubstr("column 'pair' has values of type float32"));
  EXPECT_THAT(refusal({.key = "bag"}), HasSubstr("column 'bag' has values of type int64, not one"));
  CountingReader rows(100);
  PartReader inner(rows, {.end = 0.5});
  EXPECT_THAT(message_of<std::invalid_argument>([&] { PartReader outer(inner, {}); }),
              HasSubstr("part: rows by number of a reader that gives a part by number"));
  PartReader outer(inner, {.end = 0.5, .seed = 2, .key = "id"});
  EXPECT_GT(ids_in(outer).size(), 5U);
}

}  // namespace
}  // namespace msstream::data
