// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "data/loaded.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/libsvm_reader.hpp>
#include <msstream/data/loader.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace msstream::data {
namespace {

using testing::message_of;
using testing::TemporaryFolder;

/// Returns the sizes of lists, from 1 to `most`, with `rows` rows in all.
std::vector<std::int64_t> list_sizes(std::int64_t rows, std::int64_t most) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t number = 0; rows > 0; ++number) {
    sizes.push_back(std::min(rows, 1 + (number * 7 + number / 3) % most));
    rows -= sizes.back();
  }
  return sizes;
}

/// Rows of lists, with their number and that of their list, in chunks that divide lists.
class ListReader final : public Reader {
 public:
  ListReader(std::vector<std::int64_t> const& sizes, std::int64_t chunk_rows)
      : chunk_rows_(chunk_rows) {
    for (std::size_t list = 0; list < sizes.size(); ++list) {
      // Neighbours differ, but lists far apart have one number.
      lists_.insert(lists_.end(), static_cast<std::size_t>(sizes[list]), list % 50);
    }
  }

  [[nodiscard]] Schema const& schema() const override { return schema_; }
  bool next(Chunk& chunk) override {
    auto const end = std::min(row_ + static_cast<std::size_t>(chunk_rows_), lists_.size());
    if (row_ == end) {
      return false;
    }
    for (; row_ < end; ++row_) {
      chunk.floats("score").push_back(0.5F);
      chunk.ints("query").push_back(static_cast<std::int64_t>(lists_[row_]));
      chunk.ints("row").push_back(static_cast<std::int64_t>(row_));
    }
    return true;
  }
  [[nodiscard]] Position position() const override {
    return {.offset = static_cast<std::int64_t>(row_)};
  }
  void seek(Position const& position) override { row_ = static_cast<std::size_t>(position.offset); }

 private:
  Schema schema_{{{"score"}, {"query", ColumnType::int64}, {"row", ColumnType::int64}}};
  std::int64_t chunk_rows_;
  std::vector<std::size_t> lists_;
  std::size_t row_ = 0;
};

using Rows = std::vector<std::int64_t>;

/// Returns the rows of all batches of a loader, and checks that they are padded as stated.
std::vector<Rows> batches_of(Loader& loader, LoaderOptions const& options) {
  std::vector<Rows> batches;
  while (auto const batch = loader.next()) {
    auto const rows = batch->ints("row");
    batches.emplace_back(rows.begin(), rows.begin() + batch->rows());
    EXPECT_EQ(batch->shape_rows(),
              options.last_batch == LastBatch::padded ? options.batch_size : batch->rows());
    auto const lists = batch->ints("query");
    Rows offsets;
    for (std::int64_t row = 0; row < batch->rows(); ++row) {
      auto const i = static_cast<std::size_t>(row);
      // Rows of a list follow each other, and lists with one number are far apart in the file.
      if (row == 0 || lists[i] != lists[i - 1] || rows[i] != rows[i - 1] + 1) {
        offsets.push_back(row);
      }
    }
    offsets.push_back(batch->rows());
    if (options.last_batch == LastBatch::padded) {
      offsets.resize(static_cast<std::size_t>(options.batch_size) + 1, options.batch_size);
    }
    auto const groups = batch->groups();
    EXPECT_EQ(Rows(groups.begin(), groups.end()), offsets);
  }
  return batches;
}

std::vector<Rows> batches_of(std::vector<std::int64_t> const& sizes,
                             LoaderOptions const& options,
                             std::int64_t chunk_rows = 7) {
  ListReader reader(sizes, chunk_rows);
  Loader loader(reader, options);
  return batches_of(loader, options);
}

/// Returns the number of the list of each row.
std::vector<std::size_t> lists_of(std::vector<std::int64_t> const& sizes) {
  std::vector<std::size_t> lists;
  for (std::size_t list = 0; list < sizes.size(); ++list) {
    lists.insert(lists.end(), static_cast<std::size_t>(sizes[list]), list);
  }
  return lists;
}

TEST(Groups, are_whole_in_one_batch_of_one_rank) {
  for (std::int64_t const count : {1, 8, 9, 100, 1'001}) {
    auto const sizes = list_sizes(count, 8);
    auto const lists = lists_of(sizes);
    for (int const ranks : {1, 2, 3}) {
      for (std::int64_t const shuffle_rows : {std::int64_t{0}, std::int64_t{90}, kWholeEpoch}) {
        for (auto const last : {LastBatch::partial, LastBatch::padded, LastBatch::dropped}) {
          if (last == LastBatch::dropped && count < 100) {
            continue;
          }
          std::map<std::int64_t, int> seen;
          std::set<std::size_t> numbers;
          std::size_t batches = 0;
          for (int rank = 0; rank < ranks; ++rank) {
            auto const own = batches_of(sizes,
                                        {.batch_size = 10,
                                         .epochs = 3,
                                         .shuffle_rows = shuffle_rows,
                                         .last_batch = last,
                                         .rank = rank,
                                         .ranks = ranks,
                                         .group = "query"});
            numbers.insert(own.size());
            batches = own.size();
            for (auto const& rows : own) {
              ASSERT_LE(rows.size(), 10U);
              for (std::size_t i = 0; i < rows.size();) {
                auto const list = lists[static_cast<std::size_t>(rows[i])];
                for (std::int64_t k = 0; k < sizes[list]; ++k, ++i) {
                  ASSERT_LT(i, rows.size()) << "a list is split";
                  ASSERT_EQ(lists[static_cast<std::size_t>(rows[i])], list);
                  ASSERT_TRUE(k == 0 || rows[i] == rows[i - 1] + 1);
                  ++seen[rows[i]];
                }
              }
            }
          }
          EXPECT_EQ(numbers.size(), 1U) << "ranks have different numbers of batches";
          std::size_t lost = 0;
          for (std::int64_t row = 0; row < count; ++row) {
            EXPECT_LE(seen[row], 3);
            lost += static_cast<std::size_t>(3 - seen[row]);
          }
          if (last == LastBatch::dropped) {
            EXPECT_LT(lost, 3U * 10U * static_cast<std::size_t>(ranks));
          } else {
            EXPECT_EQ(lost, 0U);
          }
          // Lists of 4.5 rows on average leave out less than a half of the places.
          EXPECT_LE(batches, 3 * (static_cast<std::size_t>(2 * count) / 10 / ranks + 2));
        }
      }
    }
  }
}

TEST(Groups, fill_batches_in_the_order_of_the_reader) {
  EXPECT_EQ(
      batches_of({3, 4, 2, 5, 1, 4}, {.batch_size = 7, .group = "query"}, 2),
      (std::vector<Rows>{{0, 1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12, 13}, {14, 15, 16, 17, 18}}));
  // The ranks of a batch are filled one after the other, and the last batch is divided evenly.
  EXPECT_EQ(batches_of({3, 3, 3, 3, 3, 2, 2}, {.batch_size = 7, .ranks = 2, .group = "query"}),
            (std::vector<Rows>{{0, 1, 2, 3, 4, 5}, {12, 13, 14}}));
  EXPECT_EQ(
      batches_of({3, 3, 3, 3, 3, 2, 2}, {.batch_size = 7, .rank = 1, .ranks = 2, .group = "query"}),
      (std::vector<Rows>{{6, 7, 8, 9, 10, 11}, {15, 16, 17, 18}}));
}

TEST(Groups, are_shuffled_anew_in_each_epoch) {
  auto const sizes = list_sizes(300, 6);
  auto const batches = batches_of(
      sizes, {.batch_size = 10, .epochs = 2, .shuffle_rows = kWholeEpoch, .group = "query"});
  Rows all;
  for (auto const& batch : batches) {
    all.insert(all.end(), batch.begin(), batch.end());
  }
  ASSERT_EQ(all.size(), 600U);
  Rows const first(all.begin(), all.begin() + 300);
  Rows const second(all.begin() + 300, all.end());
  EXPECT_NE(first, second);
  EXPECT_FALSE(std::ranges::is_sorted(first));
}

TEST(Groups, depend_neither_on_threads_nor_on_chunks) {
  auto const sizes = list_sizes(2'000, 9);
  for (std::int64_t const shuffle_rows : {0, 100}) {
    LoaderOptions options{
        .batch_size = 16, .epochs = 2, .shuffle_rows = shuffle_rows, .group = "query"};
    auto const expected = batches_of(sizes, options);
    for (int const threads : {1, 4}) {
      for (std::int64_t const chunk_rows : {1, 3, 50, 5'000}) {
        options.threads = threads;
        EXPECT_EQ(batches_of(sizes, options, chunk_rows), expected);
      }
    }
  }
}

TEST(Groups, go_on_from_every_position) {
  auto const sizes = list_sizes(160, 9);
  for (std::int64_t const shuffle_rows : {std::int64_t{0}, std::int64_t{50}, kWholeEpoch}) {
    for (auto const last : {LastBatch::partial, LastBatch::dropped}) {
      for (int rank = 0; rank < 2; ++rank) {
        LoaderOptions options{.batch_size = 12,
                              .epochs = 2,
                              .shuffle_rows = shuffle_rows,
                              .last_batch = last,
                              .rank = rank,
                              .ranks = 2,
                              .group = "query"};
        auto const all = batches_of(sizes, options);
        ListReader reader(sizes, 7);
        Loader loader(reader, options);
        for (std::size_t given = 0; given <= all.size(); ++given) {
          options.start = LoaderPosition::parse(to_string(loader.position()));
          EXPECT_EQ(*options.start, loader.position());
          EXPECT_EQ(batches_of(sizes, options),
                    std::vector<Rows>(all.begin() + static_cast<std::ptrdiff_t>(given), all.end()));
          options.start.reset();
          static_cast<void>(loader.next());
        }
      }
    }
  }
}

TEST(Groups, of_queries_in_libsvm_files) {
  TemporaryFolder const folder;
  auto const path = folder.write("lists.txt",
                                 "1 qid:7 1:0.5\n0 qid:7 2:1\n2 qid:8 1:1\n0 qid:9 1:2\n"
                                 "1 qid:9 1:3\n1 qid:9 1:4\n");
  LibSvmReader reader(path, {.query = "query", .features = 2});
  Loader loader(reader, {.batch_size = 4, .last_batch = LastBatch::padded, .group = "query"});
  auto const first = loader.next();
  EXPECT_THAT(first->ints("query"), ::testing::ElementsAre(7, 7, 8, -1));
  auto const second = loader.next();
  EXPECT_THAT(second->ints("query"), ::testing::ElementsAre(9, 9, 9, -1));
  EXPECT_FALSE(loader.next());
}

TEST(Groups, that_cannot_be_are_refused) {
  auto const failure = [](std::vector<std::int64_t> const& sizes, LoaderOptions const& options) {
    return message_of<DataError>([&] { batches_of(sizes, options); });
  };
  EXPECT_THAT(failure({2, 6, 1}, {.batch_size = 5, .group = "query"}),
              ::testing::HasSubstr("column 'query': a group of more than 5 rows of the value 1"));
  EXPECT_THAT(failure({4}, {.batch_size = 5, .last_batch = LastBatch::dropped, .group = "query"}),
              ::testing::HasSubstr("expected at least 5"));
  auto const refusal = [](LoaderOptions const& options) {
    return message_of<std::invalid_argument>([&] { batches_of({1}, options); });
  };
  EXPECT_THAT(refusal({.group = "score"}),
              ::testing::HasSubstr("the group 'score' is of type float32"));
  EXPECT_THAT(refusal({.group = "user"}), ::testing::HasSubstr("'user'"));
  CountingReader without(3);
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { static_cast<void>(Loader(without).next()->groups()); }),
              ::testing::HasSubstr("expected LoaderOptions::group"));
  ListReader reader({1, 1}, 1);
  auto const start = Loader(reader, {.batch_size = 2, .group = "query"}).position();
  EXPECT_THAT(refusal({.batch_size = 2, .start = start}),
              ::testing::HasSubstr("groups of column 'query' in batches of 2 on each of 1 ranks"));
  EXPECT_THAT(refusal({.batch_size = 1, .ranks = 2, .group = "query", .start = start}),
              ::testing::HasSubstr("another part of the rows"));
}

}  // namespace
}  // namespace msstream::data
