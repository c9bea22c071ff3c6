// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/string_key.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/data/transforms.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::data {
namespace {

using msstream::testing::message_of;
using msstream::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using enum ColumnType;

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

/// Returns the columns of a data set with a transform of every kind.
std::vector<TextColumn> every_kind() {
  return {{.name = "label"},
          {.name = "sizes",
           .fields = {"width", "height"},
           .transforms = {Transform::fill_missing(1),
                          Transform::clip(0, 100),
                          Transform::log1p(),
                          Transform::normalize()}},
          {.name = "country",
           .type = hashed,
           .transforms = {Transform::vocabulary({.min_count = 2, .oov_buckets = 3})}},
          {.name = "shop", .type = int64, .transforms = {Transform::vocabulary()}},
          {.name = "tags",
           .type = hashed,
           .value_separator = '|',
           .transforms = {Transform::vocabulary({.max_values = 2})}},
          {.name = "site", .type = hashed, .transforms = {Transform::hash({10, 7})}}};
}

constexpr char const* kRows =
    "label,width,height,country,shop,tags,site\n"
    "1,3,1000,DE,500,a|b,x.org\n"
    "0,,5,FR,-7,,y.org\n"
    "1,7,-2,DE,500,b|c|b,\n"
    "0,1,1,\"FR\",9,a,x.org\n"
    "0,2,0,,9,d,z.org\n"
    "1,2,0,,500,,z.org\n"
    "1,2,0,IT,500,,z.org\n";

std::shared_ptr<CsvReader> reader_of(TemporaryFolder const& folder,
                                     std::string const& text,
                                     std::vector<TextColumn> columns,
                                     std::size_t chunk_bytes = 64) {
  return std::make_shared<CsvReader>(
      TextFile(folder.write("rows.csv", text)),
      TextOptions{.columns = std::move(columns), .chunk_bytes = chunk_bytes});
}

template <class T>
std::vector<T> list(Values<T> const& values) {
  return {values.begin(), values.end()};
}

TEST(TransformsTest, vocabularies_begin_with_what_is_frequent) {
  TemporaryFolder const folder;
  auto const reader = reader_of(folder, kRows, every_kind());
  Transforms const transforms(reader->schema());
  EXPECT_FALSE(transforms.is_fitted());
  transforms.fit(*reader);
  EXPECT_TRUE(transforms.is_fitted());
  // Three words occur twice, in the order of their keys, behind three buckets.
  EXPECT_EQ(transforms.id_count("country"), 6);
  std::map<std::int64_t, std::string> expected{
      {string_key("DE"), "DE"}, {string_key("FR"), "FR"}, {string_key(""), ""}};
  std::int64_t id = 3;
  for (auto const& [key, word] : expected) {
    EXPECT_EQ(transforms.word("country", id), word);
    EXPECT_EQ(transforms.key("country", id), key);
    ++id;
  }
  EXPECT_EQ(transforms.word("country", 2), std::nullopt);
  EXPECT_EQ(transforms.id_count("shop"), 4);
  EXPECT_EQ(transforms.key("shop", 1), 500);
  EXPECT_EQ(transforms.key("shop", 2), 9);
  EXPECT_EQ(transforms.key("shop", 3), -7);
  EXPECT_EQ(transforms.word("shop", 3), std::nullopt);
  EXPECT_EQ(transforms.id_count("tags"), 3);
  EXPECT_EQ(transforms.word("tags", 1), "b");
  EXPECT_EQ(transforms.word("tags", 2), "a");
  EXPECT_EQ(transforms.id_count("site"), 10);
}

TEST(TransformsTest, numbers_have_mean_0_and_deviation_1) {
  TemporaryFolder const folder;
  auto const reader = reader_of(folder, kRows, every_kind());
  Transforms const transforms(reader->schema());
  transforms.fit(*reader);
  Loader loader(reader, {.transforms = transforms});
  auto const batch = loader.next();
  ASSERT_TRUE(batch);
  std::vector<double> const widths{3, 1, 7, 1, 2, 2, 2};
  std::vector<double> const heights{100, 5, 0, 1, 0, 0, 0};
  for (std::size_t slot = 0; slot < 2; ++slot) {
    auto const& raw = slot == 0 ? widths : heights;
    double mean = 0;
    double squares = 0;
    for (auto const value : raw) {
      mean += std::log1p(value) / 7;
    }
    for (auto const value : raw) {
      squares += std::pow(std::log1p(value) - mean, 2) / 7;
    }
    for (std::size_t row = 0; row < 7; ++row) {
      EXPECT_NEAR(batch->floats("sizes")[2 * row + slot],
                  (std::log1p(raw[row]) - mean) / std::sqrt(squares),
                  1e-6);
    }
  }
  EXPECT_EQ(batch->floats("label")[0], 1.0F);
  EXPECT_EQ(batch->schema().columns()[2].type, int64);
  EXPECT_TRUE(batch->schema().columns()[2].transforms.empty());
}

TEST(TransformsTest, chunks_do_not_matter) {
  TemporaryFolder const folder;
  std::vector<std::vector<float>> sizes;
  std::vector<std::vector<std::int64_t>> tags;
  for (std::size_t const bytes : {1UL, 100UL, 1UL << 20U}) {
    auto const reader = reader_of(folder, kRows, every_kind(), bytes);
    Transforms const transforms(reader->schema());
    transforms.fit(*reader);
    Loader loader(reader, {.threads = 3, .transforms = transforms});
    auto const batch = loader.next();
    sizes.emplace_back(batch->floats("sizes").begin(), batch->floats("sizes").end());
    tags.emplace_back(batch->ints("tags").begin(), batch->ints("tags").end());
  }
  EXPECT_EQ(sizes[0], sizes[1]);
  EXPECT_EQ(sizes[0], sizes[2]);
  EXPECT_EQ(tags[0], tags[1]);
  EXPECT_EQ(tags[0], tags[2]);
}

TEST(TransformsTest, queries_get_what_the_training_got) {
  TemporaryFolder const folder;
  auto const reader = reader_of(folder, kRows, every_kind());
  Transforms const transforms(reader->schema());
  transforms.fit(*reader);
  Loader loader(reader, {.transforms = transforms});
  auto const batch = loader.next();
  // The second row, as a query without the label: a width and all tags are missing.
  auto columns = reader->schema().columns();
  columns.erase(columns.begin());
  Chunk raw{Schema(columns)};
  raw.floats("sizes").assign({kMissing, 5.0F});
  raw.add_text("country", "FR");
  raw.ints("shop").push_back(-7);
  raw.offsets("tags").push_back(0);
  raw.add_text("site", "y.org");
  auto const row = transforms.apply(raw);
  EXPECT_THAT(list(row.floats("sizes")),
              ElementsAre(batch->floats("sizes")[2], batch->floats("sizes")[3]));
  EXPECT_EQ(row.ints("country")[0], batch->ints("country")[1]);
  EXPECT_EQ(row.ints("shop")[0], batch->ints("shop")[1]);
  EXPECT_EQ(row.ints("site")[0], batch->ints("site")[1]);
  EXPECT_TRUE(row.ints("tags").empty());
}

TEST(TransformsTest, unknown_words_go_to_their_buckets) {
  Schema const schema({{.name = "word",
                        .type = hashed,
                        .width = kJagged,
                        .transforms = {Transform::vocabulary({.oov_buckets = 4})}}});
  TemporaryFolder const folder;
  auto const reader = reader_of(folder,
                                "word\nknown\n",
                                {{.name = "word",
                                  .type = hashed,
                                  .value_separator = '|',
                                  .transforms = {Transform::vocabulary({.oov_buckets = 4})}}});
  Transforms const transforms(schema);
  transforms.fit(*reader);
  Chunk raw(schema);
  raw.add_text("word", "known");
  std::vector<std::int64_t> seen(4);
  for (int i = 0; i < 100; ++i) {
    raw.add_text("word", "unknown" + std::to_string(i));
  }
  raw.offsets("word").push_back(101);
  auto const ids = transforms.apply(raw).ints("word");
  EXPECT_EQ(ids[0], 4);
  for (std::size_t i = 1; i < ids.size(); ++i) {
    ASSERT_TRUE(ids[i] >= 0 && ids[i] < 4) << ids[i];
    ++seen[static_cast<std::size_t>(ids[i])];
  }
  for (auto const count : seen) {
    EXPECT_GT(count, 10);
  }
}

TEST(TransformsTest, a_constant_column_has_a_result) {
  TemporaryFolder const folder;
  std::vector<TextColumn> const columns{
      {.name = "x", .transforms = {Transform::normalize(), Transform::fill_missing(0)}},
      {.name = "word", .type = hashed, .transforms = {Transform::vocabulary()}}};
  auto const apply = [&](Transforms const& transforms, std::vector<float> const& values) {
    Chunk raw{Schema({{.name = "x", .transforms = columns[0].transforms}})};
    raw.floats("x").assign(values.begin(), values.end());
    return list(transforms.apply(raw).floats("x"));
  };
  auto const constant = reader_of(folder, "x,word\n4,\n4,\n,\n", columns);
  Transforms const transforms(constant->schema());
  transforms.fit(*constant);
  EXPECT_THAT(apply(transforms, {4, 5, kMissing}), ElementsAre(0.0F, 1.0F, 0.0F));
  auto const missing = reader_of(folder, "x,word\n,\n", columns);
  transforms.fit(*missing);
  EXPECT_THAT(apply(transforms, {4}), ElementsAre(4.0F));
}

TEST(TransformsTest, values_that_cannot_be_transformed_are_told_by_name) {
  Schema const schema({{.name = "x", .transforms = {Transform::log1p()}}});
  Transforms const transforms(schema);
  auto const message = [&](float value) {
    Chunk raw(schema);
    raw.floats("x").push_back(value);
    return message_of<DataError>([&] { static_cast<void>(transforms.apply(raw)); });
  };
  EXPECT_THAT(message(-1), HasSubstr("row 0: column 'x': log1p() of -1"));
  EXPECT_THAT(message(kMissing), HasSubstr("column 'x': a number is missing"));
  EXPECT_THAT(message(std::numeric_limits<float>::infinity()), HasSubstr("becomes inf"));
}

TEST(TransformsTest, wrong_statements_are_refused) {
  auto const refusal = [](Column const& column) {
    return message_of<std::invalid_argument>([&] { Transforms const made(Schema({column})); });
  };
  EXPECT_THAT(refusal({.name = "x", .transforms = {Transform::vocabulary()}}),
              HasSubstr("column 'x' has values of type float32; vocabulary("));
  EXPECT_THAT(refusal({.name = "x", .type = int64, .transforms = {Transform::fill_missing(0)}}),
              HasSubstr("fill_missing(0) is for numbers of type float32"));
  EXPECT_THAT(refusal({.name = "x", .type = hashed, .transforms = {Transform::log1p()}}),
              HasSubstr("log1p() is for numbers"));
  EXPECT_THAT(refusal({.name = "x",
                       .type = int64,
                       .transforms = {Transform::hash({5}), Transform::vocabulary()}}),
              HasSubstr("has 2 transforms; expected hash(buckets=5, salt=0) alone"));
  EXPECT_THAT(refusal({.name = "x", .type = hashed, .transforms = {Transform::hash({})}}),
              HasSubstr("expected at least 1 bucket"));
  EXPECT_THAT(
      refusal(
          {.name = "x", .type = hashed, .transforms = {Transform::vocabulary({.min_count = 0})}}),
      HasSubstr("expected a min_count of at least 1"));
  EXPECT_THAT(refusal({.name = "x", .transforms = {Transform::clip(2, 1)}}),
              HasSubstr("clip(2, 1)"));
  EXPECT_THAT(refusal({.name = "x", .transforms = {Transform::fill_missing(kMissing)}}),
              HasSubstr("expected a finite number"));
  EXPECT_THAT(
      refusal({.name = "x", .transforms = {Transform::normalize(), Transform::normalize()}}),
      HasSubstr("normalize() more than once"));
}

TEST(TransformsTest, rows_of_other_statements_are_refused) {
  TemporaryFolder const folder;
  auto const reader = reader_of(folder, kRows, every_kind());
  Transforms const transforms(reader->schema());
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] { Loader(reader, {.transforms = transforms}); }),
      HasSubstr("have not been fitted"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] { Loader loader(reader); }),
              HasSubstr("loader: column 'sizes' states transforms"));
  transforms.fit(*reader);
  auto other = every_kind();
  other[1].transforms.pop_back();
  auto const other_reader = reader_of(folder, kRows, other);
  auto const expected = HasSubstr(
      "column 'sizes' of the rows states the transforms fill_missing(1), clip(0, 100), log1p(); "
      "expected fill_missing(1), clip(0, 100), log1p(), normalize()");
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] { Loader(other_reader, {.transforms = transforms}); }),
      expected);
  EXPECT_THAT(message_of<std::invalid_argument>([&] { transforms.fit(*other_reader); }), expected);
  EXPECT_EQ(transforms.id_count("shop"), 4);
}

TEST(TransformsTest, times_of_a_day_keep_their_differences) {
  constexpr std::int64_t midnight = 1'764'201'600;  // in seconds since 1970
  constexpr std::int64_t seconds = 86'400;
  std::string text = "real,whole\n";
  double squares = 0;
  for (std::int64_t second = 0; second < seconds; second += 7) {
    text += fmt::format("{0},{0}\n", midnight + second);
    squares += std::pow(static_cast<double>(second), 2);
  }
  auto const count = static_cast<double>((seconds + 6) / 7);
  auto const mean = 7 * (count - 1) / 2;
  auto const deviation = std::sqrt(squares / count - mean * mean);
  TemporaryFolder const folder;
  auto const reader =
      reader_of(folder,
                text,
                {{.name = "real", .transforms = {Transform::normalize()}},
                 {.name = "whole",
                  .type = int64,
                  .transforms = {Transform::clip(midnight, 2e9), Transform::normalize()}}},
                1'000);
  Transforms const transforms(reader->schema());
  transforms.fit(*reader);
  Loader loader(reader, {.batch_size = seconds, .transforms = transforms});
  auto const batch = loader.next().value();
  for (auto const* const name : {"real", "whole"}) {
    auto const found = batch.floats(name);
    ASSERT_EQ(found.size(), static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], (static_cast<double>(7 * i) - mean) / deviation, 1e-6) << name << i;
    }
  }
  // Doubles and integers of a query have the same result.
  Chunk query(reader->schema());
  query.doubles("real").assign({static_cast<double>(midnight + 7)});
  query.ints("whole").assign({midnight + 7});
  auto const row = transforms.apply(query);
  EXPECT_EQ(row.floats("real")[0], batch.floats("real")[1]);
  EXPECT_EQ(row.floats("whole")[0], batch.floats("whole")[1]);
  EXPECT_EQ(row.schema().columns()[1].type, float32);
  // Numbers have the range of float64 before transforms, and that of float32 behind them.
  auto const large = reader_of(
      folder, "x\n1e39\n-1e300\n", {{.name = "x", .transforms = {Transform::clip(0, 1)}}});
  Transforms const clips(large->schema());
  EXPECT_THAT(Loader(*large, {.transforms = clips}).next()->floats("x"), ElementsAre(1, 0));
}

TEST(TransformsTest, a_chunk_has_floats_or_doubles) {
  Schema const schema({{.name = "x", .transforms = {Transform::log1p()}}, {.name = "y"}});
  Chunk chunk(schema);
  chunk.doubles("x").push_back(1);
  chunk.floats("y").push_back(1);
  chunk.check();
  EXPECT_EQ(chunk.rows(), 1);
  chunk.floats("x").push_back(1);
  chunk.floats("y").push_back(1);
  EXPECT_THAT(message_of<DataError>([&] { chunk.check(); }), HasSubstr("or all in doubles()"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] { chunk.doubles("y").clear(); }),
              HasSubstr("column 'y' has no transforms"));
}

TEST(TransformsTest, threads_do_not_matter_for_a_fit) {
  TemporaryFolder const folder;
  std::string text = kRows;
  for (int row = 0; row < 500; ++row) {
    text += fmt::format("1,{},0.{},w{},{},a|b{},x\n", row, row, row % 37, row % 11, row % 5);
  }
  std::optional<LoaderPosition> expected;
  for (int const threads : {1, 2, 7}) {
    auto const reader = reader_of(folder, text, every_kind());
    Transforms const transforms(reader->schema());
    transforms.fit(*reader, {.threads = threads});
    EXPECT_EQ(transforms.word("tags", 1), "a");
    auto const position = Loader(reader, {.transforms = transforms}).position();
    EXPECT_EQ(position, expected.value_or(position));
    expected = position;
  }
  auto const damaged = reader_of(folder, text + "1,x,0,,1,,\n1,y,0,,1,,\n", every_kind());
  EXPECT_THAT(
      message_of<DataError>([&] { Transforms(damaged->schema()).fit(*damaged, {.threads = 7}); }),
      HasSubstr("rows.csv:509: column 2 (width): expected a number or nothing, found 'x'"));
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { Transforms(damaged->schema()).fit(*damaged, {.threads = 0}); }),
              HasSubstr("fit() with 0 threads"));
}

TEST(TransformsTest, errors_have_the_file_and_the_row) {
  TemporaryFolder const folder;
  std::vector<TextColumn> const columns{
      {.name = "x", .transforms = {Transform::log1p(), Transform::normalize()}}};
  auto const first = folder.write("1.csv", "x\n1\n2\n");
  auto const second = folder.write("2.csv", "x\n1\n2\n-3\n");
  auto const fitted = reader_of(folder, "x\n1\n2\n", columns);
  Transforms const transforms(fitted->schema());
  transforms.fit(*fitted);
  std::string const what = ": column 'x': log1p() of -3; expected a number above -1";
  auto const failure = [&](std::vector<TextFile> const& files, std::size_t bytes) {
    CsvReader reader(files, TextOptions{.columns = columns, .chunk_bytes = bytes});
    auto const told = message_of<DataError>(
        [&] { static_cast<void>(Loader(reader, {.transforms = transforms}).next()); });
    EXPECT_EQ(message_of<DataError>([&] { transforms.fit(reader); }),
              bytes == 1 ? told : second.string() + ", row 2" + what);
    return told;
  };
  EXPECT_EQ(failure({second}, 1'000), second.string() + ", 2 rows behind line 2" + what);
  EXPECT_EQ(failure({second}, 1), second.string() + ", line 4" + what);
  EXPECT_EQ(failure({first, second}, 1'000), second.string() + ", row 2" + what);
}

/// Gives one row, whose column "word" is filled by a function.
class OneWordReader final : public Reader {
 public:
  explicit OneWordReader(void (*fill)(Chunk&)) : fill_(fill) {}
  [[nodiscard]] Schema const& schema() const override { return schema_; }
  bool next(Chunk& chunk) override {
    fill_(chunk);
    return std::exchange(more_, false);
  }
  [[nodiscard]] Position position() const override { return {}; }
  void seek(Position const&) override { more_ = true; }

 private:
  Schema schema_{{{.name = "word", .type = hashed, .transforms = {Transform::vocabulary()}}}};
  void (*fill_)(Chunk&);
  bool more_ = true;
};

TEST(TransformsTest, a_reader_of_strings_gives_a_vocabulary_with_words) {
  OneWordReader reader([](Chunk& chunk) { chunk.add_text("word", "known"); });
  Transforms const transforms(reader.schema());
  transforms.fit(reader);
  EXPECT_EQ(transforms.word("word", 1), "known");
}

TEST(TransformsTest, a_fit_that_fails_changes_nothing) {
  TemporaryFolder const folder;
  auto const reader = reader_of(folder, kRows, every_kind());
  Transforms const transforms(reader->schema());
  transforms.fit(*reader);
  auto const damaged =
      reader_of(folder, std::string(kRows) + "1,2,x,NL,7,,\n", every_kind(), 1U << 20U);
  EXPECT_THROW(transforms.fit(*damaged), DataError);
  EXPECT_EQ(transforms.id_count("shop"), 4);
}

TEST(TransformsTest, a_reader_of_keys_gives_a_vocabulary_without_words) {
  OneWordReader reader([](Chunk& chunk) { chunk.ints("word").push_back(string_key("known")); });
  Transforms const transforms(reader.schema());
  transforms.fit(reader);
  EXPECT_EQ(transforms.key("word", 1), string_key("known"));
  EXPECT_EQ(transforms.word("word", 1), std::nullopt);
}

}  // namespace
}  // namespace msstream::data
