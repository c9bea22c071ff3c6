// SPDX-License-Identifier: Apache-2.0
// Tests which replica of a model gets the next launch.
#include "serve/replicas.hpp"

#include "serve/serve_fixture.hpp"

#include <msstream/memory/device.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <barrier>
#include <numeric>

namespace msstream::testing {
namespace {

using serve::Replica;
using serve::Replicas;
using serve::Slot;

/// Replicas whose slots can be claimed, but that launch nothing.
struct IdleReplicas {
  using R = Tried<Host>;

  IdleReplicas(int count, int depth)
      : streams(device, {.groups = count, .launch_threads = LaunchThreads::none}) {
    auto const layout = std::make_shared<serve::InputLayout const>(net_inputs());
    std::vector<std::unique_ptr<Replica>> made;
    for (int i = 0; i < count; ++i) {
      std::vector<std::unique_ptr<Slot>> slots;
      for (int j = 0; j < depth; ++j) {
        serve::Place const place{static_cast<std::size_t>(i), static_cast<std::size_t>(j), 0};
        slots.push_back(
            std::make_unique<Slot>(place, detail::AnyStaging(device.state(), layout, 1, 1), 1U));
      }
      made.push_back(std::make_unique<Replica>(detail::AnyBranches{streams[i].share_engine()},
                                               std::move(slots)));
    }
    all = std::make_unique<Replicas>(std::move(made));
  }

  Device<R> device;
  StreamPool<R> streams;
  std::unique_ptr<Replicas> all;
};

TEST(ServeReplicas, the_one_with_the_least_to_do_gets_the_next) {
  IdleReplicas made(3, 4);
  auto& replicas = *made.all;
  // Claims a slot for a launch that is expected to take `expected_ns`. Comments with `ns` give the
  // expected nanoseconds left on the replicas large, small and middle.
  auto const of = [&](std::int64_t expected_ns) { return replicas.claim(expected_ns); };
  auto* const large = of(1000);
  auto* const small = of(10);
  auto* const middle = of(300);
  std::vector<std::size_t> const taken{
      large->place.replica, small->place.replica, middle->place.replica};
  EXPECT_THAT(taken, ::testing::UnorderedElementsAre(0U, 1U, 2U));
  EXPECT_EQ(of(100)->place.replica, small->place.replica);    // ns: 1000, 110, 300
  EXPECT_EQ(of(100)->place.replica, small->place.replica);    // ns: 1000, 210, 300
  EXPECT_EQ(of(400)->place.replica, small->place.replica);    // ns: 1000, 610, 300; small is full
  EXPECT_EQ(of(1000)->place.replica, middle->place.replica);  // ns: 1000, 610, 1300
  EXPECT_EQ(of(1)->place.replica, large->place.replica);      // ns: 1001, 610, 1300
  replicas.give_back(*middle);                                // ns: 1001, 610, 1000
  EXPECT_EQ(of(1)->place.replica, middle->place.replica);
  replicas.expect(*large, 5);  // ns: 6, 610, 1001
  EXPECT_EQ(of(1)->place.replica, large->place.replica);
}

TEST(ServeReplicas, those_with_equally_little_take_turns) {
  IdleReplicas made(4, 1);
  std::vector<int> chosen(4);
  for (int i = 0; i < 100; ++i) {
    auto* const slot = made.all->claim(1);
    ++chosen[slot->place.replica];
    made.all->give_back(*slot);
  }
  EXPECT_THAT(chosen, ::testing::Each(25));
}

TEST(ServeReplicas, none_of_a_failed_replica) {
  IdleReplicas made(2, 2);
  auto& replicas = *made.all;
  auto* const first = replicas.claim(1);
  replicas.fail(replicas.of(*first), std::make_exception_ptr(std::domain_error("its failure")));
  replicas.give_back(*first);
  EXPECT_EQ(replicas.sound(), 1);
  EXPECT_EQ(replicas.none_left(), nullptr);
  for (int i = 0; i < 2; ++i) {
    auto* const slot = replicas.claim(1);
    ASSERT_NE(slot, nullptr);
    EXPECT_NE(slot->place.replica, first->place.replica);
  }
  EXPECT_EQ(replicas.claim(1), nullptr);
  auto& other = **std::ranges::find_if(
      replicas, [&](auto const& replica) { return replica.get() != &replicas.of(*first); });
  replicas.fail(other, std::make_exception_ptr(std::domain_error("the other's")));
  EXPECT_EQ(replicas.sound(), 0);
  EXPECT_THAT(message_of<serve::Refused>([&] { std::rethrow_exception(replicas.none_left()); }),
              ::testing::HasSubstr("the other's"));
}

/// Claims a slot on as many threads at once as there are replicas. Each replica must get one claim,
/// although each thread may look before the others have claimed.
TEST(ServeReplicas, claims_at_once_go_to_different_replicas) {
  constexpr int kThreads = 3;
  constexpr int kRounds = 2000;
  IdleReplicas made(kThreads, kThreads);
  std::vector<Slot*> got(kThreads);
  int herds = 0;
  auto const look = [&]() noexcept {
    std::vector<int> chosen(kThreads);
    for (auto* const slot : got) {
      ++chosen[slot->place.replica];
      made.all->give_back(*slot);
    }
    herds += std::ranges::count(chosen, 1) == kThreads ? 0 : 1;
  };
  std::barrier begin(kThreads);
  std::barrier end(kThreads, look);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        begin.arrive_and_wait();
        got[i] = made.all->claim(1);
        end.arrive_and_wait();
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(herds, 0);
}

}  // namespace
}  // namespace msstream::testing
