// SPDX-License-Identifier: Apache-2.0
// Tests that ranks that are threads wait for each other's launches of young collectives.
#include "comm/launches.hpp"

#include "comm/nccl/young_collectives.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace msstream::testing {
namespace {

using comm::detail::Collective;
using comm::detail::CollectiveKind;
using comm::detail::Launches;
using comm::detail::YoungCollectives;

constexpr auto kForLong = std::chrono::hours(1);

TEST(LaunchesTest, a_rank_returns_when_all_have_launched) {
  Launches launches(3);
  std::atomic<int> looks{0};  // rises while rank 0 waits, and once when it returns
  std::atomic<bool> has_returned{false};
  auto const look = [&] {
    ++looks;
    looks.notify_all();
    return false;
  };
  std::thread first([&] {
    launches.count(0);
    EXPECT_TRUE(launches.wait_for_others(0, kForLong, look));
    has_returned = true;
    look();
  });
  for (int const rank : {1, 2}) {
    int const seen = looks.load();
    if (!has_returned.load()) {
      looks.wait(seen);
    }
    EXPECT_FALSE(has_returned.load()) << "before rank " << rank << " has come";
    launches.count(rank);
  }
  first.join();
  // Ranks that are ahead are not waited for.
  launches.count(1);
  EXPECT_TRUE(launches.wait_for_others(2, kForLong, [] { return false; }));
}

TEST(LaunchesTest, a_rank_does_not_wait_behind_a_failure_or_for_ever) {
  Launches launches(2);
  launches.count(0);
  EXPECT_FALSE(launches.wait_for_others(0, kForLong, [] { return true; }));
  EXPECT_FALSE(launches.wait_for_others(0, std::chrono::nanoseconds(1), [] { return false; }));
}

Collective of_size(std::int64_t count) {
  return {.kind = CollectiveKind::all_reduce, .dtype = DType::float32, .count = count};
}

TEST(YoungCollectivesTest, a_new_size_and_those_behind_it_are_young) {
  YoungCollectives young;
  for (int i = 0; i < 64; ++i) {
    EXPECT_TRUE(young.is(of_size(8))) << i;
  }
  EXPECT_FALSE(young.is(of_size(8)));
  EXPECT_TRUE(young.is(of_size(9)));
  EXPECT_TRUE(young.is(of_size(8)));
  auto gathered = of_size(8);
  gathered.kind = CollectiveKind::all_gather;
  for (int i = 0; i < 62; ++i) {
    static_cast<void>(young.is(of_size(8)));
  }
  EXPECT_FALSE(young.is(of_size(8)));
  EXPECT_TRUE(young.is(gathered));
}

TEST(YoungCollectivesTest, none_is_young_once_a_rank_has_not_come_three_times) {
  YoungCollectives young;
  for (std::int64_t size = 8; size < 11; ++size) {
    EXPECT_TRUE(young.is(of_size(size))) << size;
    young.trust();
    EXPECT_FALSE(young.is(of_size(size))) << size;
  }
  EXPECT_FALSE(young.is(of_size(11)));
}

TEST(YoungCollectivesTest, hundreds_of_sizes_are_all_known_after_a_round) {
  YoungCollectives young;
  auto const round = [&] {
    int count = 0;
    for (std::int64_t size = 1; size <= 300; ++size) {
      count += young.is(of_size(size * 8)) ? 1 : 0;
    }
    return count;
  };
  EXPECT_EQ(round(), 300);
  static_cast<void>(round());
  EXPECT_EQ(round(), 0);
}

}  // namespace
}  // namespace msstream::testing
