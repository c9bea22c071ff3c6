// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/ranks.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/data_parallel.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;

template <class R>
class RanksDiffer : public RanksTest<R> {};
TYPED_TEST_SUITE(RanksDiffer, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(RanksDiffer, parameters_and_options_are_equal_on_all_ranks) {
  using R = TypeParam;
  struct Difference {
    std::function<void(Parameters<R>&)> made;  ///< by rank 1, instead of two tables and a weight
    std::string first;                         ///< of rank 0
    std::string second;                        ///< of rank 1
    std::int64_t bucket_bytes = 1;
  };
  auto const make = [](Parameters<R>& parameters) {
    (void)parameters.table("users", {4, 2});
    (void)parameters.table("items", {4, 2});
    (void)parameters.dense("weight", {8}, init::zeros());
  };
  std::vector<Difference> const differences{
      {[](auto& parameters) {
         (void)parameters.table("items", {4, 2});
         (void)parameters.table("users", {4, 2});
         (void)parameters.dense("weight", {8}, init::zeros());
       },
       "the table 'users', float32 [4, 2]",
       "the table 'items', float32 [4, 2]"},
      {[](auto& parameters) {
         (void)parameters.table("users", {4, 2});
         (void)parameters.table("items", {2, 4});
         (void)parameters.dense("weight", {8}, init::zeros());
       },
       "the table 'items', float32 [4, 2]",
       "the table 'items', float32 [2, 4]"},
      {[](auto& parameters) {
         (void)parameters.table("users", {4, 2});
         (void)parameters.template table<float16>("items", {4, 2});
         (void)parameters.dense("weight", {8}, init::zeros());
       },
       "the table 'items', float32 [4, 2]",
       "the table 'items', float16 [4, 2]"},
      {[](auto& parameters) {
         (void)parameters.table("users", {4, 2});
         (void)parameters.table("items", {4, 2});
         (void)parameters.buffer("weight", {8});
       },
       "the dense parameter 'weight', float32 [8]",
       "the buffer 'weight', float32 [8]"},
      {[&](auto& parameters) {
         make(parameters);
         parameters.freeze("users");
       },
       "the table 'users', float32 [4, 2]",
       "the frozen table 'users', float32 [4, 2]"},
      {[&](auto& parameters) {
         make(parameters);
         (void)parameters.dense("more", {1}, init::zeros());
       },
       "nothing more",
       "the dense parameter 'more', float32 [1]"},
      {make, "the mean of buckets of 1 bytes", "the mean of buckets of 2 bytes", 2}};
  on_ranks<R>(3, [&](Rank<R> const& rank) {
    for (auto const& difference : differences) {
      Parameters<R> parameters(rank.device);
      bool const differs = rank.rank() == 1;
      (differs ? difference.made : make)(parameters);
      EXPECT_THAT(
          message_of<std::invalid_argument>([&] {
            DataParallel<R>(parameters,
                            rank.communicator,
                            {.bucket_bytes = differs ? difference.bucket_bytes : 1});
          }),
          HasSubstr("rank 0 has " + difference.first + ", and rank 1 has " + difference.second));
    }
    Parameters<R> parameters(rank.device);
    make(parameters);
    parameters.freeze("users");
    DataParallel<R> const usable(parameters, rank.communicator);
    rank.communicator.synchronize();
  });
}

TYPED_TEST(RanksDiffer, a_table_that_one_rank_has_frozen_later_is_named_on_all) {
  using R = TypeParam;
  on_ranks<R>(3, [](Rank<R> const& rank) {
    Parameters<R> parameters(rank.device);
    auto const users = parameters.table("users", {4, 1});
    auto const items = parameters.table("items", {4, 1});
    DataParallel<R> const parallel(parameters, rank.communicator);
    ops::Bags<R> const ids(rank.tensor(std::vector<std::int64_t>{2}).reshaped({1, 1}));
    GradientTape<R> tape(rank.device);
    auto const backward = [&] {
      parallel.backward(tape,
                        ops::add(tape,
                                 ops::embedding_lookup(tape, users, ids),
                                 ops::embedding_lookup(tape, items, ids)));
    };
    bool const differs = rank.rank() == 1;
    if (differs) {
      parameters.freeze("items");
    }
    EXPECT_THAT(message_of<std::logic_error>(backward),
                HasSubstr("table 'items' is frozen on rank 1, and not on rank 0"));
    tape.clear();
    if (!differs) {
      parameters.freeze("items");
    }
    backward();
    EXPECT_EQ(to_host(tape.gradient(users)), (std::vector<float>{0, 0, 1, 0}));
    EXPECT_FALSE(tape.has_gradient(items));
  });
}

TYPED_TEST(RanksDiffer, a_dense_gradient_of_a_table_is_named) {
  using R = TypeParam;
  on_ranks<R>(1, [](Rank<R> const& rank) {
    Parameters<R> parameters(rank.device);
    auto const table = parameters.table("users", {1, 1});
    DataParallel<R> const parallel(parameters, rank.communicator);
    GradientTape<R> tape(rank.device);
    auto const x = rank.tensor(std::vector<float>{1}).reshaped({1, 1});
    EXPECT_THAT(
        message_of<std::logic_error>([&] { parallel.backward(tape, ops::matmul(tape, x, table)); }),
        HasSubstr("table 'users' has a gradient that does not come from a lookup"));
    // The tape stays usable without the DataParallel.
    tape.clear();
    tape.backward(ops::matmul(tape, x, table));
    EXPECT_TRUE(tape.has_gradient(table));
  });
}

}  // namespace
}  // namespace msstream::testing
