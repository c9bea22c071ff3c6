// SPDX-License-Identifier: Apache-2.0
// The programs of docs/data.md.
#include "base/temporary_folder.hpp"

#include <msstream/data/binary_reader.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/data/libsvm_reader.hpp>
#include <msstream/data/string_key.hpp>
#include <msstream/data/text_reader.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/copy.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
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
