// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "memory/runtimes.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/checkpoint/writer.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/data/transforms.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

using checkpoint::HostTensor;
using checkpoint::SafetensorsFile;
using checkpoint::Tensors;
using data::Transform;
using data::Transforms;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

data::Schema features(std::int64_t min_count = 1) {
  using enum data::ColumnType;
  return data::Schema(
      {{.name = "income",
        .width = 2,
        .transforms = {Transform::fill_missing(0), Transform::log1p(), Transform::normalize()}},
       {.name = "country",
        .type = hashed,
        .transforms = {Transform::vocabulary({.min_count = min_count})}},
       {.name = "shop", .type = int64, .transforms = {Transform::vocabulary()}},
       {.name = "site", .type = hashed, .transforms = {Transform::hash({100, 3})}}});
}

std::shared_ptr<data::CsvReader> training_rows(TemporaryFolder const& folder) {
  std::string text = "label,before,after,country,shop,site\n";
  for (int row = 0; row < 200; ++row) {
    text += "1," + (row % 7 == 0 ? std::string() : std::to_string(row * row)) + "," +
            std::to_string(row) + ".25," + std::string("ABCDEFG").substr(0, row % 8) + "," +
            std::to_string(row % 13 - 5) + ",s" + std::to_string(row % 31) + "\n";
  }
  auto const columns = features().columns();
  return std::make_shared<data::CsvReader>(
      data::TextFile(folder.write("rows.csv", text)),
      data::TextOptions{.columns = {{.name = "label"},
                                    {.name = "income",
                                     .fields = {"before", "after"},
                                     .transforms = columns[0].transforms},
                                    {.name = "country",
                                     .type = data::ColumnType::hashed,
                                     .transforms = columns[1].transforms},
                                    {.name = "shop",
                                     .type = data::ColumnType::int64,
                                     .transforms = columns[2].transforms},
                                    {.name = "site",
                                     .type = data::ColumnType::hashed,
                                     .transforms = columns[3].transforms}}});
}

template <class R>
class CheckpointTransforms : public RuntimeTest<R> {
 protected:
  TemporaryFolder folder_;
};
TYPED_TEST_SUITE(CheckpointTransforms, Runtimes, RuntimeNames);

TYPED_TEST(CheckpointTransforms, a_loaded_model_gets_what_the_training_got) {
  Device<TypeParam> const device;
  auto const weight = to_device(device, std::vector<float>{1, 2, 3}, {3});
  auto const flag = to_device(device, std::vector<std::uint8_t>{7}, {1});
  auto const path = this->folder_ / "model.safetensors";
  auto const reader = training_rows(this->folder_);
  data::Batch const batch = [&] {
    Transforms const transforms(reader->schema());
    transforms.fit(*reader);
    checkpoint::save(
        path, Tensors(transforms).add("weight", weight).add("flag", flag), {.step = 5});
    return *data::Loader(reader, {.threads = 3, .transforms = transforms}).next();
  }();

  // The server knows the columns of its queries and the weight's shape.
  Transforms const transforms(features());
  auto const loaded_weight = zeros<float>(device, {3});
  auto const loaded_flag = zeros<std::uint8_t>(device, {1});
  auto const loaded = checkpoint::load(
      path, Tensors(transforms).add("weight", loaded_weight).add("flag", loaded_flag));
  EXPECT_EQ(loaded.step, 5);
  EXPECT_THAT(loaded.tensors, ElementsAre("weight", "flag", "transforms/columns"));
  EXPECT_EQ(to_host(loaded_weight), to_host(weight));
  EXPECT_EQ(to_host(loaded_flag), to_host(flag));
  for (std::size_t row = 0; row < 200; ++row) {
    data::Chunk query(features());
    query.floats("income").assign(
        {row % 7 == 0 ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(row * row),
         static_cast<float>(row) + 0.25F});
    query.add_text("country", std::string_view("ABCDEFG").substr(0, row % 8));
    query.ints("shop").push_back(static_cast<std::int64_t>(row % 13) - 5);
    query.add_text("site", "s" + std::to_string(row % 31));
    auto const got = transforms.apply(query);
    ASSERT_EQ(std::memcmp(got.floats("income").data(), &batch.floats("income")[2 * row], 8), 0);
    ASSERT_EQ(got.ints("country")[0], batch.ints("country")[row]);
    ASSERT_EQ(got.ints("shop")[0], batch.ints("shop")[row]);
    ASSERT_EQ(got.ints("site")[0], batch.ints("site")[row]);
  }
  EXPECT_EQ(transforms.word("country", transforms.id_count("country") - 1).has_value(), true);
}

TYPED_TEST(CheckpointTransforms, a_writer_saves_them_and_a_pattern_loads_them_alone) {
  Device<TypeParam> const device;
  auto const weight = to_device(device, std::vector<float>{1, 2, 3}, {3});
  auto const reader = training_rows(this->folder_);
  Transforms const fitted(reader->schema());
  auto const list = Tensors().add("weight", weight).add("features", fitted);
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { checkpoint::Writer(list, {.folder = this->folder_.path()}); }),
              HasSubstr("the transforms have not been fitted"));
  fitted.fit(*reader);
  checkpoint::Writer writer(list, {.folder = this->folder_.path()});
  writer.save({.step = 1});
  writer.wait();
  Transforms const transforms(features());
  auto const path = checkpoint::latest(this->folder_.path()).value();
  auto const loaded = checkpoint::load(
      path, Tensors().add("features", transforms), {.only = {"features/transforms/*"}});
  EXPECT_EQ(transforms.id_count("shop"), 14);
  EXPECT_THAT(loaded.tensors, ElementsAre("features/transforms/columns"));
  // A program that states no transforms is told that the model has some.
  auto const other = zeros<float>(device, {3});
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { checkpoint::load(path, Tensors().add("weight", other)); }),
              HasSubstr("only in the file (LoadOptions::allow_unexpected ignores them): "
                        "features/transforms/columns"));
  // One that states some is told that a model has none.
  checkpoint::save(path, Tensors().add("weight", weight));
  EXPECT_THAT(message_of<std::invalid_argument>([&] {
                checkpoint::load(path, Tensors().add("weight", other).add("features", transforms));
              }),
              HasSubstr("missing in the file: features/transforms/columns"));
}

TYPED_TEST(CheckpointTransforms, what_differs_is_refused_by_name) {
  Device<TypeParam> const device;
  auto const weight = to_device(device, std::vector<float>{1, 2, 3}, {3});
  auto const path = this->folder_ / "model.safetensors";
  auto const reader = training_rows(this->folder_);
  Transforms const fitted(reader->schema());
  fitted.fit(*reader);
  checkpoint::save(path, Tensors(fitted).add("weight", weight));

  auto const loaded_weight = zeros<float>(device, {3});
  auto const refusal = [&](data::Schema const& schema) {
    Transforms const transforms(schema);
    auto const message = message_of<std::invalid_argument>(
        [&] { checkpoint::load(path, Tensors(transforms).add("weight", loaded_weight)); });
    EXPECT_FALSE(transforms.is_fitted());
    return message;
  };
  EXPECT_THAT(refusal(features(2)),
              AllOf(HasSubstr("nothing was loaded"),
                    HasSubstr("not what the program states: transforms/columns (column 'country': "
                              "the file has vocabulary(min_count=1, max_values=0, oov_buckets=1), "
                              "the program vocabulary(min_count=2, max_values=0, oov_buckets=1))"),
                    Not(HasSubstr("'shop'"))));
  auto columns = features().columns();
  columns[0].width = 3;
  columns[1].name = "land";
  columns.pop_back();
  EXPECT_THAT(refusal(data::Schema(columns)),
              AllOf(HasSubstr("column 'income': width: the file has '2', the program '3'"),
                    HasSubstr("column 'land': the file has no transforms of it"),
                    HasSubstr("column 'country': only the file has its transforms: vocabulary("),
                    HasSubstr("column 'site': only the file has its transforms: hash(")));
  EXPECT_EQ(to_host(loaded_weight), std::vector<float>(3));
}

/// A file with the arrays of transforms, which tests change.
struct TransformsFile {
  std::vector<std::uint8_t> columns;
  std::vector<std::int64_t> keys;
  std::vector<std::uint8_t> words;
  std::vector<std::int64_t> word_ends;

  explicit TransformsFile(std::filesystem::path const& path) {
    SafetensorsFile const file(path);
    auto const read = [&]<class T>(std::string const& name, std::vector<T>& values) {
      values = file.values<T>(name, file.tensor(name).shape);
    };
    read("transforms/columns", columns);
    read("transforms/word/keys", keys);
    read("transforms/word/words", words);
    read("transforms/word/word_ends", word_ends);
  }
  template <class T>
  static HostTensor tensor(std::string name, std::vector<T> const& values) {
    return {std::move(name), {static_cast<std::int64_t>(values.size())}, std::span(values)};
  }
  void replace(std::string_view from, std::string_view to) {
    std::string text(columns.begin(), columns.end());
    text.replace(text.find(from), from.size(), to);
    columns.assign(text.begin(), text.end());
  }
  void save(std::filesystem::path const& path) const {
    checkpoint::save_safetensors(path,
                                 std::vector{tensor("transforms/columns", columns),
                                             tensor("transforms/word/keys", keys),
                                             tensor("transforms/word/words", words),
                                             tensor("transforms/word/word_ends", word_ends)});
  }
};

TEST(CheckpointTransformsFile, corrupt_files_are_refused_by_name) {
  TemporaryFolder const folder;
  std::vector<data::TextColumn> const columns{
      {.name = "x", .transforms = {Transform::normalize()}},
      {.name = "word", .type = data::ColumnType::hashed, .transforms = {Transform::vocabulary()}}};
  data::CsvReader reader(data::TextFile(folder.write("rows.csv", "x,word\n1,a\n4,bcd\n")),
                         {.columns = columns});
  Transforms const transforms(reader.schema());
  transforms.fit(reader);
  auto const path = folder / "model.safetensors";
  checkpoint::save(path, Tensors(transforms));
  TransformsFile const good(path);
  EXPECT_THAT(std::string(good.columns.begin(), good.columns.end()),
              HasSubstr(R"x({"name": "x", "type": "float32", "width": 1, "transforms": )x"
                        R"x(["normalize()"], "means": [2.5], "deviations": [1.5]})x"));

  auto const refusal = [&](auto&& damage) {
    auto file = good;
    damage(file);
    file.save(path);
    auto const message =
        message_of<std::invalid_argument>([&] { checkpoint::load(path, Tensors(transforms)); });
    EXPECT_THAT(message, HasSubstr("model.safetensors: the checkpoint does not fit"));
    EXPECT_EQ(transforms.id_count("word"), 3);
    return message;
  };
  EXPECT_THAT(refusal([](auto& file) { file.replace("2.5", "abc"); }),
              HasSubstr("'transforms/columns' is no list of columns"));
  EXPECT_THAT(refusal([](auto& file) { file.replace("[1.5]", "[-15]"); }),
              HasSubstr("column 'x': deviations has a number below 0"));
  EXPECT_THAT(refusal([](auto& file) { file.replace("[2.5]", "[]   "); }),
              HasSubstr("column 'x': means is no list of 1 finite numbers"));
  EXPECT_THAT(refusal([](auto& file) { file.keys[0] = file.keys[1]; }),
              HasSubstr("column 'word': string 0 is not that of its key"));
  EXPECT_THAT(refusal([](auto& file) {
                file.keys.push_back(file.keys[0]);
                file.word_ends.clear();
              }),
              HasSubstr("is there twice"));
  EXPECT_THAT(refusal([](auto& file) { file.keys.pop_back(); }),
              HasSubstr("column 'word': 1 keys and 2 strings"));
  EXPECT_THAT(refusal([](auto& file) { file.word_ends[1] = 9; }),
              HasSubstr("column 'word': a string that ends at byte 9"));
  EXPECT_THAT(refusal([](auto& file) { file.words[0] ^= 1U; }),
              HasSubstr("column 'word': string 0 is not that of its key"));
  EXPECT_THAT(refusal([](auto& file) { file.columns.assign(9'000, '['); }),
              HasSubstr("nest too deeply"));
  good.save(path);
  EXPECT_NO_THROW(checkpoint::load(path, Tensors(transforms)));
}

}  // namespace
}  // namespace msstream::testing
