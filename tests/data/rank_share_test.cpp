// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "data/loaded.hpp"

#include <msstream/data/byte_source.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/part_reader.hpp>
#include <msstream/data/text_reader.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace msstream::data {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

/// A CountingReader that counts the rows that are parsed.
class CountedReader final : public Reader {
 public:
  CountedReader(std::int64_t rows, std::int64_t chunk_rows) : rows_(rows, chunk_rows) {}

  [[nodiscard]] Schema const& schema() const override { return rows_.schema(); }
  bool next(Chunk& chunk) override { return rows_.next(chunk); }
  [[nodiscard]] Position position() const override { return rows_.position(); }
  void seek(Position const& position) override { rows_.seek(position); }
  [[nodiscard]] std::optional<CountedTask> next_counted_task() override {
    auto const begin = rows_.position().offset;
    auto const chunk = std::make_shared<Chunk>(std::make_shared<Schema const>(schema()));
    if (!rows_.next(*chunk)) {
      return std::nullopt;
    }
    return CountedTask{[this, begin, rows = chunk->rows()](Chunk& out) {
                         parsed_ += rows;
                         CountingReader again(begin + rows, rows_.chunk_rows());
                         again.seek({.offset = begin});
                         again.next(out);
                       },
                       chunk->rows()};
  }
  [[nodiscard]] std::int64_t parsed() const { return parsed_; }

 private:
  CountingReader rows_;
  std::atomic<std::int64_t> parsed_ = 0;
};

struct RankRows {
  std::vector<SeenBatch> batches;
  std::int64_t parsed = 0;
};

RankRows rows_of_rank(std::int64_t rows, LoaderOptions options, std::int64_t chunk_rows = 9) {
  CountedReader reader(rows, chunk_rows);
  options.share = RankShare::tasks;
  Loader loader(reader, options);
  auto batches = all_of(loader);
  return {std::move(batches), reader.parsed()};
}

TEST(RankShare, gives_each_row_to_one_rank_in_equally_many_batches) {
  for (std::int64_t const rows : {1, 5, 40, 333}) {
    for (int const ranks : {1, 2, 5}) {
      for (std::int64_t const shuffle_rows : {std::int64_t{0}, std::int64_t{60}, kWholeEpoch}) {
        SCOPED_TRACE(fmt::format("{} rows, {} ranks, {} to shuffle", rows, ranks, shuffle_rows));
        std::map<std::int64_t, std::map<std::int64_t, int>> seen;
        std::vector<std::size_t> batches;
        std::int64_t parsed = 0;
        std::int64_t most_parsed = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          auto const own = rows_of_rank(rows,
                                        {.batch_size = 4,
                                         .epochs = 2,
                                         .shuffle_rows = shuffle_rows,
                                         .rank = rank,
                                         .ranks = ranks});
          batches.push_back(own.batches.size());
          std::int64_t index = 0;
          for (auto const& batch : own.batches) {
            EXPECT_EQ(batch.index, index++);
            for (auto const id : batch.ids) {
              ++seen[batch.epoch][id];
            }
          }
          parsed += own.parsed;
          most_parsed = std::max(most_parsed, own.parsed);
        }
        EXPECT_EQ(std::ranges::min(batches), std::ranges::max(batches));
        for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
          EXPECT_EQ(seen[epoch].size(), static_cast<std::size_t>(rows));
          for (auto const& [id, count] : seen[epoch]) {
            EXPECT_EQ(count, 1) << id;
          }
        }
        // Rows that stay in memory are parsed once, others in each epoch.
        EXPECT_GE(parsed, rows);
        EXPECT_LE(parsed, 2 * rows);
        EXPECT_LE(most_parsed, 2 * (rows / ranks + 9));
      }
    }
  }
}

TEST(RankShare, pads_the_batches_of_ranks_with_fewer_rows) {
  for (int rank = 0; rank < 2; ++rank) {
    CountedReader reader(1, 9);
    Loader loader(reader,
                  {.batch_size = 4,
                   .last_batch = LastBatch::padded,
                   .rank = rank,
                   .ranks = 2,
                   .share = RankShare::tasks});
    auto const batch = loader.next();
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->rows(), rank == 0 ? 1 : 0);
    EXPECT_EQ(batch->shape_rows(), 4);
    EXPECT_THAT(batch->ints("id"), ::testing::ElementsAre(rank == 0 ? 0 : -1, -1, -1, -1));
    EXPECT_THAT(batch->mask(), ::testing::ElementsAre(rank == 0 ? 1 : 0, 0, 0, 0));
    EXPECT_FALSE(loader.next());
  }
}

TEST(RankShare, depends_neither_on_threads_nor_on_the_time) {
  LoaderOptions options{
      .batch_size = 8, .epochs = 2, .shuffle_rows = 64, .rank = 1, .ranks = 3, .threads = 1};
  auto const expected = rows_of_rank(500, options).batches;
  options.threads = 4;
  options.batches_ahead = 1;
  EXPECT_EQ(rows_of_rank(500, options).batches, expected);
}

TEST(RankShare, goes_on_from_every_position) {
  for (std::int64_t const shuffle_rows : {std::int64_t{0}, std::int64_t{24}, kWholeEpoch}) {
    for (int rank = 0; rank < 3; ++rank) {
      LoaderOptions options{.batch_size = 4,
                            .epochs = 2,
                            .shuffle_rows = shuffle_rows,
                            .rank = rank,
                            .ranks = 3,
                            .share = RankShare::tasks};
      auto const all = rows_of_rank(101, options).batches;
      CountedReader reader(101, 9);
      Loader loader(reader, options);
      for (std::size_t given = 0; given <= all.size(); ++given) {
        auto next = options;
        next.start = LoaderPosition::parse(to_string(loader.position()));
        EXPECT_EQ(*next.start, loader.position());
        EXPECT_EQ(
            rows_of_rank(101, next).batches,
            std::vector<SeenBatch>(all.begin() + static_cast<std::ptrdiff_t>(given), all.end()));
        static_cast<void>(loader.next());
      }
    }
  }
}

TEST(RankShare, of_text_parses_only_the_rows_of_the_rank) {
  TemporaryFolder const folder;
  constexpr std::int64_t kRows = 200'000;
  std::string text;
  for (std::int64_t row = 0; row < kRows; ++row) {
    text += fmt::format("{}\tsome words that make the line longer than its number alone\n", row);
  }
  auto const path = folder.write("rows.tsv", text);
  for (bool const of_part : {false, true}) {
    std::vector<int> seen(kRows, 0);
    std::int64_t parsed_by_all = 0;
    for (int rank = 0; rank < 2; ++rank) {
      std::atomic<std::int64_t> parsed = 0;
      TextOptions const options{.columns = {{.name = "row",
                                             .type = ColumnType::int64,
                                             .to_int =
                                                 [&](std::string_view field) {
                                                   ++parsed;
                                                   return std::stoll(std::string(field));
                                                 }}},
                                .header = false,
                                .names = {"row", "words"},
                                .chunk_bytes = 1 << 18};
      std::shared_ptr<Reader> reader = std::make_shared<TsvReader>(path, options);
      if (of_part) {
        reader = std::make_shared<PartReader>(reader, Part{.end = 0.5});
      }
      Loader loader(reader,
                    {.batch_size = 512, .rank = rank, .ranks = 2, .share = RankShare::tasks});
      while (auto const batch = loader.next()) {
        for (auto const row : batch->ints("row")) {
          ++seen[static_cast<std::size_t>(row)];
        }
      }
      EXPECT_GT(parsed, kRows / 4);
      EXPECT_LT(parsed, 3 * kRows / 4);
      parsed_by_all += parsed;
    }
    EXPECT_EQ(parsed_by_all, kRows);
    auto const once = std::ranges::count(seen, 1);
    EXPECT_EQ(once + std::ranges::count(seen, 0), kRows);
    EXPECT_NEAR(static_cast<double>(once), of_part ? kRows / 2 : kRows, of_part ? 2'000 : 0);
  }
}

/// Gives a text in reads of a few bytes, of lengths that follow from how often it was opened.
class ShortReads final : public ByteSource {
 public:
  ShortReads(std::string_view text, std::size_t number) : rest_(text), number_(number) {}
  std::size_t read(char* out, std::size_t bytes) override {
    number_ = number_ * 7 + 3;
    auto const count = rest_.copy(out, std::min(bytes, 1 + number_ % 90));
    rest_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view rest_;
  std::size_t number_;
};

TEST(RankShare, of_text_goes_on_with_the_same_chunks) {
  constexpr std::size_t kChunkBytes = 256;
  std::string text;
  for (std::size_t row = 0; row < 300; ++row) {
    // Some lines are longer than half of a chunk, and some than a chunk.
    auto const words = row % 23 == 0 ? 200 + row : row % 7 == 0 ? 150U : row % 5;
    text += fmt::format("{}\t{}\n", row, std::string(words, 'x'));
  }
  std::size_t opened = 0;
  auto const reader_of_text = [&] {
    TextFile const file{"rows", [&] { return std::make_unique<ShortReads>(text, ++opened); }};
    return std::make_shared<TsvReader>(
        file,
        TextOptions{.columns = {{.name = "row", .type = ColumnType::int64}},
                    .header = false,
                    .names = {"row", "words"},
                    .chunk_bytes = kChunkBytes});
  };
  auto const rows_of = [&](LoaderOptions const& options) {
    Loader loader(reader_of_text(), options);
    std::vector<std::vector<std::int64_t>> batches;
    while (auto const batch = loader.next()) {
      auto const rows = batch->ints("row");
      batches.emplace_back(rows.begin(), rows.end());
    }
    return batches;
  };
  std::vector<int> seen(300, 0);
  for (int rank = 0; rank < 2; ++rank) {
    LoaderOptions options{
        .batch_size = 8, .rank = rank, .ranks = 2, .share = RankShare::tasks, .threads = 1};
    auto const all = rows_of(options);
    for (auto const& batch : all) {
      for (auto const row : batch) {
        ++seen[static_cast<std::size_t>(row)];
      }
    }
    Loader loader(reader_of_text(), options);
    for (std::size_t given = 0; given <= all.size(); ++given) {
      options.start = loader.position();
      using Rows = std::vector<std::vector<std::int64_t>>;
      EXPECT_EQ(rows_of(options),
                Rows(all.begin() + static_cast<std::ptrdiff_t>(given), all.end()));
      static_cast<void>(loader.next());
    }
  }
  EXPECT_THAT(seen, ::testing::Each(1));
}

TEST(RankShare, refuses_what_it_cannot_do) {
  auto const refusal = [](LoaderOptions const& options) {
    return message_of<std::invalid_argument>([&] { rows_of_rank(9, options); });
  };
  EXPECT_THAT(refusal({.last_batch = LastBatch::dropped, .ranks = 2}),
              ::testing::HasSubstr("LastBatch::dropped with RankShare::tasks"));
  EXPECT_THAT(refusal({.ranks = 2, .group = "id"}),
              ::testing::HasSubstr("the group 'id' with RankShare::tasks"));
  CountedReader reader(9, 3);
  auto const start = Loader(reader, {.rank = 1, .ranks = 2, .share = RankShare::tasks}).position();
  EXPECT_THAT(refusal({.rank = 0, .ranks = 2, .start = start}),
              ::testing::HasSubstr("all, tasks of rank 1 of 2"));
}

}  // namespace
}  // namespace msstream::data
