// SPDX-License-Identifier: Apache-2.0
#include "comm/kept_ranks.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

TEST(KeptRanksTest, serve_one_function_after_the_other_with_one_communicator) {
  KeptRanks<Host> kept(3);
  std::vector<std::optional<comm::Communicator<Host>>> communicators(3);
  for (int call = 0; call < 4; ++call) {
    std::atomic<int> came{0};
    kept.call([&](Rank<Host> const& rank) {
      auto const x = rank.tensor(std::vector<float>{static_cast<float>(rank.rank() + call)});
      all_reduce(rank.communicator, x);
      EXPECT_EQ(to_host(x)[0], static_cast<float>(3 + 3 * call));
      auto& first = communicators[static_cast<std::size_t>(rank.rank())];
      if (!first) {
        first.emplace(rank.communicator);
      }
      EXPECT_EQ(first->group(), rank.communicator.group());
      came.fetch_add(1);
    });
    EXPECT_EQ(came.load(), 3);
  }
  communicators.clear();
}

TEST(KeptRanksTest, an_exception_of_one_ends_all) {
  KeptRanks<Host> kept(3);
  auto const fail = [&](Rank<Host> const& rank) {
    if (rank.rank() == 1) {
      throw std::runtime_error("of rank 1");
    }
    if (rank.rank() == 2) {
      barrier(rank.communicator);
      rank.communicator.synchronize();
    }
  };
  EXPECT_THROW(kept.call(fail), std::runtime_error);
  EXPECT_ANY_THROW(kept.call([](Rank<Host> const&) {}));
}

TEST(KeptRanksTest, are_made_anew_after_an_exception) {
  AllKeptRanks<Host> all;
  EXPECT_THROW(all.call(2, [](Rank<Host> const&) { throw std::runtime_error("of both"); }),
               std::runtime_error);
  std::atomic<int> came{0};
  all.call(2, [&](Rank<Host> const&) { came.fetch_add(1); });
  EXPECT_EQ(came.load(), 2);
  all.TearDown();
}

TEST(KeptRanksTest, numbers_of_ranks_are_those_of_the_machine) {
  EXPECT_EQ(numbers_of_ranks<Host>({1, 2, 3, 4}), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(numbers_of_ranks<Host>({7, 9, 12}), (std::vector<int>{7, 8}));
}

}  // namespace
}  // namespace msstream::testing
