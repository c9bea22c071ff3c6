// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"

#include <msstream/comm/world.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

namespace msstream::testing {
namespace {

using comm::PeerLost;
using comm::World;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RunAsThreads, calls_the_function_once_for_each_rank_on_a_thread_of_its_own) {
  std::mutex mutex;
  std::multiset<int> ranks;
  std::set<std::thread::id> threads;
  comm::run_as_threads(4, [&](World const& world) {
    EXPECT_EQ(world.size(), 4);
    EXPECT_EQ(world.local_rank(), world.rank());
    EXPECT_EQ(world.launch(), World::Launch::threads);
    std::lock_guard const guard(mutex);
    ranks.insert(world.rank());
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_THAT(ranks, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(threads.size(), 4U);
}

TEST(RunAsThreads, runs_all_ranks_at_once) {
  std::atomic<int> came{0};
  comm::run_as_threads(8, [&](World const& world) {
    came.fetch_add(1);
    came.notify_all();
    for (int seen = came.load(); seen < world.size(); seen = came.load()) {
      came.wait(seen);  // would never end if a rank waited for another one to return
    }
  });
  EXPECT_EQ(came.load(), 8);
}

TEST(RunAsThreads, names_the_rank_that_threw_and_keeps_its_exception) {
  try {
    comm::run_as_threads(3, [](World const& world) {
      if (world.rank() == 1) {
        throw std::out_of_range("row 7");
      }
    });
    FAIL() << "expected an exception";
  } catch (PeerLost const& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_STREQ(error.what(), "rank 1 of 3 (threads) has failed: row 7");
    EXPECT_THROW(std::rethrow_if_nested(error), std::out_of_range);
  }
}

TEST(RunAsThreads, follows_the_blame_to_the_rank_that_failed_by_itself) {
  for (int i = 0; i < 100; ++i) {  // the ranks throw in any order
    auto const message = message_of<PeerLost>([] {
      comm::run_as_threads(4, [](World const& world) {
        if (world.rank() == 3) {
          throw std::runtime_error("the root of it");
        }
        throw PeerLost(world.rank() + 1, "waited in vain");
      });
    });
    ASSERT_EQ(message, "rank 3 of 4 (threads) has failed: the root of it");
  }
}

TEST(RunAsThreads, ends_although_ranks_blame_each_other) {
  EXPECT_THAT(message_of<PeerLost>([] {
                comm::run_as_threads(2, [](World const& world) {
                  throw PeerLost(1 - world.rank(), "waited in vain");
                });
              }),
              HasSubstr("waited in vain"));
}

TEST(RunAsThreads, blames_no_rank_of_another_world) {
  for (int const lost : {-1, 5}) {
    try {
      comm::run_as_threads(2, [&](comm::World const& world) {
        if (world.rank() == 1) {
          throw comm::PeerLost(lost, "rank 5 of eight others");
        }
      });
      FAIL();
    } catch (comm::PeerLost const& error) {
      EXPECT_EQ(error.rank(), 1);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("rank 5 of eight others"));
    }
  }
}

TEST(RunAsThreads, passes_on_what_is_no_exception_of_the_standard_library) {
  EXPECT_THAT(message_of<PeerLost>([] { comm::run_as_threads(1, [](World const&) { throw 7; }); }),
              HasSubstr("no std::exception"));
}

TEST(RunAsThreads, refuses_numbers_of_ranks_out_of_range) {
  for (int const bad : {0, -1, 1025}) {
    EXPECT_THAT(message_of<std::invalid_argument>(
                    [&] { comm::run_as_threads(bad, [](World const&) { FAIL(); }); }),
                HasSubstr(std::to_string(bad) + " ranks"));
  }
}

}  // namespace
}  // namespace msstream::testing
