// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "data/loaded.hpp"

#include <msstream/data/data_error.hpp>
#include <msstream/data/loader.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace msstream::data {
namespace {

using testing::message_of;

std::vector<std::int64_t> up_to(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<std::int64_t> ids_of(std::vector<SeenBatch> const& batches, std::int64_t epoch = -1) {
  std::vector<std::int64_t> ids;
  for (auto const& batch : batches) {
    if (epoch < 0 || batch.epoch == epoch) {
      ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    }
  }
  return ids;
}

TEST(Loader, keeps_the_order_of_the_reader_unless_it_shuffles) {
  for (std::int64_t const rows : {1, 4, 5, 99, 100, 101}) {
    auto const batches = all_of(rows, {.batch_size = 5, .epochs = 2});
    EXPECT_EQ(ids_of(batches, 0), up_to(rows));
    EXPECT_EQ(ids_of(batches, 1), up_to(rows));
    EXPECT_EQ(batches.size(), static_cast<std::size_t>(2 * ((rows + 4) / 5)));
    std::int64_t index = 0;
    std::int64_t sample = 0;
    for (auto const& batch : batches) {
      EXPECT_EQ(batch.index, index++);
      EXPECT_EQ(batch.first_sample, sample);
      sample += static_cast<std::int64_t>(batch.ids.size());
    }
  }
}

TEST(Loader, every_epoch_has_every_row_once_in_an_order_of_its_own) {
  for (std::int64_t const window : {1, 16, 64, 1'000}) {
    auto const batches =
        all_of(101, {.batch_size = 8, .epochs = 3, .shuffle_rows = window, .seed = 7});
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_THAT(ids_of(batches, epoch), ::testing::UnorderedElementsAreArray(up_to(101)));
    }
    EXPECT_NE(ids_of(batches, 0), up_to(101));
    EXPECT_NE(ids_of(batches, 0), ids_of(batches, 1));
    EXPECT_NE(ids_of(batches, 1), ids_of(batches, 2));
  }
}

TEST(Loader, shuffles_within_windows_of_whole_batches) {
  auto const ids = ids_of(all_of(100, {.batch_size = 8, .shuffle_rows = 17}));
  for (std::size_t window = 0; window < 100; window += 24) {
    auto const begin = ids.begin() + static_cast<std::ptrdiff_t>(window);
    auto const end =
        ids.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(window + 24, 100));
    EXPECT_EQ(*std::min_element(begin, end), static_cast<std::int64_t>(window));
    EXPECT_EQ(*std::max_element(begin, end),
              std::min<std::int64_t>(static_cast<std::int64_t>(window) + 23, 99));
  }
}

TEST(Loader, batches_do_not_depend_on_threads_chunks_or_read_ahead) {
  for (auto const window : {std::int64_t{0}, std::int64_t{40}, kWholeEpoch}) {
    LoaderOptions options{.batch_size = 8, .epochs = 3, .shuffle_rows = window, .seed = 3};
    auto const expected = all_of(333, options);
    for (int threads = 1; threads <= 4; ++threads) {
      for (int const ahead : {1, 9}) {
        for (std::int64_t const chunk : {1, 50, 1'000}) {
          options.threads = threads;
          options.batches_ahead = ahead;
          CountingReader reader(333, chunk);
          Loader loader(reader, options);
          EXPECT_EQ(all_of(loader), expected) << threads << " threads, chunks of " << chunk;
        }
      }
    }
    options.seed = 4;
    EXPECT_EQ(all_of(333, options) == expected, window == 0) << "another seed";
  }
}

TEST(Loader, goes_on_from_every_position_as_if_it_had_not_stopped) {
  for (auto const window : {std::int64_t{0}, std::int64_t{24}, kWholeEpoch}) {
    for (auto const last : {LastBatch::partial, LastBatch::dropped}) {
      for (std::int64_t const rows : {96, 101}) {
        LoaderOptions options{
            .batch_size = 8, .epochs = 3, .shuffle_rows = window, .last_batch = last, .threads = 3};
        auto const expected = all_of(rows, options);
        CountingReader reader(rows);
        Loader loader(reader, options);
        for (std::size_t given = 0; given <= expected.size(); ++given) {
          auto const text = to_string(loader.position());
          options.start = LoaderPosition::parse(text);
          EXPECT_EQ(*options.start, loader.position());
          auto const rest = all_of(rows, options);
          EXPECT_EQ(
              rest,
              std::vector(expected.begin() + static_cast<std::ptrdiff_t>(given), expected.end()))
              << "from " << text;
          EXPECT_EQ(loader.next().has_value(), given < expected.size());
        }
      }
    }
  }
}

TEST(Loader, ranks_share_the_batches_of_one_rank) {
  for (auto const last : {LastBatch::partial, LastBatch::padded, LastBatch::dropped}) {
    for (std::int64_t const rows : {98, 101, 144}) {
      auto const together =
          all_of(rows, {.batch_size = 24, .epochs = 2, .shuffle_rows = 48, .last_batch = last});
      for (int const ranks : {2, 3, 4}) {
        std::vector<std::vector<SeenBatch>> parts;
        for (int rank = 0; rank < ranks; ++rank) {
          parts.push_back(all_of(rows,
                                 {.batch_size = 24 / ranks,
                                  .epochs = 2,
                                  .shuffle_rows = 48,
                                  .last_batch = last,
                                  .rank = rank,
                                  .ranks = ranks}));
          ASSERT_EQ(parts.back().size(), together.size()) << "rank " << rank;
        }
        for (std::size_t i = 0; i < together.size(); ++i) {
          std::vector<std::int64_t> joined;
          std::size_t most = 0;
          std::size_t least = 1'000;
          for (auto const& part : parts) {
            EXPECT_EQ(part[i].first_sample,
                      together[i].first_sample + static_cast<std::int64_t>(joined.size()));
            joined.insert(joined.end(), part[i].ids.begin(), part[i].ids.end());
            most = std::max(most, part[i].ids.size());
            least = std::min(least, part[i].ids.size());
          }
          EXPECT_EQ(joined, together[i].ids) << "batch " << i << " of " << ranks << " ranks";
          EXPECT_LE(most - least, 1U);
        }
      }
    }
  }
}

TEST(Loader, the_last_batch_is_partial_padded_or_dropped) {
  CountingReader reader(10);
  {
    Loader loader(reader, {.batch_size = 8});
    static_cast<void>(loader.next());
    auto const batch = loader.next().value();
    EXPECT_EQ(batch.rows(), 2);
    EXPECT_EQ(batch.shape_rows(), 2);
    EXPECT_EQ(batch.floats("pair").size(), 4U);
    EXPECT_THAT(batch.mask(), ::testing::ElementsAre(1, 1));
  }
  reader.seek({});
  {
    // The memory of the second batch has held the first one.
    Loader loader(reader, {.batch_size = 8, .last_batch = LastBatch::padded, .batches_ahead = 1});
    static_cast<void>(loader.next());
    auto const batch = loader.next().value();
    EXPECT_EQ(batch.rows(), 2);
    EXPECT_EQ(batch.shape_rows(), 8);
    EXPECT_THAT(batch.ints("id"), ::testing::ElementsAre(8, 9, -1, -1, -1, -1, -1, -1));
    EXPECT_THAT(batch.mask(), ::testing::ElementsAre(1, 1, 0, 0, 0, 0, 0, 0));
    EXPECT_THAT(batch.floats("pair"),
                ::testing::ElementsAre(8, 8.5F, 9, 9.5F, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
    EXPECT_THAT(batch.offsets("bag"), ::testing::ElementsAre(0, 0, 1, 1, 1, 1, 1, 1, 1));
    EXPECT_THAT(batch.ints("bag"), ::testing::ElementsAre(90));
  }
  EXPECT_EQ(all_of(10, {.batch_size = 8, .last_batch = LastBatch::dropped}).size(), 1U);
}

TEST(Loader, reads_the_rows_once_if_they_fit_into_a_window) {
  for (auto const& [window, times] : {std::pair(kWholeEpoch, 1), std::pair(std::int64_t{16}, 3)}) {
    int begins = 0;
    CountingReader reader(50, 7, [&](std::int64_t row) { begins += row == 0 ? 1 : 0; });
    Loader loader(reader, {.batch_size = 8, .epochs = 3, .shuffle_rows = window});
    EXPECT_EQ(all_of(loader).size(), 21U);
    EXPECT_EQ(begins, times);
  }
}

TEST(Loader, batches_outlive_the_loader_and_keep_their_rows) {
  std::vector<Batch> kept;
  {
    CountingReader reader(100);
    Loader loader(reader, {.batch_size = 10, .threads = 3});
    while (auto batch = loader.next()) {
      kept.push_back(*batch);
    }
  }
  ASSERT_EQ(kept.size(), 10U);
  std::vector<std::int64_t> ids;
  for (auto const& batch : kept) {
    auto const one = seen(batch).ids;
    ids.insert(ids.end(), one.begin(), one.end());
  }
  EXPECT_EQ(ids, up_to(100));
}

TEST(Loader, what_a_reader_throws_comes_behind_the_complete_windows) {
  for (int threads = 1; threads <= 4; ++threads) {
    CountingReader reader(100, 5, [](std::int64_t row) {
      if (row >= 40) {
        throw std::out_of_range("row 40 is broken");
      }
    });
    Loader loader(reader, {.batch_size = 8, .epochs = 5, .threads = threads});
    std::vector<std::int64_t> ids;
    std::string message;
    try {
      while (auto const batch = loader.next()) {
        auto const one = seen(*batch).ids;
        ids.insert(ids.end(), one.begin(), one.end());
      }
    } catch (std::out_of_range const& error) {
      message = error.what();
    }
    EXPECT_EQ(message, "row 40 is broken");
    EXPECT_EQ(ids, up_to(40));
    EXPECT_EQ(message_of<std::out_of_range>([&] { static_cast<void>(loader.next()); }),
              "row 40 is broken")
        << "again";
  }
}

/// Gives ten rows of a float32 column `x`, which states the transforms, from a file with a name,
/// and calls a function for each row.
class NamedReader final : public Reader {
 public:
  NamedReader(std::vector<Transform> transforms, std::function<void(std::int64_t, Chunk&)> fill)
      : schema_({{.name = "x", .transforms = std::move(transforms)}, {.name = "y"}}),
        fill_(std::move(fill)) {}
  [[nodiscard]] Schema const& schema() const override { return schema_; }
  bool next(Chunk& chunk) override {
    for (auto const end = std::min<std::int64_t>(row_ + 5, 10); row_ < end; ++row_) {
      chunk.floats("y").push_back(0);
      fill_(row_, chunk);
    }
    return chunk.rows() > 0;
  }
  [[nodiscard]] Position position() const override { return {.offset = row_}; }
  void seek(Position const& position) override { row_ = position.offset; }
  [[nodiscard]] std::string file_name(std::int64_t) const override { return "my.db"; }

 private:
  Schema schema_;
  std::function<void(std::int64_t, Chunk&)> fill_;
  std::int64_t row_ = 0;
};

TEST(Loader, errors_of_a_reader_name_its_file) {
  auto const failure = [](std::vector<Transform> const& steps, auto const& fill) {
    NamedReader reader(steps, fill);
    std::optional<Transforms> transforms;
    if (!steps.empty()) {
      transforms.emplace(reader.schema());
    }
    Loader loader(reader, {.batch_size = 2, .epochs = 1, .transforms = transforms});
    return message_of<DataError>([&] {
      while (loader.next()) {
      }
    });
  };
  auto const throws = [](std::int64_t row, Chunk& chunk) {
    if (row == 7) {
      throw std::system_error(std::make_error_code(std::errc::io_error), "the disk");
    }
    chunk.floats("x").push_back(1);
  };
  EXPECT_THAT(failure({}, throws), ::testing::StartsWith("my.db, from position 5 on: the disk: "));
  try {
    NamedReader reader({}, throws);
    Loader loader(reader);
    static_cast<void>(loader.next());
    FAIL();
  } catch (DataError const& error) {
    EXPECT_THROW(std::rethrow_if_nested(error), std::system_error);
  }
  EXPECT_EQ(failure({},
                    [](std::int64_t row, Chunk& chunk) {
                      if (row != 3) {
                        chunk.floats("x").push_back(1);
                      }
                    }),
            "my.db: column 'y' has 5 values; expected 1 in each of 4 rows");
  EXPECT_EQ(failure({Transform::bucketize({2})},
                    [](std::int64_t row, Chunk& chunk) {
                      chunk.floats("x").push_back(row == 8 ? NAN : 1.0F);
                    }),
            "my.db, 3 rows behind position 5: column 'x': a number is missing; expected one, or "
            "fill_missing()");
}

TEST(Loader, a_reader_that_was_repaired_goes_on_from_the_position) {
  bool broken = true;
  CountingReader reader(100, 5, [&](std::int64_t row) {
    if (broken && row >= 40) {
      throw std::runtime_error("not there yet");
    }
  });
  LoaderOptions options{.batch_size = 8, .shuffle_rows = 16};
  std::vector<SeenBatch> batches;
  {
    Loader loader(reader, options);
    try {
      while (auto const batch = loader.next()) {
        batches.push_back(seen(*batch));
      }
    } catch (std::runtime_error const&) {
    }
    options.start = loader.position();
  }
  broken = false;
  Loader loader(reader, options);
  auto const rest = all_of(loader);
  batches.insert(batches.end(), rest.begin(), rest.end());
  options.start.reset();
  EXPECT_EQ(batches, all_of(100, options));
}

/// A reader whose chunks have columns that do not fit each other.
class UnevenReader final : public Reader {
 public:
  [[nodiscard]] Schema const& schema() const override { return schema_; }
  bool next(Chunk& chunk) override {
    chunk.floats("a") = {1, 2, 3};
    chunk.floats("b") = {1, 2};
    return true;
  }
  [[nodiscard]] Position position() const override { return {}; }
  void seek(Position const&) override {}

 private:
  Schema schema_{{{"a"}, {"b"}}};
};

TEST(Loader, names_the_column_that_does_not_fit_the_others) {
  UnevenReader reader;
  Loader loader(reader);
  EXPECT_THAT(message_of<DataError>([&] { static_cast<void>(loader.next()); }),
              ::testing::HasSubstr("column 'b' has 2 values; expected 1 in each of 3 rows"));
}

TEST(Loader, an_epoch_without_a_batch_is_an_error) {
  EXPECT_EQ(message_of<DataError>([] { all_of(0, {.epochs = 9}); }),
            "the reader: 0 rows in an epoch; expected at least 1");
  EXPECT_THAT(message_of<DataError>([] {
                all_of(7, {.batch_size = 8, .epochs = 9, .last_batch = LastBatch::dropped});
              }),
              ::testing::HasSubstr("7 rows in an epoch; expected at least 8"));
  EXPECT_TRUE(all_of(7, {.epochs = 0}).empty());
}

TEST(Loader, stop_ends_the_batches) {
  CountingReader reader(1'000'000'000);
  Loader loader(reader, {.threads = 3});
  EXPECT_TRUE(loader.next());
  loader.stop();
  EXPECT_FALSE(loader.next());
  Loader other = std::move(loader);
  EXPECT_FALSE(other.next());
}

TEST(Loader, refuses_options_and_positions_that_do_not_fit) {
  auto const refusal = [](LoaderOptions const& options) {
    return message_of<std::invalid_argument>([&] { all_of(10, options); });
  };
  EXPECT_THAT(refusal({.batch_size = 0}), ::testing::HasSubstr("batch_size is 0"));
  EXPECT_THAT(refusal({.epochs = -1}), ::testing::HasSubstr("epochs is -1"));
  EXPECT_THAT(refusal({.shuffle_rows = -1}), ::testing::HasSubstr("shuffle_rows is -1"));
  EXPECT_THAT(refusal({.rank = 2, .ranks = 2}), ::testing::HasSubstr("rank 2 of 2"));
  EXPECT_THAT(refusal({.threads = 0}), ::testing::HasSubstr("threads is 0"));
  EXPECT_THAT(refusal({.unfinished_batches = 0}), ::testing::HasSubstr("unfinished_batches is 0"));
  EXPECT_THAT(refusal({.batches_ahead = 0}), ::testing::HasSubstr("batches_ahead is 0"));
  CountingReader reader(10);
  auto const position = Loader(reader, {.batch_size = 4, .seed = 5}).position();
  EXPECT_THAT(refusal({.batch_size = 4, .start = position}),
              ::testing::HasSubstr("seed 5, the options of seed 1"));
  EXPECT_THAT(refusal({.batch_size = 5, .seed = 5, .start = position}),
              ::testing::HasSubstr("batches of 4 rows on all ranks, the options of 5"));
  EXPECT_THAT(refusal({.batch_size = 4, .shuffle_rows = 9, .seed = 5, .start = position}),
              ::testing::HasSubstr("windows of 4 rows to shuffle, the options of 12"));
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [] { static_cast<void>(LoaderPosition::parse("epoch=1 window=x")); }),
              ::testing::HasSubstr("expected window=number, found 'window=x'"));
  EXPECT_THROW(static_cast<void>(LoaderPosition::parse(to_string(position) + " more=1")),
               std::invalid_argument);
}

/// A reader of one column, whose transforms vary.
class OneColumnReader final : public Reader {
 public:
  OneColumnReader(Column column, float first) : schema_({std::move(column)}), first_(first) {}

  [[nodiscard]] Schema const& schema() const override { return schema_; }
  bool next(Chunk& chunk) override {
    if (std::exchange(read_, true)) {
      return false;
    }
    chunk.floats(0) = {first_, 2, 3, 4};
    return true;
  }
  [[nodiscard]] Position position() const override { return {.offset = read_ ? 1 : 0}; }
  void seek(Position const& position) override { read_ = position.offset != 0; }

 private:
  Schema schema_;
  float first_;
  bool read_ = false;
};

TEST(Loader, refuses_a_position_of_other_columns_and_transforms) {
  struct Feed {
    Feed(Column column, float first) : reader(std::move(column), first) {
      if (!reader.schema().columns()[0].transforms.empty()) {
        options.transforms.emplace(reader.schema());
        options.transforms->fit(reader);
      }
    }
    LoaderPosition position() { return Loader(reader, options).position(); }
    std::string refusal(LoaderPosition const& start) {
      options.start = LoaderPosition::parse(to_string(start));
      return message_of<std::invalid_argument>([&] { Loader(reader, options).stop(); });
    }
    OneColumnReader reader;
    LoaderOptions options;
  };
  std::vector<Transform> const steps{Transform::normalize()};
  auto const start = Feed({.name = "x", .transforms = steps}, 1).position();
  EXPECT_EQ(Feed({.name = "x", .transforms = steps}, 1).position(), start);
  EXPECT_THAT(Feed({.name = "x", .transforms = steps}, 5).refusal(start),
              ::testing::HasSubstr("the position is of transforms that have learned other values"));
  EXPECT_THAT(
      Feed({.name = "x", .transforms = {Transform::clip(0, 1), steps[0]}}, 1).refusal(start),
      ::testing::HasSubstr("columns are 'x' of type float32 and width 1, clip(0, 1), norm"));
  EXPECT_THAT(Feed({.name = "y", .transforms = steps}, 1).refusal(start),
              ::testing::HasSubstr("of rows with other columns"));
  EXPECT_THAT(Feed({.name = "x"}, 1).refusal(start), ::testing::HasSubstr("other columns"));
}

TEST(Batch, names_what_a_column_is_not) {
  CountingReader reader(10);
  Loader loader(reader, {.batch_size = 4});
  auto const batch = loader.next().value();
  auto const refusal = [](auto&& call) { return message_of<std::invalid_argument>(call); };
  EXPECT_THAT(refusal([&] { static_cast<void>(batch.floats("ids")); }),
              ::testing::HasSubstr("no column 'ids'; the columns are pair, id, bag"));
  EXPECT_THAT(refusal([&] { static_cast<void>(batch.floats("id")); }),
              ::testing::HasSubstr("column 'id' has values of type int64; asked for floats"));
  EXPECT_THAT(refusal([&] { static_cast<void>(batch.offsets("id")); }),
              ::testing::HasSubstr("column 'id' is not jagged"));
}

}  // namespace
}  // namespace msstream::data
