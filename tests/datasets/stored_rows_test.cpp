// SPDX-License-Identifier: Apache-2.0
#include "datasets/stored_rows.hpp"

#include "datasets/distinct_values.hpp"
#include "datasets/split.hpp"
#include "ops/ops_fixture.hpp"

#include <msstream/data/loader.hpp>
#include <msstream/data/transforms.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

namespace msstream::datasets {
namespace {

using ::testing::ElementsAre;
using testing::expect_refused;

data::Schema small_schema() {
  return data::Schema({{"a", data::ColumnType::int64, 2},
                       {"x", data::ColumnType::float32, 1, {data::Transform::normalize()}},
                       {"y"}});
}

/// Returns a chunk of rows; row r has the keys 10r and 10r + 1, the value x = r, and the label -r.
data::Chunk small_chunk(std::int64_t first, std::int64_t rows) {
  data::Chunk chunk(small_schema());
  for (auto row = first; row < first + rows; ++row) {
    chunk.ints("a").push_back(10 * row);
    chunk.ints("a").push_back(10 * row + 1);
    chunk.floats("x").push_back(static_cast<float>(row));
    chunk.floats("y").push_back(-static_cast<float>(row));
  }
  return chunk;
}

/// Returns stored rows in chunks of three.
StoredRows small_rows(std::int64_t chunks) {
  StoredRows rows(small_schema());
  for (std::int64_t i = 0; i < chunks; ++i) {
    rows.add(small_chunk(3 * i, 3));
  }
  return rows;
}

/// Checks that the columns of the rows belong to each other, and returns the numbers of the rows.
std::vector<std::int64_t> numbers_of(StoredRows const& rows) {
  std::vector<std::int64_t> numbers;
  for (auto const& chunk : rows.chunks()) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(chunk.rows()); ++i) {
      auto const number = static_cast<std::int64_t>(chunk.floats("x")[i]);
      numbers.push_back(number);
      EXPECT_EQ(chunk.ints("a")[2 * i], 10 * number);
      EXPECT_EQ(chunk.ints("a")[2 * i + 1], 10 * number + 1);
      EXPECT_EQ(chunk.floats("y")[i], -static_cast<float>(number));
    }
  }
  EXPECT_EQ(static_cast<std::int64_t>(numbers.size()), rows.rows());
  return numbers;
}

/// A reader of chunks of three rows. Each of its tasks from number `failing` on throws its own
/// number.
class TaskReader final : public data::Reader {
 public:
  TaskReader(int tasks, int failing) : tasks_(tasks), failing_(failing) {}

  [[nodiscard]] data::Schema const& schema() const override { return schema_; }
  bool next(data::Chunk& chunk) override {
    auto const task = next_task();
    if (task) {
      task(chunk);
    }
    return task != nullptr;
  }
  [[nodiscard]] Position position() const override { return {.offset = given_}; }
  void seek(Position const& position) override { given_ = static_cast<int>(position.offset); }
  [[nodiscard]] Task next_task() override {
    if (given_ == tasks_) {
      return {};
    }
    return [this, number = given_++](data::Chunk& chunk) {
      if (number >= failing_) {
        throw number;
      }
      chunk = small_chunk(3 * number, 3);
    };
  }

 private:
  data::Schema schema_ = small_schema();
  int tasks_;
  int failing_;
  int given_ = 0;
};

TEST(StoredRows, are_loaded_in_their_order_whatever_the_threads) {
  for (std::size_t const threads : {1, 4}) {
    TaskReader reader(50, 50);
    auto const numbers = numbers_of(load_rows(reader, threads));
    ASSERT_EQ(numbers.size(), 150U);
    for (std::size_t row = 0; row < numbers.size(); ++row) {
      ASSERT_EQ(numbers[row], static_cast<std::int64_t>(row));
    }
  }
}

TEST(StoredRows, the_first_failing_task_is_reported) {
  for (int round = 0; round < 50; ++round) {
    TaskReader reader(100, 17);
    try {
      (void)load_rows(reader, 4);
      FAIL() << "expected an exception";
    } catch (int number) {
      ASSERT_EQ(number, 17);
    }
  }
}

TEST(StoredRows, refuse_chunks_of_other_columns) {
  StoredRows rows(small_schema());
  expect_refused([&] { rows.add(data::Chunk(data::Schema({{"x"}}))); }, "other columns");
}

/// Row r has r modulo 4 values, each of them r.
TEST(StoredRows, with_jagged_columns_are_divided_by_rows) {
  data::Schema const schema({{"ids", data::ColumnType::int64, data::kJagged},
                             {"weights", data::ColumnType::float32, data::kJagged}});
  StoredRows rows(schema);
  for (std::int64_t first = 0; first < 22; first += 11) {
    data::Chunk chunk(schema);
    for (auto row = first; row < first + 11; ++row) {
      for (std::int64_t i = 0; i < row % 4; ++i) {
        chunk.ints("ids").push_back(row);
        chunk.floats("weights").push_back(static_cast<float>(row));
      }
      for (auto const* const column : {"ids", "weights"}) {
        chunk.offsets(column).push_back(chunk.offsets(column).back() + row % 4);
      }
    }
    rows.add(std::move(chunk));
  }
  auto const [training, held_out] = divide(std::move(rows), 3);
  EXPECT_EQ(held_out.rows(), 7);
  EXPECT_EQ(training.rows(), 15);
  auto const expected = split_rows(22, 3);
  auto const expect_rows = [](StoredRows const& part, std::vector<std::int64_t> const& numbers) {
    std::size_t next = 0;
    for (auto const& chunk : part.chunks()) {
      chunk.check();
      for (std::int64_t row = 0; row < chunk.rows(); ++row) {
        auto const at = static_cast<std::size_t>(row);
        auto const number = numbers.at(next++);
        auto const begin = chunk.offsets("ids")[at];
        EXPECT_EQ(chunk.offsets("ids")[at + 1] - begin, number % 4);
        EXPECT_EQ(chunk.offsets("weights")[at + 1], chunk.offsets("ids")[at + 1]);
        for (auto i = begin; i < chunk.offsets("ids")[at + 1]; ++i) {
          EXPECT_EQ(chunk.ints("ids")[static_cast<std::size_t>(i)], number);
          EXPECT_EQ(chunk.floats("weights")[static_cast<std::size_t>(i)],
                    static_cast<float>(number));
        }
      }
    }
    EXPECT_EQ(next, numbers.size());
  };
  expect_rows(training, expected.training);
  expect_rows(held_out, expected.held_out);
}

TEST(StoredRows, are_copied_by_any_number_of_readers) {
  auto const rows = small_rows(4);
  for (int round = 0; round < 2; ++round) {
    auto const reader = rows.reader();
    auto const read = load_rows(*reader, 1);
    EXPECT_EQ(numbers_of(read), numbers_of(rows));
    reader->seek({});
    EXPECT_EQ(numbers_of(load_rows(*reader, 1)), numbers_of(rows));
  }
  auto const reader = rows.reader();
  data::Chunk chunk(rows.schema());
  ASSERT_TRUE(reader->next(chunk));
  auto const second = reader->position();
  ASSERT_TRUE(reader->next(chunk));
  reader->seek(second);
  ASSERT_TRUE(reader->next(chunk));
  EXPECT_THAT(chunk.floats("x"), ElementsAre(3, 4, 5));
}

TEST(StoredRows, that_are_taken_are_in_memory_once) {
  auto rows = small_rows(2);
  auto const* const first = rows.chunks().front().floats("x").data();
  auto const reader = rows.take();
  EXPECT_EQ(rows.rows(), 0);
  EXPECT_TRUE(rows.chunks().empty());
  reader->seek({});
  data::Chunk chunk(rows.schema());
  ASSERT_TRUE(reader->next(chunk));
  EXPECT_EQ(chunk.floats("x").data(), first);
  EXPECT_THROW(reader->seek({}), std::logic_error);
  ASSERT_TRUE(reader->next(chunk));
  EXPECT_THAT(chunk.floats("x"), ElementsAre(3, 4, 5));
  EXPECT_FALSE(reader->next(chunk));
}

TEST(StoredRows, that_are_taken_serve_all_epochs_of_a_loader) {
  auto rows = small_rows(5);
  data::Transforms const transforms(rows.schema());
  transforms.fit(*rows.reader());
  data::Loader loader(
      rows.take(),
      {.batch_size = 4, .epochs = 3, .shuffle_rows = data::kWholeEpoch, .transforms = transforms});
  std::vector<float> labels;
  while (auto const batch = loader.next()) {
    auto const some = batch->floats("y");
    labels.insert(labels.end(), some.begin(), some.end());
  }
  ASSERT_EQ(labels.size(), 45U);
  for (auto begin = labels.begin(); begin != labels.end(); begin += 15) {
    std::sort(begin, begin + 15);
    EXPECT_EQ(*begin, -14.0F);
    EXPECT_EQ(std::adjacent_find(begin, begin + 15), begin + 15) << "each row once in an epoch";
  }
}

TEST(StoredRows, are_divided_by_their_numbers_whatever_the_chunks) {
  auto const [training, held_out] = divide(small_rows(4), 5);
  EXPECT_THAT(numbers_of(held_out), ElementsAre(4, 9));
  EXPECT_THAT(numbers_of(training), ElementsAre(0, 1, 2, 3, 5, 6, 7, 8, 10, 11));
  auto const all = divide(small_rows(4), 0);
  EXPECT_EQ(all.held_out.rows(), 0);
  EXPECT_EQ(numbers_of(all.training), numbers_of(small_rows(4)));
  EXPECT_THROW((void)divide(small_rows(1), 1), std::invalid_argument);
  EXPECT_THROW((void)divide(small_rows(1), -1), std::invalid_argument);
}

TEST(StoredRows, rows_that_are_held_out_are_not_learned_from) {
  auto const [training, held_out] = divide(small_rows(1), 3);  // rows 0 and 1, and row 2
  data::Transforms const transforms(training.schema());
  transforms.fit(*training.reader());
  EXPECT_THAT(transforms.apply(held_out.chunks().front()).floats("x"), ElementsAre(3.0F));
}

TEST(DistinctValues, count_each_value_once_zero_among_them) {
  DistinctValues few;
  DistinctValues many;
  EXPECT_EQ(few.count(), 0);
  for (std::int64_t row = 0; row < 1000; ++row) {
    few.insert(row % 3);
    many.insert(row << 40);  // values that agree in their low bits
  }
  EXPECT_EQ(few.count(), 3);
  EXPECT_EQ(many.count(), 1000);
}

TEST(Split, every_fifth_row_is_held_out) {
  auto const split = split_rows(11, 5);
  EXPECT_THAT(split.held_out, ElementsAre(4, 9));
  EXPECT_THAT(split.training, ElementsAre(0, 1, 2, 3, 5, 6, 7, 8, 10));
  EXPECT_TRUE(split_rows(11, 0).held_out.empty());
  EXPECT_THROW((void)split_rows(11, 1), std::invalid_argument);
  EXPECT_THROW((void)split_rows(11, -1), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::datasets
