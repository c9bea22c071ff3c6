// SPDX-License-Identifier: Apache-2.0
#include "datasets/dataset.hpp"

#include "datasets/split.hpp"
#include "datasets/standardise.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

namespace msstream::datasets {
namespace {

using ::testing::ElementsAre;

Schema small_schema(std::int64_t hotness = 1) {
  return {{"a", "b"}, {"x"}, {"y", "z"}, hotness};
}

/// Returns a block of data rows; row r has the keys a = 10r and b = 10r + 1, the value x = r, and
/// the labels r and -r.
RowBlock small_block(std::int64_t first, std::int64_t rows) {
  RowBlock block{rows, {}, {}, {}};
  for (auto row = first; row < first + rows; ++row) {
    auto const value = static_cast<float>(row);
    block.keys.insert(block.keys.end(), {10 * row, 10 * row + 1});
    block.continuous.push_back(value);
    block.labels.insert(block.labels.end(), {value, -value});
  }
  return block;
}

/// A source of row blocks. Each of its tasks from number `failing` on throws its own number.
class BlockSource final : public RowSource {
 public:
  BlockSource(int blocks, int failing) : blocks_(blocks), failing_(failing) {}

  [[nodiscard]] Schema const& schema() const override { return schema_; }
  [[nodiscard]] RowTask next() override {
    if (given_ == blocks_) {
      return {};
    }
    return [this, number = given_++] {
      if (number >= failing_) {
        throw number;
      }
      return small_block(3 * number, 3);
    };
  }

 private:
  Schema schema_ = small_schema();
  int blocks_;
  int failing_;
  int given_ = 0;
};

TEST(Dataset, blocks_become_one_table_in_their_order) {
  for (std::size_t const threads : {1, 4}) {
    BlockSource source(50, 50);
    auto const data = load_dataset(source, threads);
    ASSERT_EQ(data.rows(), 150);
    for (std::int64_t row = 0; row < 150; ++row) {
      ASSERT_THAT(data.keys(row), ElementsAre(10 * row, 10 * row + 1));
      ASSERT_THAT(data.continuous(row), ElementsAre(static_cast<float>(row)));
    }
  }
}

TEST(Dataset, the_first_failing_block_is_reported) {
  for (int round = 0; round < 50; ++round) {
    BlockSource source(100, 17);
    try {
      (void)load_dataset(source, 4);
      FAIL() << "expected an exception";
    } catch (int number) {
      ASSERT_EQ(number, 17);
    }
  }
}

TEST(Dataset, gathers_field_by_field_and_zeroes_the_rest) {
  std::vector<RowBlock> blocks{small_block(0, 5)};
  Dataset const data(small_schema(), std::move(blocks));
  BatchLayout const layout(data.schema(), 3);
  std::vector<std::int64_t> keys(layout.key_count(), -7);
  std::vector<float> continuous(layout.continuous_count(), -7.0F);
  std::vector<float> labels(layout.label_count(), -7.0F);
  StagedBatch batch{keys.data(), continuous.data(), labels.data()};

  data.gather(std::vector<std::int64_t>{4, 2}, layout, batch);
  EXPECT_EQ(batch.rows, 2);
  EXPECT_THAT(keys, ElementsAre(40, 20, 0, 41, 21, 0));
  EXPECT_THAT(continuous, ElementsAre(4, 2, 0));
  EXPECT_THAT(labels, ElementsAre(4, 2, 0, -4, -2, 0));
}

TEST(Dataset, gathers_bags_whole) {
  RowBlock block{2, {1, 2, 3, 4, 5, 6, 7, 8}, {0, 0}, {0, 0, 0, 0}};
  std::vector<RowBlock> blocks;
  blocks.push_back(block);
  Dataset const data(small_schema(2), std::move(blocks));
  BatchLayout const layout(data.schema(), 2);
  HostStaging staging(layout, 1);
  auto& batch = staging.batches()[0];
  data.gather(std::vector<std::int64_t>{1, 0}, layout, batch);
  EXPECT_THAT(std::vector(batch.keys, batch.keys + layout.key_count()),
              ElementsAre(5, 6, 1, 2, 7, 8, 3, 4));
}

TEST(Dataset, refuses_rows_that_are_not_there) {
  Dataset const data(small_schema(), {small_block(0, 2)});
  BatchLayout const layout(data.schema(), 1);
  HostStaging staging(layout, 1);
  auto& batch = staging.batches()[0];
  EXPECT_THROW(data.gather(std::vector<std::int64_t>{2}, layout, batch), std::out_of_range);
  EXPECT_THROW(data.gather(std::vector<std::int64_t>{-1}, layout, batch), std::out_of_range);
  EXPECT_THROW(data.gather(std::vector<std::int64_t>{0, 1}, layout, batch), std::invalid_argument);
}

TEST(Dataset, refuses_a_block_that_does_not_match_its_schema) {
  auto block = small_block(0, 2);
  block.keys.pop_back();
  EXPECT_THROW(Dataset(small_schema(), {block}), std::invalid_argument);
}

TEST(Dataset, counts_distinct_keys_zero_among_them) {
  RowBlock block;
  for (std::int64_t row = 0; row < 1000; ++row) {
    block.keys.insert(block.keys.end(), {row % 3, row << 40});  // keys that agree in their low bits
    block.continuous.push_back(0);
    block.labels.insert(block.labels.end(), {0, 0});
  }
  block.rows = 1000;
  Dataset const data(small_schema(), {block});
  EXPECT_EQ(data.distinct_keys(0), 3);
  EXPECT_EQ(data.distinct_keys(1), 1000);
  EXPECT_THROW((void)data.distinct_keys(2), std::invalid_argument);
}

TEST(Split, every_fifth_row_is_held_out) {
  auto const split = split_rows(11, 5);
  EXPECT_THAT(split.held_out, ElementsAre(4, 9));
  EXPECT_THAT(split.training, ElementsAre(0, 1, 2, 3, 5, 6, 7, 8, 10));
  EXPECT_TRUE(split_rows(11, 0).held_out.empty());
  EXPECT_THROW((void)split_rows(11, 1), std::invalid_argument);
  EXPECT_THROW((void)split_rows(11, -1), std::invalid_argument);
}

TEST(Standardise, fits_on_the_given_rows_alone) {
  Dataset data(small_schema(), {small_block(0, 101)});
  std::vector<std::int64_t> const rows{1, 3};  // without row 100, which would move the mean
  auto const fitted = fit_standardisation(data, rows);
  EXPECT_THAT(fitted.mean, ElementsAre(2.0F));
  EXPECT_THAT(fitted.deviation, ElementsAre(1.0F));
  standardise(data, fitted);
  EXPECT_EQ(data.continuous(100)[0], 98.0F);
}

TEST(Standardise, a_constant_field_becomes_zero) {
  Dataset data(small_schema(), {small_block(0, 5)});
  std::vector<std::int64_t> const same_row(1000, 4);
  auto const fitted = fit_standardisation(data, same_row);
  standardise(data, fitted);
  EXPECT_NEAR(data.continuous(4)[0], 0.0F, 1e-5F);
  EXPECT_NEAR(data.continuous(0)[0], -4.0F, 1e-5F);
}

TEST(Standardise, refuses_no_rows_and_other_fields) {
  Dataset data(small_schema(), {small_block(0, 5)});
  EXPECT_THROW((void)fit_standardisation(data, {}), std::invalid_argument);
  EXPECT_THROW(standardise(data, {{0, 0}, {1, 1}}), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::datasets
