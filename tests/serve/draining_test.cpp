// SPDX-License-Identifier: Apache-2.0
// Tests the draining and the destruction of an inference pool.
#include "serve/waiting_fixture.hpp"

namespace msstream::testing {
namespace {

template <class R>
class DrainingTest : public WaitingTest<R> {};
TYPED_TEST_SUITE(DrainingTest, Runtimes, RuntimeNames);

TYPED_TEST(DrainingTest, draining_answers_what_was_admitted_and_refuses_what_comes) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(world.device, world.net(1), this->one_slot());
  Random random;
  Asked const asked(random, 2);
  std::vector<std::future<Answer>> answers;
  std::atomic<bool> drained{false};
  std::thread drains;
  {
    Gate gate;
    hold_all(gate, pool);
    for (int i = 0; i < 5; ++i) {
      answers.push_back(pool.submit(asked.query()));
    }
    drains = std::thread([&] {
      pool.drain();
      drained = true;
    });
    await([&] {  // until the pool drains; its queue may be full before
      auto const refused = pool.counts().refused;
      auto late = pool.submit(asked.query());
      if (pool.counts().refused == refused) {
        answers.push_back(std::move(late));
        return false;
      }
      return this->reason_of(late) == Refused::Reason::draining;
    });
    EXPECT_FALSE(drained);
  }
  drains.join();
  for (auto& answer : answers) {
    ASSERT_EQ(answer.wait_for(milliseconds(0)), std::future_status::ready);
    static_cast<void>(answer.get());
  }
  auto const counts = pool.counts();
  EXPECT_EQ(counts.admitted, counts.answered);
  pool.drain();  // has nothing to do a second time
}

TYPED_TEST(DrainingTest, going_with_queries_in_flight_and_in_the_queue_answers_them) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  for (auto const threads :
       {LaunchThreads::none, LaunchThreads::shared, LaunchThreads::per_group}) {
    Random random;
    std::vector<Asked> asked;
    std::vector<std::future<Answer>> answers;
    {
      auto options = world.options();
      options.launch_threads = threads;
      serve::InferencePool pool(world.device, net, options);
      for (int i = 0; i < 30; ++i) {
        answers.push_back(pool.submit(asked.emplace_back(random, 1 + i % 16).query()));
      }
    }
    for (std::size_t i = 0; i < answers.size(); ++i) {
      ASSERT_EQ(answers[i].wait_for(milliseconds(0)), std::future_status::ready);
      EXPECT_TRUE(same_bits(answers[i].get().values, world.alone(*net, asked[i])));
    }
  }
}

TYPED_TEST(DrainingTest, draining_ends_while_others_go_on_submitting) {
  ServeWorld<TypeParam> const world;
  Random random;
  Asked const asked(random, 2);
  for (int round = 0; round < 10; ++round) {
    serve::InferencePool pool(world.device, world.net(1), this->one_slot());
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> refused{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (!stop) {
          pool.submit(asked.query(),
                      [&](Outcome const& outcome) { refused += outcome.has_answer() ? 0 : 1; });
        }
      });
    }
    await([&] { return pool.counts().answered > 10; });
    pool.drain();
    auto const counts = pool.counts();
    EXPECT_EQ(counts.admitted, counts.answered + counts.failed);
    auto const before = refused.load();
    await([&] { return refused > before; });  // the threads still submit
    stop = true;
    for (auto& thread : threads) {
      thread.join();
    }
  }
}

TYPED_TEST(DrainingTest, draining_does_not_wait_for_queries_that_it_refuses) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(world.device, world.net(1), world.options());
  Random random;
  Asked const asked(random, 2);
  pool.drain();
  std::atomic<bool> is_called{false};
  std::atomic<bool> may_return{false};
  std::thread submits([&] {
    pool.submit(asked.query(), [&](Outcome const&) {
      is_called = true;
      is_called.notify_all();
      may_return.wait(false);
    });
  });
  is_called.wait(false);
  pool.drain();  // while the callback of a refused query runs
  may_return = true;
  may_return.notify_all();
  submits.join();
  EXPECT_EQ(pool.counts().refused, 1U);
}

}  // namespace
}  // namespace msstream::testing
