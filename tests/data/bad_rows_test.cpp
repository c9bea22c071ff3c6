// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/libsvm_reader.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/part_reader.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/data/transforms.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <optional>
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

constexpr char const* kSpoiled =
    "id,x,a,b\n"
    "0,0.5,1|2,3|4\n"
    "1,bad,1,2\n"
    "2,0.5,,\n"
    "3,0.5,1\n"
    "\n"
    "4,\"0.5\",7,8\n"
    "5,\"0\"5,7,8\n"
    "6,0.5,1|2,3\n"
    "7,0.5,9,9\n";

CsvReader spoiled_reader(TemporaryFolder const& folder,
                         std::int64_t max_bad_rows,
                         std::size_t chunk_bytes,
                         std::string const& text = kSpoiled) {
  return CsvReader(TextFile(folder.write("rows.csv", text)),
                   {.columns = {{.name = "id", .type = int64},
                                {.name = "x"},
                                {.name = "a", .type = int64, .value_separator = '|'},
                                {.name = "b", .value_separator = '|', .aligned_with = "a"}},
                    .max_bad_rows = max_bad_rows,
                    .chunk_bytes = chunk_bytes});
}

TEST(BadRows, are_left_out_and_counted) {
  TemporaryFolder const folder;
  for (std::size_t const bytes : {1UL, 30UL, 1'000UL}) {
    for (int const threads : {1, 3}) {
      auto reader = spoiled_reader(folder, 4, bytes);
      Loader loader(reader, {.epochs = 3, .threads = threads});
      for (int epoch = 0; epoch < 3; ++epoch) {
        auto const batch = loader.next().value();
        EXPECT_THAT(batch.ints("id"), ElementsAre(0, 2, 4, 7));
        EXPECT_THAT(batch.floats("x"), ::testing::Each(0.5F));
        EXPECT_THAT(batch.ints("a"), ElementsAre(1, 2, 7, 9));
        EXPECT_THAT(batch.offsets("a"), ElementsAre(0, 2, 2, 3, 4));
        EXPECT_THAT(batch.floats("b"), ElementsAre(3, 4, 8, 9));
      }
      EXPECT_FALSE(loader.next());
      auto const bad = reader.bad_rows();
      EXPECT_EQ(bad.count, 4);
      EXPECT_THAT(bad.first,
                  ElementsAre(HasSubstr("rows.csv:3: column 2 (x): expected a number, found 'bad'"),
                              HasSubstr("rows.csv:5: expected 4 columns, found 3"),
                              HasSubstr("rows.csv:8: column 2: expected ',' or the end"),
                              HasSubstr("rows.csv:9: column 'b' has 1 values, column 'a' 2")));
    }
  }
}

TEST(BadRows, one_too_many_is_an_error_with_the_first_ones) {
  TemporaryFolder const folder;
  for (std::size_t const bytes : {1UL, 1'000UL}) {
    for (int const threads : {1, 3}) {
      auto reader = spoiled_reader(folder, 2, bytes);
      Loader loader(reader, {.threads = threads});
      auto const error = message_of<DataError>([&] { static_cast<void>(loader.next()); });
      EXPECT_THAT(error, HasSubstr("rows.csv:8: column 2: expected ','"));
      EXPECT_THAT(error, HasSubstr("; more bad rows than max_bad_rows, which is 2; the first: "));
      EXPECT_THAT(error, HasSubstr("rows.csv:3: column 2 (x): expected a number, found 'bad'; "));
      EXPECT_EQ(reader.bad_rows().count, 2);
    }
  }
  auto strict = spoiled_reader(folder, 0, 1'000);
  EXPECT_THAT(message_of<DataError>([&] { static_cast<void>(Loader(strict).next()); }),
              ::testing::EndsWith("rows.csv:3: column 2 (x): expected a number, found 'bad'"));
  EXPECT_EQ(strict.bad_rows().count, 0);
  EXPECT_THAT(message_of<std::invalid_argument>([&] { spoiled_reader(folder, -1, 100); }),
              HasSubstr("max_bad_rows: expected at least 0, found -1"));
}

TEST(BadRows, a_stray_quote_counts_all_lines_that_it_joins) {
  TemporaryFolder const folder;
  std::string text = "id,name,x\n";
  for (int row = 1; row <= 902; ++row) {
    text += row == 1 ? "1,\"b,1\n" : row == 900 ? "900,\"b\",1\n" : fmt::format("{},b,1\n", row);
  }
  auto const path = folder.write("rows.csv", text);
  auto const reader_of = [&](std::int64_t most) {
    return std::make_shared<CsvReader>(
        TextFile(path),
        TextOptions{.columns = {{.name = "id", .type = int64}, {.name = "x"}},
                    .max_bad_rows = most});
  };
  for (std::int64_t const most : {1, 899}) {
    auto const few = reader_of(most);
    auto const error = message_of<DataError>([&] { static_cast<void>(Loader(few).next()); });
    EXPECT_THAT(error, HasSubstr("rows.csv:2: column 2: expected ',' or the end"));
    EXPECT_THAT(error,
                ::testing::EndsWith(fmt::format("; quotes join the lines 2 to 901; more bad rows "
                                                "than max_bad_rows, which is {}",
                                                most)));
    EXPECT_EQ(few->bad_rows().count, 0);
  }
  auto const reader = reader_of(900);
  EXPECT_THAT(Loader(reader).next().value().ints("id"), ElementsAre(901, 902));
  EXPECT_EQ(reader->bad_rows().count, 900);
  EXPECT_EQ(reader->bad_rows().first.size(), 1U);
}

/// Returns rows of which every seventh cannot be read, and those that remain have their number.
std::string seventh_is_bad(int rows) {
  std::string text = "id,x,a,b\n";
  for (int row = 0; row < rows; ++row) {
    text += row % 7 == 3 ? "?,0,,\n" : fmt::format("{},0.5,,\n", row);
  }
  return text;
}

TEST(BadRows, positions_continue_among_the_others) {
  TemporaryFolder const folder;
  auto const text = seventh_is_bad(100);
  LoaderOptions options{.batch_size = 5, .epochs = 2, .shuffle_rows = 10};
  auto const ids_from = [&](std::optional<LoaderPosition> const& start,
                            std::size_t bytes,
                            std::vector<std::string>* positions) {
    auto reader = spoiled_reader(folder, 15, bytes, text);
    options.start = start;
    Loader loader(reader, options);
    std::vector<std::int64_t> ids;
    while (auto const batch = loader.next()) {
      ids.insert(ids.end(), batch->ints("id").begin(), batch->ints("id").end());
      if (positions != nullptr) {
        positions->push_back(to_string(loader.position()));
      }
    }
    return ids;
  };
  std::vector<std::string> positions;
  auto const all = ids_from({}, 60, &positions);
  ASSERT_EQ(all.size(), 2U * 86);
  std::size_t given = 0;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    given += i == positions.size() / 2 - 1 || i + 1 == positions.size() ? 1 : 5;
    auto const rest = ids_from(LoaderPosition::parse(positions[i]), i % 2 == 0 ? 60 : 1'000, {});
    EXPECT_EQ(rest, std::vector(all.begin() + static_cast<std::ptrdiff_t>(given), all.end()));
  }
}

TEST(BadRows, are_none_of_the_rows_of_a_fit_and_of_a_part) {
  TemporaryFolder const folder;
  auto const path = folder.write("rows.csv", "x,word\n1,a\n?,b\n-4,a\n\n5,c\n");
  CsvReader all(
      TextFile(path),
      {.columns = {{.name = "x", .transforms = {Transform::normalize()}},
                   {.name = "word", .type = hashed, .transforms = {Transform::vocabulary()}}},
       .max_bad_rows = 1});
  PartReader reader(all, {});
  Transforms const transforms(reader.schema());
  transforms.fit(reader);
  transforms.fit(reader);
  EXPECT_EQ(reader.bad_rows().count, 1);
  EXPECT_EQ(all.bad_rows().count, 1);
  EXPECT_EQ(transforms.id_count("word"), 3);
  EXPECT_EQ(transforms.word("word", 1), "a");
  // A transform's error names the row among all rows of its chunk.
  CsvReader logarithms(
      TextFile(path),
      {.columns = {{.name = "x", .transforms = {Transform::log1p()}}}, .max_bad_rows = 1});
  Transforms const log1p(logarithms.schema());
  EXPECT_THAT(message_of<DataError>(
                  [&] { static_cast<void>(Loader(logarithms, {.transforms = log1p}).next()); }),
              HasSubstr("rows.csv, 2 rows behind line 2: column 'x': log1p() of -4"));
}

/// Passes on the rows of another reader.
class Forwarding final : public Reader {
 public:
  explicit Forwarding(Reader& rows) : rows_(rows) {}

  [[nodiscard]] Schema const& schema() const override { return rows_.schema(); }
  bool next(Chunk& chunk) override { return rows_.next(chunk); }
  [[nodiscard]] Position position() const override { return rows_.position(); }
  void seek(Position const& position) override { rows_.seek(position); }
  [[nodiscard]] Task next_task() override { return rows_.next_task(); }

 private:
  Reader& rows_;
};

TEST(BadRows, are_counted_by_the_reader_whose_tasks_another_one_passes_on) {
  TemporaryFolder const folder;
  auto reader = spoiled_reader(folder, 4, 30);
  Forwarding forwarding(reader);
  Transforms(forwarding.schema()).fit(forwarding);
  EXPECT_EQ(reader.bad_rows().count, 4);
  EXPECT_THAT(Loader(forwarding).next().value().ints("id"), ElementsAre(0, 2, 4, 7));
  PartReader part(forwarding, {.key = "id"});
  EXPECT_THAT(Loader(part).next().value().ints("id"), ElementsAre(0, 2, 4, 7));
  EXPECT_EQ(reader.bad_rows().count, 4);
  auto strict = spoiled_reader(folder, 3, 30);
  Forwarding too_many(strict);
  EXPECT_THAT(
      message_of<DataError>([&] { static_cast<void>(Loader(too_many).next()); }),
      HasSubstr("they are aligned; more bad rows than max_bad_rows, which is 3; the first"));
}

TEST(BadRows, of_libsvm_files_are_left_out) {
  TemporaryFolder const folder;
  auto const path = folder.write("rows.svm", "1 1:5\n0 2:x\n# nothing\n1 3:1 2:1\n0 7:1\n");
  LibSvmReader reader(TextFile(path), {.max_bad_rows = 2});
  auto const batch = Loader(reader).next().value();
  EXPECT_THAT(batch.floats("label"), ElementsAre(1, 0));
  EXPECT_THAT(batch.ints("index"), ElementsAre(0, 6));
  EXPECT_THAT(reader.bad_rows().first,
              ElementsAre(HasSubstr("rows.svm:2: expected index:value, found '2:x'"),
                          HasSubstr("rows.svm:4: expected an index above 3, found '2:1'")));
}

TEST(BadRows, conversions_that_throw_name_the_place_and_the_value) {
  TemporaryFolder const folder;
  auto const path = folder.write("rows.csv", "user,tags\n7,1\n8,1|x\n\"y\",2\n");
  TextOptions options{
      .columns = {{.name = "user",
                   .type = int64,
                   .to_int = [](std::string_view text) -> std::optional<std::int64_t> {
                     return std::stoll(std::string(text));
                   }},
                  {.name = "tags",
                   .value_separator = '|',
                   .to_float = [](std::string_view text) -> std::optional<float> {
                     return text == "x" ? throw std::runtime_error("no such tag") : 1.0F;
                   }}}};
  EXPECT_THAT(
      message_of<DataError>([&] {
        CsvReader reader(TextFile(path), options);
        static_cast<void>(Loader(reader).next());
      }),
      HasSubstr("rows.csv:3: column 2 (tags): expected a number, found '1|x': no such tag"));
  options.max_bad_rows = 2;
  CsvReader reader(TextFile(path), options);
  EXPECT_THAT(Loader(reader).next().value().ints("user"), ElementsAre(7));
  EXPECT_THAT(reader.bad_rows().first[1],
              HasSubstr("rows.csv:4: column 1 (user): expected an integer, found 'y': stoll"));
}

}  // namespace
}  // namespace msstream::data
