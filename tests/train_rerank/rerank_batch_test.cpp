// SPDX-License-Identifier: Apache-2.0
#include "rerank_batch.hpp"

#include "datasets/data_files.hpp"
#include "ops/ops_fixture.hpp"

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <stdexcept>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using train_rerank::gather;
using train_rerank::RerankShape;

/// Two ranking lists, of two items and of one item, with three feature columns.
datasets::RankLists const kLists{.columns = 3,
                                 .offsets = {0, 2, 3},
                                 .features = {1, 2, 3, 5, 6, 7, -1, -2, -3},
                                 .grades = {0, 2, 1}};
constexpr RerankShape kTwoByTwo{.columns = 3, .user_groups = 2, .item_groups = 2, .targets = 2};

TEST(RerankBatch, pads_lists_and_divides_columns) {
  auto const batch = gather(kLists, Integers{1, 0}, 3, kTwoByTwo);
  EXPECT_EQ(batch.queries, 2);
  EXPECT_THAT(batch.lengths, ElementsAre(1, 2));
  ASSERT_EQ(batch.listed.size(), 2U);
  EXPECT_THAT(batch.listed[0], ElementsAre(-1, 0, 0, 1, 5, 0));
  EXPECT_THAT(batch.listed[1], ElementsAre(-2, -3, 0, 0, 0, 0, 2, 3, 6, 7, 0, 0));
  ASSERT_EQ(batch.users.size(), 2U);
  EXPECT_THAT(batch.users[0], ElementsAre(-1, 3));
  EXPECT_THAT(batch.users[1], ElementsAre(-2, -3, 4, 5));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0));
}

TEST(RerankBatch, refuses_what_does_not_fit) {
  expect_refused([] { (void)gather(kLists, Integers{1, 0}, 1, kTwoByTwo); }, "2 items in 1 places");
  expect_refused([] { (void)gather(kLists, Integers{1}, 3, {.columns = 4}); }, "3 columns", "of 4");
  EXPECT_THROW((void)gather(kLists, Integers{2}, 3, kTwoByTwo), std::out_of_range);
  EXPECT_THROW((void)gather(kLists, Integers{-1}, 3, kTwoByTwo), std::out_of_range);
}

TEST(RerankBatch, holds_all_queries_of_real_lists) {
  auto const path = test_data("lambdarank/rank.train");
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "no " << path << ": set MSSTREAM_TEST_DATA";
  }
  auto const lists = datasets::read_rank_lists(path);
  Integers all(static_cast<std::size_t>(lists.queries()));
  std::iota(all.begin(), all.end(), 0);
  auto const batch = gather(lists, all, lists.longest(), {.columns = lists.columns});
  EXPECT_EQ(std::accumulate(batch.lengths.begin(), batch.lengths.end(), 0), 3'005);
  EXPECT_EQ(std::accumulate(batch.labels.begin(), batch.labels.end(), 0.0F),
            (1'211 + 858 + 222 + 69) + (858 + 222 + 69) + (222 + 69));
}

}  // namespace
}  // namespace msstream::testing
