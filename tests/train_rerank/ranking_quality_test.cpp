// SPDX-License-Identifier: Apache-2.0
#include "ranking_quality.hpp"

#include "ops/ops_fixture.hpp"

#include <cmath>

namespace msstream::testing {
namespace {

using train_rerank::gather;
using train_rerank::RankingQuality;

TEST(RankingQuality, is_the_mean_over_lists_and_not_over_items) {
  support::RankLists const lists{.columns = 1,
                                 .offsets = {0, 2, 5, 6},
                                 .features = {1, 2, 3, 4, 5, 6},
                                 .grades = {0, 2, 1, 0, 0, 0}};
  Integers const queries{1, 0, 2};
  train_rerank::RerankShape const shape{
      .columns = 1, .user_groups = 1, .item_groups = 1, .targets = 2};
  // Of each target, list by list: 1, then 0, then 2. By both targets together the
  // first puts the wanted item second, and the second puts it first; by one of them it would not be
  // so. Of the third nothing is wanted. Behind the ends
  // stands what must not count.
  std::vector<Floats> const logits = {{1, -1, 0, -1, 1, 99, 3, 99, 99},
                                      {-2, 2, -3, 1, 0, 99, -3, 99, 99}};
  RankingQuality quality;
  EXPECT_FALSE(quality.loss());
  EXPECT_FALSE(quality.ndcg());
  quality.add(lists, queries, gather(lists, queries, 3, shape), logits);
  EXPECT_DOUBLE_EQ(*quality.ndcg(), (1 / std::log2(3.0) + 1) / 2);

  auto const loss = [](double logit, double label) {
    return std::log1p(std::exp(logit)) - label * logit;
  };
  double const first =
      (loss(1, 1) + loss(-1, 0) + loss(0, 0)) / 3 + (loss(-2, 0) + loss(2, 0) + loss(-3, 0)) / 3;
  double const second = (loss(-1, 0) + loss(1, 1)) / 2 + (loss(1, 0) + loss(0, 1)) / 2;
  double const third = loss(3, 0) + loss(-3, 0);
  EXPECT_NEAR(*quality.loss(), (first + second + third) / 3, 1e-12);
}

}  // namespace
}  // namespace msstream::testing
