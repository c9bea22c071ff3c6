// SPDX-License-Identifier: Apache-2.0
// Tests that models can be replaced while they answer queries: every answer comes from exactly one
// version.
#include "serve/serve_fixture.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

namespace msstream::testing {
namespace {

template <class R>
class SwapTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(SwapTest, Runtimes, RuntimeNames);

/// Submits queries from two threads while the calling thread swaps models.
template <Runtime R>
void swap_under_load(InferencePoolOptions const& options, std::uint64_t swaps) {
  ServeWorld<R> const world;
  std::vector<std::shared_ptr<Net<R> const>> nets{world.net(1), world.net(2), world.net(3)};
  auto const net_of = [&](std::uint64_t version) { return (version - 1) % nets.size(); };
  Random random;
  SCOPED_TRACE(fmt::format("seed {}", random.seed()));
  constexpr int kQueries = 8;
  std::vector<Asked> asked;
  std::vector<std::vector<Floats>> expected;
  for (int i = 0; i < kQueries; ++i) {
    asked.emplace_back(random, random.integer(1, 16));
    auto& of_nets = expected.emplace_back();
    for (auto const& net : nets) {
      of_nets.push_back(world.alone(*net, asked.back()));
    }
    ASSERT_FALSE(same_bits(of_nets[0], of_nets[1]));
  }
  serve::InferencePool pool(world.device, nets[0], options);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<int> went_back{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      std::uint64_t newest = 0;
      for (auto next = static_cast<std::size_t>(i); !stop; ++next) {
        auto const which = next % asked.size();
        auto const answer = pool.submit(asked[which].query()).get();
        wrong += same_bits(answer.values, expected[which][net_of(answer.version)]) ? 0 : 1;
        went_back += answer.version < newest ? 1 : 0;
        newest = answer.version;
      }
    });
  }
  for (std::uint64_t i = 1; i <= swaps; ++i) {
    auto const version = pool.swap(nets[net_of(i + 1)]);
    EXPECT_EQ(version, i + 1);
    EXPECT_EQ(pool.submit(asked[0].query()).get().version, version);
  }
  stop = true;
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(went_back, 0);
  EXPECT_EQ(pool.counts().version, swaps + 1);
}

TYPED_TEST(SwapTest, under_load_each_answer_is_of_exactly_one_version) {
  swap_under_load<TypeParam>(ServeWorld<TypeParam>::options(), 30);
}

TYPED_TEST(SwapTest, also_with_launch_threads_and_batches_and_not_captured) {
  auto options = ServeWorld<TypeParam>::options();
  options.launch_threads = LaunchThreads::per_group;
  swap_under_load<TypeParam>(options, 10);
  options.max_batch_delay = std::chrono::microseconds(50);
  swap_under_load<TypeParam>(options, 10);
  options.capture = false;
  swap_under_load<TypeParam>(options, 10);
}

TYPED_TEST(SwapTest, the_old_model_goes_when_its_last_query_is_over) {
  ServeWorld<TypeParam> const world;
  auto net = world.net(1);
  std::weak_ptr<Net<TypeParam>> const old = net;
  serve::InferencePool pool(world.device, std::move(net), world.options());
  Random random;
  Asked const asked(random, 2);
  std::future<Answer> answer;
  std::atomic<bool> swapped{false};
  std::thread swaps;
  {
    Gate gate;
    gate.hold(pool.streams()[0].compute());
    answer = ask_held(pool, asked);
    swaps = std::thread([&] {
      pool.swap(world.net(2));
      swapped = true;
    });
    // Answers of version 2 come from the other replica. They show that the new model is in use and
    // that swap() only waits for the old one.
    for (int of_new = 0; of_new < 20;) {
      of_new += pool.submit(asked.query()).get().version == 2 ? 1 : 0;
    }
    EXPECT_FALSE(old.expired());
    EXPECT_FALSE(swapped);
  }
  EXPECT_EQ(answer.get().version, 1U);
  swaps.join();
  EXPECT_TRUE(old.expired());
  EXPECT_EQ(pool.submit(asked.query()).get().version, 2U);
}

TYPED_TEST(SwapTest, memory_does_not_grow_with_the_number_of_swaps) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  serve::InferencePool pool(world.device, net, world.options());
  Random random;
  Asked const asked(random, 2);
  std::size_t after_two = 0;
  for (int i = 0; i < 12; ++i) {
    pool.swap(net);
    static_cast<void>(pool.submit(asked.query()).get());
    if (i == 2) {
      after_two = world.device.memory_statistics().reserved_bytes;
    }
  }
  EXPECT_LE(world.device.memory_statistics().reserved_bytes, after_two);
}

TYPED_TEST(SwapTest, a_model_that_cannot_be_swapped_in_leaves_the_old_one) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  serve::InferencePool pool(world.device, net, world.options());
  auto const broken = world.net(2);
  broken->midway = [] { throw std::domain_error("the model's"); };
  EXPECT_THROW(pool.swap(broken), std::domain_error);
  EXPECT_THROW(pool.swap(nullptr), std::invalid_argument);
  Random random;
  Asked const asked(random, 2);
  auto const answer = pool.submit(asked.query()).get();
  EXPECT_EQ(answer.version, 1U);
  EXPECT_TRUE(same_bits(answer.values, world.alone(*net, asked)));
  EXPECT_EQ(pool.swap(world.net(3)), 2U);
}

}  // namespace
}  // namespace msstream::testing
