// SPDX-License-Identifier: Apache-2.0
// The programs of docs/data.md.
#include "base/temporary_folder.hpp"

#include <msstream/data/binary_reader.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/data/libsvm_reader.hpp>
#include <msstream/data/part_reader.hpp>
#include <msstream/data/string_key.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/data/transforms.hpp>
#include <msstream/metrics/ndcg.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/copy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ms = msstream;

namespace {

/// Clicks of users on items, in memory.
struct Click {
  float price;
  std::string country;
  std::vector<std::int64_t> seen;
};

class ClickReader final : public ms::data::Reader {
 public:
  explicit ClickReader(std::vector<Click> clicks) : clicks_(std::move(clicks)) {}

  ms::data::Schema const& schema() const override { return schema_; }

  bool next(ms::data::Chunk& chunk) override {
    auto const end = std::min(row_ + 4'096, clicks_.size());
    if (row_ == end) {
      return false;
    }
    for (; row_ < end; ++row_) {
      auto const& click = clicks_[row_];
      auto& seen = chunk.ints("seen");
      chunk.floats("price").push_back(click.price);
      chunk.ints("country").push_back(ms::data::string_key(click.country));
      seen.insert(seen.end(), click.seen.begin(), click.seen.end());
      chunk.offsets("seen").push_back(static_cast<std::int64_t>(seen.size()));
    }
    return true;
  }

  Position position() const override { return {.offset = static_cast<std::int64_t>(row_)}; }
  void seek(Position const& position) override { row_ = static_cast<std::size_t>(position.offset); }

 private:
  ms::data::Schema schema_{{{"price"},
                            {"country", ms::data::ColumnType::hashed},
                            {"seen", ms::data::ColumnType::int64, ms::data::kJagged}}};
  std::vector<Click> clicks_;
  std::size_t row_ = 0;
};

std::shared_ptr<ms::data::Reader> open_rows(std::string const& path) {
  using enum ms::data::ColumnType;
  return std::make_shared<ms::data::CsvReader>(
      path,
      ms::data::TextOptions{
          .columns = {
              {.name = "label"},
              {.name = "dense", .fields = {"age", "income"}, .if_empty = 0.0},
              {.name = "country", .type = hashed, .buckets = 10'000},
              {.name = "tags", .type = hashed, .value_separator = '|', .buckets = 50'000}}});
}

TEST(DataPage, trains_on_a_file_and_goes_on_later) {
  msstream::testing::TemporaryFolder const folder;
  auto const path =
      folder.write("train.csv", "label,age,income,country,tags\n1,30,,de,a|b\n0,41,5,fr,\n");
  auto const saved = folder / "position";
  int trained = 0;
  auto const train_step = [&](auto const&... inputs) { trained += sizeof...(inputs) > 0 ? 1 : 0; };

  ms::Device<ms::Host> const device;
  ms::StreamPool pool(device, {.groups = 1});
  auto const reader = open_rows(path);
  ms::data::DeviceLoader loader(
      device,
      pool[0],
      reader,
      {.batch_size = 4'096, .epochs = 3, .shuffle_rows = 1 << 16, .seed = 42});
  while (auto const batch = loader.next()) {
    auto const dense = batch->floats("dense");    // [rows, 2]
    auto const country = batch->ints("country");  // [rows]
    auto const tags = batch->ints("tags");        // all values, and their offsets [rows + 1]
    auto const tag_offsets = batch->offsets("tags");
    train_step(dense, country, tags, tag_offsets, batch->floats("label"));
    std::ofstream(saved) << to_string(loader.position());
  }
  EXPECT_EQ(trained, 3);

  auto const saved_text = msstream::testing::read_all(saved);
  ms::data::LoaderOptions options{
      .batch_size = 4'096, .epochs = 5, .shuffle_rows = 1 << 16, .seed = 42};
  options.start = ms::data::LoaderPosition::parse(saved_text);
  ms::data::Loader later(open_rows(path), options);
  EXPECT_EQ(later.next().value().index(), 3);
}

TEST(DataPage, holds_rows_out_and_leaves_out_bad_ones) {
  msstream::testing::TemporaryFolder const folder;
  std::string text = "label,age,income,country,tags\n";
  for (int row = 0; row < 100; ++row) {
    text += "1,30,,c" + std::to_string(row) + ",\n";
  }
  auto const path = folder.write("train.csv", text);
  auto const training =
      std::make_shared<ms::data::PartReader>(open_rows(path), ms::data::Part{.end = 0.8});
  ms::data::PartReader validation(open_rows(path), {.begin = 0.8, .end = 0.9});
  ms::data::PartReader test(open_rows(path), {.begin = 0.9});
  std::int64_t rows = 0;
  for (ms::data::Reader* const part : {training.get(), &validation, &test}) {
    rows += ms::data::Loader(*part).next().value().rows();
  }
  EXPECT_EQ(rows, 100);
  ms::data::PartReader others(open_rows(path), {.begin = 0.8, .seed = 7, .key = "country"});
  EXPECT_LT(ms::data::Loader(others).next().value().rows(), 50);

  ms::data::TextOptions options{.columns = {{"label"}, {"age"}}};
  options.max_bad_rows = 100;
  ms::data::CsvReader reader(folder.write("bad.csv", "label,age\n1,30\n1,x\n"), options);
  EXPECT_EQ(ms::data::Loader(reader).next().value().rows(), 1);
  auto const bad = reader.bad_rows();
  for (auto const& error : bad.first) {
    std::cerr << error << '\n';
  }
  EXPECT_EQ(bad.count, 1);
}

TEST(DataPage, columns_share_a_vocabulary) {
  using ms::data::Transform;
  using enum ms::data::ColumnType;
  auto const items = Transform::vocabulary({.min_count = 2, .name = "items"});
  ms::data::Schema const schema({{.name = "item", .type = hashed, .transforms = {items}},
                                 {.name = "seen",
                                  .type = hashed,
                                  .width = ms::data::kJagged,
                                  .transforms = {Transform::last(50), items}},
                                 {.name = "seen_at",
                                  .width = ms::data::kJagged,
                                  .transforms = {Transform::last(50), Transform::hour_of_day()},
                                  .aligned_with = "seen"}});
  EXPECT_FALSE(ms::data::Transforms(schema).is_fitted());
}

TEST(DataPage, divides_the_rows_of_a_users_reader_between_ranks) {
  ClickReader reader(std::vector<Click>(10, {1.5F, "de", {3, 4}}));
  int const rank = 1;
  ms::data::Loader loader(
      reader,
      {.batch_size = 4, .last_batch = ms::data::LastBatch::partial, .rank = rank, .ranks = 2});
  std::int64_t rows = 0;
  while (auto const batch = loader.next()) {
    std::span<float const> const prices = batch->floats("price");
    rows += static_cast<std::int64_t>(prices.size());
  }
  EXPECT_EQ(rows, 5);
}

TEST(DataPage, deals_tasks_to_ranks) {
  std::int64_t rows = 0;
  for (int rank = 0; rank < 2; ++rank) {
    ClickReader reader(std::vector<Click>(10, {1.5F, "de", {3, 4}}));
    ms::data::Loader loader(
        reader, {.batch_size = 4, .rank = rank, .ranks = 2, .share = ms::data::RankShare::tasks});
    int batches = 0;
    for (; auto const batch = loader.next(); ++batches) {
      rows += batch->rows();
    }
    EXPECT_EQ(batches, 3);
  }
  EXPECT_EQ(rows, 10);
}

TEST(DataPage, keeps_lists_together) {
  msstream::testing::TemporaryFolder const folder;
  auto const ranking = folder.write("lists.txt", "1 qid:7 1:0.5\n0 qid:7 2:1\n2 qid:8 1:1\n");
  ms::Device<ms::Host> const device;
  ms::StreamPool pool(device, {.groups = 1});
  ms::metrics::Ndcg const ndcg(device, {.k = 10});
  ms::data::LibSvmReader lists(ranking, {.query = "query", .features = 136});
  ms::data::DeviceLoader loader(device,
                                pool[0],
                                lists,
                                {.batch_size = 4'096,
                                 .shuffle_rows = ms::data::kWholeEpoch,
                                 .last_batch = ms::data::LastBatch::padded,
                                 .group = "query"});
  while (auto const batch = loader.next()) {
    auto const scores = batch->floats("label");  // of a model that knows the answers
    ndcg.update({.scores = scores,
                 .labels = batch->floats("label"),
                 .weights = batch->mask(),
                 .offsets = batch->groups()});
  }
  EXPECT_EQ(ndcg.value(), 1.0);
}

TEST(DataPage, reads_criteo_libsvm_and_binary_files) {
  msstream::testing::TemporaryFolder const folder;
  using enum ms::data::ColumnType;
  auto const words = ms::data::numbered_names("C", 1, 26);
  auto const counts = ms::data::numbered_names("I", 1, 13);
  ms::data::TextOptions options{
      .columns = {{"label"}, {.name = "counts", .fields = counts, .if_empty = 0.0}},
      .header = false,
      .names = {"label"}};
  options.names.insert(options.names.end(), counts.begin(), counts.end());
  options.names.insert(options.names.end(), words.begin(), words.end());
  for (auto const& word : words) {
    options.columns.push_back({.name = word, .type = hashed, .buckets = 100'000});
  }
  std::string line = "1";
  for (int i = 0; i < 39; ++i) {
    line += "\t7";
  }
  ms::data::TsvReader criteo(folder.write("day_0", line), options);
  EXPECT_EQ(criteo.schema().columns().size(), 28U);

  auto const ranking = folder.write("ranking", "1 qid:1 1:0.5\n");
  ms::data::LibSvmReader lists(ranking, {.query = "query", .features = 136});
  EXPECT_EQ(lists.schema().index_of("query"), 3U);

  auto const ages = folder.write("ages", "1234");
  ms::data::BinaryReader columns({{.name = "age", .path = ages}});
  EXPECT_EQ(columns.rows(), 1);
}

}  // namespace
