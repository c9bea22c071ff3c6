// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "memory/runtimes.hpp"
#include "step/parallel/clipped_ranks.hpp"

#include <msstream/msstream.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class ShardedClipping : public RanksTest<R> {};
TYPED_TEST_SUITE(ShardedClipping, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(ShardedClipping, gradients_are_clipped_by_the_norm_of_all_ranks) {
  auto const seed = test_seed() % 1000000;
  std::vector<std::vector<Sharding>> const plans{
      {Sharding::table_wise},
      {Sharding::row_wise},
      {Sharding::column_wise},
      {Sharding::replicated},
      {Sharding::row_wise, Sharding::replicated, Sharding::table_wise, Sharding::column_wise}};
  for (std::size_t p = 0; p < plans.size(); ++p) {
    auto how = random_clipping(seed + p);
    how.shardings = plans[p];
    how.clip = 0.8F;
    for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 3, 4})) {
      SCOPED_TRACE(std::string(name_of(plans[p][0])) + ", ranks: " + std::to_string(ranks));
      expect_clipped(clipped_on_ranks<TypeParam>(ranks, how), how);
    }
  }
}

TYPED_TEST(ShardedClipping, gradients_of_distinct_rows_are_clipped_too) {
  auto how = random_clipping(test_seed() % 1000000);
  how.sent = SentRows::distinct;
  how.clip = 0.8F;
  for (auto const sharding :
       {Sharding::table_wise, Sharding::row_wise, Sharding::column_wise, Sharding::replicated}) {
    SCOPED_TRACE(name_of(sharding));
    how.shardings = {sharding};
    for (bool const is_captured : {false, true}) {
      how.is_captured = is_captured;
      expect_clipped(clipped_on_ranks<TypeParam>(3, how), how);
    }
  }
}

TYPED_TEST(ShardedClipping, a_norm_below_the_bound_scales_nothing) {
  auto how = random_clipping(test_seed() % 1000000);
  how.clip = 1e6F;
  expect_clipped(clipped_on_ranks<TypeParam>(3, how), how);
}

TYPED_TEST(ShardedClipping, all_ranks_skip_a_step_whose_gradient_is_not_finite_on_one) {
  auto how = random_clipping(test_seed() % 1000000);
  how.bad_step = 1;
  how.skips = true;
  for (auto const sharding : {Sharding::table_wise, Sharding::column_wise, Sharding::replicated}) {
    how.shardings = {sharding};
    for (float const clip : {0.5F, std::numeric_limits<float>::infinity()}) {
      how.clip = clip;
      for (bool const is_captured : {false, true}) {
        SCOPED_TRACE(name_of(sharding));
        how.is_captured = is_captured;
        expect_clipped(clipped_on_ranks<TypeParam>(3, how), how);
      }
    }
  }
}

TYPED_TEST(ShardedClipping, bits_are_equal_for_all_groups_eager_and_captured) {
  auto how = random_clipping(7);
  how.shardings = {
      Sharding::row_wise, Sharding::table_wise, Sharding::replicated, Sharding::column_wise};
  how.clip = 0.8F;
  auto const expected = clipped_on_ranks<TypeParam>(3, how);
  expect_clipped(expected, how);
  for (int const groups : {0, 1, 2, 4}) {
    for (bool const is_captured : {false, true}) {
      for (bool const together : {false, true}) {
        SCOPED_TRACE(std::to_string(groups) + " groups, captured: " + std::to_string(is_captured));
        how.groups = groups;
        how.is_captured = is_captured;
        how.tables_together = together;
        auto const found = clipped_on_ranks<TypeParam>(3, how);
        EXPECT_EQ(found.bits, expected.bits);
        EXPECT_EQ(found.norms, expected.norms);
      }
    }
  }
}

TYPED_TEST(ShardedClipping, micro_batches_are_clipped_by_the_norm_of_their_mean) {
  auto how = random_clipping(test_seed() % 1000000);
  how.micro_batches = 2;
  how.clip = 0.6F;
  how.shardings = {Sharding::table_wise, Sharding::row_wise};
  for (bool const is_captured : {false, true}) {
    how.is_captured = is_captured;
    expect_clipped(clipped_on_ranks<TypeParam>(2, how), how);
  }
}

TYPED_TEST(ShardedClipping, parts_of_two_sets_of_tables_are_clipped_together) {
  auto how = random_clipping(test_seed() % 1000000);
  how.is_in_two = true;
  how.clip = 0.8F;
  for (auto const sharding : {Sharding::table_wise, Sharding::row_wise}) {
    how.shardings = {sharding};
    for (bool const is_captured : {false, true}) {
      how.is_captured = is_captured;
      expect_clipped(clipped_on_ranks<TypeParam>(3, how), how);
    }
  }
}

TEST(ShardedClippingErrors, tables_of_other_ranks_are_refused) {
  ops::OptimizerRule const rule{.kind = ops::OptimizerKind::sgd, .learning_rate = 1};
  on_ranks<Host>(2, [&](Rank<Host> const& rank) {
    Optimizer<Host> optimizer(rank.device, rule, {.clip_norm = 1});
    optimizer.add_ranks(rank.communicator.any());
    comm::Communicator<Host> const again(rank.device, rank.world, {.name = "again"});
    optimizer.add_ranks(again.any());
    if (rank.rank() != 1) {
      return;
    }
    on_ranks<Host>(
        3,
        [&](Rank<Host> const& other) {
          if (other.rank() == 0) {
            EXPECT_THAT(message_of<std::invalid_argument>(
                            [&] { optimizer.add_ranks(other.communicator.any()); }),
                        ::testing::HasSubstr("tables of rank 1 of 2 of communicator 'world', and "
                                             "of rank 0 of 3 of communicator 'others'; expected "
                                             "the same ranks"));
          }
        },
        {.name = "others"});
  });
}

}  // namespace
}  // namespace msstream::testing
