// SPDX-License-Identifier: Apache-2.0
#include "ranking_quality.hpp"

#include "ops/ops_fixture.hpp"

#include <cmath>

namespace msstream::testing {
namespace {

using train_rerank::gather;
using train_rerank::RankingQuality;

template <class R>
class RankingQualityTest : public OpsTest<R> {};
TYPED_TEST_SUITE(RankingQualityTest, Runtimes, RuntimeNames);

TYPED_TEST(RankingQualityTest, is_the_mean_over_lists_and_not_over_items) {
  datasets::RankLists const lists{.columns = 1,
                                  .offsets = {0, 2, 5, 6},
                                  .features = {1, 2, 3, 4, 5, 6},
                                  .grades = {0, 2, 1, 0, 0, 0}};
  Integers const queries{1, 0, 2};
  train_rerank::RerankShape const shape{
      .columns = 1, .user_groups = 1, .item_groups = 1, .targets = 2};
  // The logits of each target, for the lists 1, 0 and 2 in this order. Both targets together rank
  // the relevant item second in list 1 and first in list 0; either target alone would rank one of
  // the lists differently. List 2 has no relevant item. The values 99 are beyond the ends of the
  // lists and must not count.
  std::vector<Floats> const logits = {{1, -1, 0, -1, 1, 99, 3, 99, 99},
                                      {-2, 2, -3, 1, 0, 99, -3, 99, 99}};
  std::vector<Tensor<float, TypeParam>> on_device;
  for (auto const& of_target : logits) {
    on_device.push_back(this->put(of_target, {3, 3}));
  }
  RankingQuality<TypeParam> quality(this->device(), shape.targets);
  EXPECT_FALSE(quality.loss());
  EXPECT_FALSE(quality.ndcg());
  quality.add(lists, queries, gather(lists, queries, 3, shape), on_device);
  EXPECT_DOUBLE_EQ(*quality.ndcg(), (1 / std::log2(3.0) + 1) / 2);

  auto const loss = [](double logit, double label) {
    return std::log1p(std::exp(logit)) - label * logit;
  };
  double const first =
      (loss(1, 1) + loss(-1, 0) + loss(0, 0)) / 3 + (loss(-2, 0) + loss(2, 0) + loss(-3, 0)) / 3;
  double const second = (loss(-1, 0) + loss(1, 1)) / 2 + (loss(1, 0) + loss(0, 1)) / 2;
  double const third = loss(3, 0) + loss(-3, 0);
  EXPECT_NEAR(*quality.loss(), (first + second + third) / 3, 1e-7);
}

}  // namespace
}  // namespace msstream::testing
