// SPDX-License-Identifier: Apache-2.0
#include "stream/stream_fixture.hpp"

#include <msstream/stream/stream_pool.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <barrier>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class PoolContract : public StreamTest<R> {
 protected:
  std::unique_ptr<StreamPool<R>> make_pool(StreamPoolOptions const& options) {
    return std::make_unique<StreamPool<R>>(this->device(), options);
  }
  static int most_leases(StreamPool<R> const& pool) {
    int most = 0;
    for (int i = 0; i < pool.groups(); ++i) {
      most = std::max(most, pool.leases(i));
    }
    return most;
  }
  static int fewest_leases(StreamPool<R> const& pool) {
    int fewest = pool.leases(0);
    for (int i = 1; i < pool.groups(); ++i) {
      fewest = std::min(fewest, pool.leases(i));
    }
    return fewest;
  }
};
TYPED_TEST_SUITE(PoolContract, Runtimes);

TYPED_TEST(PoolContract, has_its_groups_and_no_others) {
  auto const pool = this->make_pool({.groups = 3});
  EXPECT_EQ(pool->groups(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*pool)[i].index(), i);
  }
  for (int const bad : {-1, 3}) {
    try {
      (void)(*pool)[bad];
      FAIL() << "did not throw";
    } catch (std::out_of_range const& error) {
      EXPECT_EQ(std::string(error.what()),
                fmt::format("StreamPool: group {} asked of a pool of 3", bad));
    }
    EXPECT_THROW((void)pool->leases(bad), std::out_of_range);
  }
}

TYPED_TEST(PoolContract, refuses_options_that_make_no_pool) {
  EXPECT_THROW(this->make_pool({.groups = 0}), std::invalid_argument);
  EXPECT_THROW(this->make_pool({.groups = 257}), std::invalid_argument);
  for (auto const threads : {LaunchThreads::none, LaunchThreads::per_group}) {
    EXPECT_THROW(this->make_pool({.launch_threads = threads, .launch_thread_count = 2}),
                 std::invalid_argument);
  }
  for (int const count : {-1, 65}) {
    EXPECT_THROW(
        this->make_pool({.launch_threads = LaunchThreads::shared, .launch_thread_count = count}),
        std::invalid_argument)
        << count;
  }
}

TYPED_TEST(PoolContract, leases_the_least_leased_group) {
  auto const pool = this->make_pool({.groups = 3});
  auto const first = pool->acquire();
  {
    auto const second = pool->acquire();
    auto const third = pool->acquire();
    EXPECT_EQ(this->fewest_leases(*pool), 1);
    auto const fourth = pool->acquire();
    EXPECT_EQ(this->most_leases(*pool), 2);
  }
  EXPECT_EQ(pool->leases(first->index()), 1);
  auto const next = pool->acquire();
  EXPECT_NE(next->index(), first->index());
}

TYPED_TEST(PoolContract, among_equally_leased_groups_takes_the_one_with_less_work) {
  auto const pool = this->make_pool({.groups = 3});
  Gate gate;
  gate.block(this->runtime(), (*pool)[0].compute().native());
  auto const one = (*pool)[0].compute().record();
  (void)(*pool)[1].compute().record();
  (void)(*pool)[1].compute().record();
  (*pool)[1].compute().synchronize();
  // Group 0 has work in flight, group 1 has complete work, and group 2 has never had work.
  auto const first = pool->acquire();
  auto const second = pool->acquire();
  EXPECT_NE(first->index(), 0);
  EXPECT_NE(second->index(), 0);
  EXPECT_EQ(pool->acquire()->index(), 0);
}

TYPED_TEST(PoolContract, goes_round) {
  auto const pool = this->make_pool({.groups = 3, .policy = LeasePolicy::round_robin});
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(pool->acquire()->index(), i % 3);
  }
}

TYPED_TEST(PoolContract, sticks_to_a_threads_group) {
  auto const pool = this->make_pool({.groups = 4, .policy = LeasePolicy::sticky});
  std::optional<StreamLease<TypeParam>> elsewhere;
  auto const mine = pool->acquire()->index();
  auto const busy = pool->acquire(LeasePolicy::least_loaded);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(pool->acquire()->index(), mine);
  }
  std::thread([&] {
    auto const held = pool->acquire();
    EXPECT_EQ(pool->acquire()->index(), held->index());
  }).join();
}

TYPED_TEST(PoolContract, sticks_to_a_group_of_each_pool_that_a_thread_uses) {
  auto const first = this->make_pool({.groups = 4, .policy = LeasePolicy::sticky});
  auto const second = this->make_pool({.groups = 4, .policy = LeasePolicy::sticky});
  auto const mine = first->acquire()->index();
  (void)second->acquire();
  auto const busy = first->acquire(LeasePolicy::least_loaded);  // makes another group the idle one
  ASSERT_EQ(busy->index(), mine);
  EXPECT_EQ(first->acquire()->index(), mine);
}

TYPED_TEST(PoolContract, leases_of_many_threads_never_skew) {
  constexpr int kThreads = 16;
  auto const pool = this->make_pool({.groups = 5});
  std::barrier<> together(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        together.arrive_and_wait();
        auto const lease = pool->acquire();
        together.arrive_and_wait();
        EXPECT_LE(this->most_leases(*pool) - this->fewest_leases(*pool), 1);
        together.arrive_and_wait();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(this->most_leases(*pool), 0);
}

TYPED_TEST(PoolContract, a_lease_may_outlive_its_pool) {
  auto pool = this->make_pool({.groups = 1});
  auto const lease = pool->acquire();
  pool.reset();
  this->run(lease->engine(), [](auto) {});
  lease->synchronize();
}

class PoolEnvironment : public ::testing::Test {
 protected:
  void TearDown() override {
    for (auto const* name : {"MSSTREAM_STREAM_GROUPS",
                             "MSSTREAM_MERGE_STREAMS",
                             "MSSTREAM_LAUNCH_THREADS",
                             "MSSTREAM_LAUNCH_THREAD_COUNT",
                             "MSSTREAM_SM_PARTITIONS",
                             "MSSTREAM_SPARED_SMS"}) {
      unsetenv(name);
    }
  }
};

TEST_F(PoolEnvironment, sets_what_code_does_not) {
  setenv("MSSTREAM_STREAM_GROUPS", "6", 1);
  setenv("MSSTREAM_MERGE_STREAMS", "on", 1);
  setenv("MSSTREAM_LAUNCH_THREADS", "shared", 1);
  setenv("MSSTREAM_LAUNCH_THREAD_COUNT", "2", 1);
  setenv("MSSTREAM_SM_PARTITIONS", "3", 1);
  setenv("MSSTREAM_SPARED_SMS", "16", 1);
  StreamPoolOptions const from_environment;
  EXPECT_EQ(from_environment.groups, 6);
  EXPECT_TRUE(from_environment.merge_streams);
  EXPECT_EQ(from_environment.launch_threads, LaunchThreads::shared);
  EXPECT_EQ(from_environment.launch_thread_count, 2);
  EXPECT_EQ(from_environment.sm_partitions, 3);
  EXPECT_EQ(from_environment.spared_sms, 16);
  StreamPoolOptions const from_code{.groups = 3};
  EXPECT_EQ(from_code.groups, 3);
  EXPECT_TRUE(from_code.merge_streams);
}

TEST_F(PoolEnvironment, names_the_variable_that_is_wrong) {
  for (auto const* name : {"MSSTREAM_STREAM_GROUPS",
                           "MSSTREAM_LAUNCH_THREADS",
                           "MSSTREAM_LAUNCH_THREAD_COUNT",
                           "MSSTREAM_SM_PARTITIONS",
                           "MSSTREAM_SPARED_SMS"}) {
    setenv(name, "many", 1);
    try {
      StreamPoolOptions const options;
      FAIL() << "did not throw";
    } catch (std::invalid_argument const& error) {
      EXPECT_THAT(error.what(),
                  ::testing::AllOf(::testing::StartsWith(name), ::testing::HasSubstr("'many'")));
    }
    unsetenv(name);
  }
}

}  // namespace
}  // namespace msstream::testing
