// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "data/learned.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/string_key.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/data/transforms.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::data {
namespace {

using msstream::testing::message_of;
using msstream::testing::TemporaryFolder;
using ::testing::HasSubstr;
using ::testing::Not;
using enum ColumnType;

constexpr char const* kItems =
    "item,seen,shop\n"
    "a,b|c,7\n"
    "b,,7\n"
    "c,c|c|d,8\n"
    "e,b,9\n";

std::vector<TextColumn> items(Transform::Vocabulary options) {
  options.name = "item";
  return {{.name = "item", .type = hashed, .transforms = {Transform::vocabulary(options)}},
          {.name = "seen",
           .type = hashed,
           .value_separator = '|',
           .transforms = {Transform::last(2), Transform::vocabulary(options)}},
          {.name = "shop", .type = int64, .transforms = {Transform::vocabulary()}}};
}

CsvReader items_reader(TemporaryFolder const& folder,
                       std::string const& text,
                       std::vector<TextColumn> columns,
                       std::size_t chunk_bytes = 16) {
  return CsvReader(TextFile(folder.write("items.csv", text)),
                   {.columns = std::move(columns), .chunk_bytes = chunk_bytes});
}

TEST(Fit, columns_share_a_vocabulary) {
  TemporaryFolder const folder;
  auto reader = items_reader(folder, kItems, items({.oov_buckets = 2}));
  Transforms const transforms(reader.schema());
  transforms.fit(reader);
  // b and c occur three times; a, d and e once. One c is not among the last two.
  EXPECT_EQ(transforms.id_count("item"), 7);
  EXPECT_EQ(transforms.id_count("seen"), 7);
  EXPECT_EQ(transforms.id_count("shop"), 4);
  std::set<std::string_view> frequent;
  for (std::int64_t id = 2; id < 7; ++id) {
    EXPECT_EQ(transforms.word("item", id), transforms.word("seen", id));
    if (id < 4) {
      frequent.insert(transforms.word("item", id).value());
    }
  }
  EXPECT_EQ(frequent, (std::set<std::string_view>{"b", "c"}));
  auto const batch = Loader(reader, {.transforms = transforms}).next().value();
  EXPECT_EQ(batch.ints("item")[1], batch.ints("seen")[0]);  // b
  EXPECT_EQ(batch.ints("item")[2], batch.ints("seen")[1]);  // c
  // Only the history of the third row has d.
  EXPECT_EQ(transforms.word("item", batch.ints("seen")[3]), "d");
}

TEST(Fit, a_shared_vocabulary_is_saved_once) {
  TemporaryFolder const folder;
  auto reader = items_reader(folder, kItems, items({}));
  Transforms const transforms(reader.schema());
  transforms.fit(reader);
  auto const saved = saved_arrays(transforms);
  std::vector<std::string> names;
  for (auto const& [name, bytes] : saved) {
    names.push_back(name);
  }
  EXPECT_THAT(names,
              ::testing::ElementsAre("transforms/columns",
                                     "transforms/item/keys",
                                     "transforms/item/word_ends",
                                     "transforms/item/words",
                                     "transforms/shop/keys"));
  Transforms const restored(reader.schema());
  restore(restored, saved);
  EXPECT_EQ(saved_arrays(restored), saved);
  auto const before = Loader(reader, {.transforms = transforms}).next().value();
  auto const after = Loader(reader, {.transforms = restored}).next().value();
  EXPECT_TRUE(std::ranges::equal(before.ints("item"), after.ints("item")));
  EXPECT_TRUE(std::ranges::equal(before.ints("seen"), after.ints("seen")));
}

TEST(Fit, a_vocabulary_with_other_options_is_not_shared) {
  auto const refusal = [](std::vector<Column> const& columns) {
    return message_of<std::invalid_argument>([&] { Transforms const made((Schema(columns))); });
  };
  auto const named = Transform::vocabulary({.name = "user"});
  EXPECT_THAT(refusal({{"a", int64, 1, {named}}, {"b", hashed, 1, {named}}}),
              HasSubstr("columns 'a' and 'b' have the vocabulary 'user', with type int64 and "));
  EXPECT_THAT(refusal({{"a", int64, 1, {named}},
                       {"b", int64, 1, {Transform::vocabulary({.min_count = 2, .name = "user"})}}}),
              HasSubstr("with type int64 and vocabulary(min_count=2, max_values=0, oov_buckets=1, "
                        "name=user)"));
  EXPECT_THAT(refusal({{"user", int64, 1, {Transform::vocabulary()}}, {"b", int64, 1, {named}}}),
              HasSubstr("columns 'user' and 'b' have the vocabulary 'user'"));
  EXPECT_THAT(refusal({{"a", int64, 1, {Transform::vocabulary({.name = "\xFF"})}}}),
              HasSubstr("a name in UTF-8"));
}

TEST(Fit, rows_behind_max_rows_do_not_matter) {
  TemporaryFolder const folder;
  auto const three = std::string(kItems).substr(0, std::string(kItems).rfind("e,b"));
  auto reader = items_reader(folder, three, items({}));
  Transforms const expected(reader.schema());
  expected.fit(reader);
  for (int const threads : {1, 3}) {
    for (std::size_t const bytes : {1UL, 1'000UL}) {
      auto longer = items_reader(folder, kItems, items({}), bytes);
      Transforms const transforms(longer.schema());
      transforms.fit(longer, {.threads = threads, .max_rows = 3});
      EXPECT_EQ(saved_arrays(transforms), saved_arrays(expected));
      transforms.fit(longer, {.threads = threads, .max_rows = 1'000});
      EXPECT_NE(saved_arrays(transforms), saved_arrays(expected));
      EXPECT_EQ(transforms.id_count("shop"), 4);
    }
  }
  // A row that cannot be read does not matter either, some chunks behind the last one that is used.
  auto damaged = items_reader(folder, kItems + std::string("f,g,x\n"), items({}), 1);
  Transforms const transforms(damaged.schema());
  transforms.fit(damaged, {.threads = 7, .max_rows = 3});
  EXPECT_EQ(saved_arrays(transforms), saved_arrays(expected));
  EXPECT_THAT(message_of<std::invalid_argument>([&] { transforms.fit(damaged, {.max_rows = -1}); }),
              HasSubstr("fit() to -1 rows; expected at least 0"));
}

/// Two strings in each of `rows` chunks. Throws std::runtime_error at the row `broken`, and by the
/// call number `broken_schema` of schema().
class BrokenReader final : public Reader {
 public:
  [[nodiscard]] Schema const& schema() const override {
    return ++schemas_ == broken_schema ? throw std::runtime_error("no schema") : schema_;
  }
  bool next(Chunk& chunk) override {
    kept_words = chunk.words(0) != nullptr;
    if (row_ == broken) {
      throw std::runtime_error("no row");
    }
    chunk.add_text(0, "word");
    return ++row_ <= 20;
  }
  [[nodiscard]] Position position() const override { return {.offset = row_}; }
  void seek(Position const& position) override { row_ = position.offset; }

  int schema_count() const { return schemas_; }

  std::int64_t broken = -1;
  int broken_schema = -1;
  bool kept_words = false;

 private:
  Schema schema_{{{.name = "word", .type = hashed, .transforms = {Transform::vocabulary()}}}};
  std::int64_t row_ = 0;
  mutable std::atomic<int> schemas_ = 0;
};

TEST(Fit, that_fails_leaves_the_reader_at_its_beginning_and_without_strings) {
  BrokenReader counted;
  Transforms const transforms(counted.schema());
  transforms.fit(counted, {.threads = 3});
  EXPECT_TRUE(counted.kept_words);
  auto const expect_restored = [&](BrokenReader& reader) {
    EXPECT_THROW(transforms.fit(reader, {.threads = 3}), std::runtime_error);
    EXPECT_EQ(reader.position(), Reader::Position());
    reader.broken = -1;
    static_cast<void>(reader.next_task());
    EXPECT_FALSE(reader.kept_words);
  };
  BrokenReader reader;
  reader.broken = 9;
  expect_restored(reader);
  // Any call of schema() may throw, also in the threads of a fit.
  for (int call = 1; call < counted.schema_count(); ++call) {
    BrokenReader other;
    other.broken_schema = call;
    expect_restored(other);
  }
}

TEST(Fit, needs_a_row) {
  TemporaryFolder const folder;
  auto reader = items_reader(folder, "item,seen,shop\n", items({}));
  Transforms const transforms(reader.schema());
  EXPECT_THAT(message_of<DataError>([&] { transforms.fit(reader); }),
              HasSubstr("items.csv: 0 rows; expected at least 1, to fit transforms to"));
  EXPECT_FALSE(transforms.is_fitted());
  auto const nothing = folder.write("nothing.csv", "");
  EXPECT_THAT(message_of<DataError>([&] { CsvReader(TextFile(nothing), {.columns = items({})}); }),
              HasSubstr("nothing.csv: expected a header, found an empty file"));
}

TEST(Fit, formats_of_other_versions_are_refused_by_their_number) {
  Schema const schema({{"site", hashed, 1, {Transform::hash({.buckets = 5})}}});
  Transforms const transforms(schema);
  auto saved = saved_arrays(transforms);
  auto const described = [&](std::string_view version) {
    std::string text(reinterpret_cast<char const*>(saved.at("transforms/columns").data()),
                     saved.at("transforms/columns").size());
    auto const at = text.find("\"version\": 2");
    EXPECT_NE(at, std::string::npos) << text;
    text.replace(at, 12, version);
    auto const bytes = std::as_bytes(std::span(text));
    return SavedArrays{{"transforms/columns", {bytes.begin(), bytes.end()}}};
  };
  restore(transforms, described("\"version\": 1"));
  auto const refusal = [&](std::string_view version) {
    return message_of<std::invalid_argument>([&] { restore(transforms, described(version)); });
  };
  EXPECT_EQ(refusal("\"version\": 3"),
            "the transforms are of format version '3'; this library reads versions 1 to 2");
  EXPECT_THAT(refusal("\"version\": 0"), HasSubstr("of format version '0'"));
  EXPECT_THAT(refusal("\"edition\": 2"), HasSubstr("of format version none"));
}

}  // namespace
}  // namespace msstream::data
