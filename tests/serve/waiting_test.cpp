// SPDX-License-Identifier: Apache-2.0
// What queries meet that are not launched at once: the queue, deadlines, batches, the end.
#include "serve/serve_fixture.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <mutex>
#include <string>

namespace msstream::testing {
namespace {

using serve::Clock;
using serve::DeadlineExceeded;
using serve::Outcome;
using serve::Priority;
using serve::Refused;
using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::ElementsAre;

template <class R>
class WaitingTest : public RuntimeTest<R> {
 protected:
  /// One place: the first query has it, the others wait.
  [[nodiscard]] static InferencePoolOptions one_slot() {
    auto options = ServeWorld<R>::options();
    options.replicas = 1;
    options.depth = 1;
    return options;
  }
  [[nodiscard]] static Refused::Reason reason_of(std::future<Answer>& answer) {
    try {
      static_cast<void>(answer.get());
    } catch (Refused const& refused) {
      return refused.reason();
    }
    throw std::logic_error("it was not refused");
  }
};
TYPED_TEST_SUITE(WaitingTest, Runtimes, RuntimeNames);

TYPED_TEST(WaitingTest, a_full_queue_refuses_and_counts) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  auto options = this->one_slot();
  options.queue_capacity = 3;
  serve::InferencePool pool(world.device, net, options);
  Random random;
  std::vector<Asked> asked;
  std::vector<std::future<Answer>> answers;
  {
    Gate gate;
    hold_all(gate, pool);
    for (std::int64_t rows : {3, 16, 1, 5}) {
      answers.push_back(pool.submit(asked.emplace_back(random, rows).query()));
    }
    auto refused = pool.submit(asked.front().query());
    EXPECT_EQ(this->reason_of(refused), Refused::Reason::queue_full);
    EXPECT_EQ(pool.counts().refused, 1U);
    EXPECT_EQ(pool.counts().admitted, 4U);
    EXPECT_EQ(pool.counts().queued, 3U);
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(same_bits(answers[i].get().values, world.alone(*net, asked[i])));
  }
}

TYPED_TEST(WaitingTest, without_a_queue_what_finds_no_slot_is_refused) {
  ServeWorld<TypeParam> const world;
  auto options = this->one_slot();
  options.queue_capacity = 0;
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  std::future<Answer> first;
  {
    Gate gate;
    hold_all(gate, pool);
    first = pool.submit(asked.query());
    auto second = pool.submit(asked.query());
    EXPECT_EQ(this->reason_of(second), Refused::Reason::queue_full);
  }
  static_cast<void>(first.get());
  static_cast<void>(pool.submit(asked.query()).get());  // its slot is idle before its reply
}

TYPED_TEST(WaitingTest, urgent_queries_come_first_and_those_of_one_priority_in_order) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(world.device, world.net(1), this->one_slot());
  Random random;
  Asked const asked(random, 2);
  std::vector<std::string> order;  // the poller's until the pool is drained
  auto const submit = [&](std::string const& name, Priority priority) {
    auto query = asked.query();
    query.priority = priority;
    pool.submit(query, [&order, name](Outcome const&) { order.push_back(name); });
  };
  {
    Gate gate;
    hold_all(gate, pool);
    submit("first", Priority::low);
    submit("low", Priority::low);
    submit("normal", Priority::normal);
    submit("high", Priority::high);
    submit("normal 2", Priority::normal);
    submit("high 2", Priority::high);
    submit("low 2", Priority::low);
  }
  pool.drain();
  EXPECT_THAT(order, ElementsAre("first", "high", "high 2", "normal", "normal 2", "low", "low 2"));
}

TYPED_TEST(WaitingTest, a_query_whose_deadline_has_passed_is_not_run) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(world.device, world.net(1), this->one_slot());
  Random random;
  Asked const asked(random, 2);
  auto late = asked.query();
  late.deadline = Clock::now();
  auto too_late = pool.submit(late);
  EXPECT_THROW(static_cast<void>(too_late.get()), DeadlineExceeded);
  std::future<Answer> first;
  std::future<Answer> patient;
  {
    Gate gate;
    hold_all(gate, pool);
    first = pool.submit(asked.query());
    std::vector<std::future<Answer>> impatient;
    for (int wait : {3, 1, 4, 2}) {
      auto query = asked.query();
      query.deadline = Clock::now() + milliseconds(wait);
      impatient.push_back(pool.submit(query));
    }
    auto query = asked.query();
    query.deadline = Clock::now() + hours(1);
    patient = pool.submit(query);
    for (auto& answer : impatient) {  // told at their time, while the first is in flight
      EXPECT_THROW(static_cast<void>(answer.get()), DeadlineExceeded);
    }
  }
  EXPECT_EQ(first.get().values, patient.get().values);
  EXPECT_EQ(pool.counts().expired, 5U);
  EXPECT_EQ(pool.counts().launches, 2U);
}

TYPED_TEST(WaitingTest, a_deadline_wakes_a_poller_that_has_nothing_in_flight) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  auto options = this->one_slot();
  options.capture = false;
  options.launch_threads = LaunchThreads::per_group;
  std::atomic<bool> may_launch{true};
  net->before = [&] { may_launch.wait(false); };
  serve::InferencePool pool(world.device, net, options);
  Random random;
  Asked const asked(random, 2);
  may_launch = false;
  auto first = pool.submit(asked.query());  // is being launched, and so not in flight
  auto query = asked.query();
  query.deadline = Clock::now() + milliseconds(2);
  auto answer = pool.submit(query);
  EXPECT_THROW(static_cast<void>(answer.get()), DeadlineExceeded);
  may_launch = true;
  may_launch.notify_all();
  static_cast<void>(first.get());
  EXPECT_EQ(pool.counts().launches, 1U);
}

TYPED_TEST(WaitingTest, a_query_that_waits_for_others_is_launched_before_its_deadline) {
  ServeWorld<TypeParam> const world;
  auto options = world.options();
  options.max_batch_delay = hours(1);
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  auto const is_in_time = [&] {  // but for a machine that is late itself
    auto patient = pool.submit(asked.query());
    auto query = asked.query();
    query.deadline = Clock::now() + milliseconds(20);
    auto answer = pool.submit(query);
    try {
      auto const values = answer.get().values;
      EXPECT_EQ(patient.get().values, values);  // which waits no longer, either
      return true;
    } catch (DeadlineExceeded const&) {
      return false;
    }
  };
  int attempts = 0;
  await([&] { return is_in_time() || ++attempts == 100; });
  EXPECT_LT(attempts, 100);
}

TYPED_TEST(WaitingTest, a_query_of_high_priority_waits_for_no_others_and_takes_them_along) {
  ServeWorld<TypeParam> const world;
  auto options = world.options();
  options.max_batch_delay = hours(1);
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  auto patient = pool.submit(asked.query());
  auto query = asked.query();
  query.priority = Priority::high;
  auto const urgent = pool.submit(query).get();
  EXPECT_EQ(patient.get().values, urgent.values);
  EXPECT_EQ(pool.counts().launches, 1U);
}

TYPED_TEST(WaitingTest, a_full_queue_waits_for_no_others) {
  ServeWorld<TypeParam> const world;
  auto options = world.options();
  options.max_batch_delay = hours(1);
  options.queue_capacity = 3;
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 3; ++i) {
    answers.push_back(pool.submit(asked.query()));
  }
  for (auto& answer : answers) {
    EXPECT_EQ(answer.get().values.size(), 4U);
  }
  EXPECT_EQ(pool.counts().launches, 1U);
}

TYPED_TEST(WaitingTest, in_a_full_queue_urgent_queries_take_the_places_of_others) {
  ServeWorld<TypeParam> const world;
  auto options = this->one_slot();
  options.queue_capacity = 3;
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  std::vector<std::string> told;  // the poller's until the pool is drained
  auto const submit = [&](std::string const& name, Priority priority) {
    auto query = asked.query();
    query.priority = priority;
    pool.submit(query, [&told, name](Outcome const& outcome) {
      told.push_back(outcome.has_answer() ? name : "no " + name);
    });
  };
  {
    Gate gate;
    hold_all(gate, pool);
    submit("first", Priority::low);
    submit("normal", Priority::normal);
    submit("low", Priority::low);
    submit("low 2", Priority::low);
    submit("high", Priority::high);
    await([&] { return pool.counts().displaced == 1; });  // low 2, while the first is in flight
    submit("normal 2", Priority::normal);
    await([&] { return pool.counts().displaced == 2; });
    EXPECT_EQ(pool.counts().refused, 0U);
    auto refused = pool.submit(asked.query());
    EXPECT_EQ(this->reason_of(refused), Refused::Reason::queue_full);
  }
  pool.drain();
  EXPECT_THAT(told, ElementsAre("no low 2", "no low", "first", "high", "normal", "normal 2"));
  auto const counts = pool.counts();
  EXPECT_EQ(counts.admitted, counts.answered + counts.expired + counts.failed);
  EXPECT_EQ(counts.failed, 2U);
}

/// The poller is in a callback, so whoever finds the slot idle launches.
TYPED_TEST(WaitingTest, who_submits_launches_what_waits_when_a_slot_is_idle) {
  ServeWorld<TypeParam> const world;
  auto options = this->one_slot();
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  std::atomic<bool> is_called{false};
  std::atomic<bool> may_return{false};
  std::vector<std::string> order;  // the poller's until the pool is drained
  auto const submit = [&](std::string const& name, Priority priority) {
    auto query = asked.query();
    query.priority = priority;
    pool.submit(query, [&order, name](Outcome const&) { order.push_back(name); });
  };
  {
    Gate gate;
    hold_all(gate, pool);
    pool.submit(asked.query(), [&](Outcome const&) {
      is_called = true;
      is_called.notify_all();
      may_return.wait(false);
    });
    submit("normal", Priority::normal);
    EXPECT_EQ(pool.counts().launches, 1U);
  }
  is_called.wait(false);
  submit("high", Priority::high);
  EXPECT_EQ(pool.counts().launches, 2U);  // by this thread, and of the foremost
  may_return = true;
  may_return.notify_all();
  pool.drain();
  EXPECT_THAT(order, ElementsAre("high", "normal"));
}

TYPED_TEST(WaitingTest, a_batch_is_launched_when_it_is_full_and_each_query_gets_its_rows) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  auto options = world.options();
  options.max_batch_delay = hours(1);
  for (auto const threads : {LaunchThreads::none, LaunchThreads::shared}) {
    options.launch_threads = threads;
    serve::InferencePool pool(world.device, net, options);
    Random random;
    for (std::uint64_t round = 1; round <= 5; ++round) {
      std::vector<Asked> asked;
      std::vector<std::future<Answer>> answers;
      for (std::int64_t rows : {3, 5, 1, 7}) {  // 16
        answers.push_back(pool.submit(asked.emplace_back(random, rows).query()));
      }
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(same_bits(answers[i].get().values, world.alone(*net, asked[i])));
      }
      EXPECT_EQ(pool.counts().launches, round);
    }
  }
}

TYPED_TEST(WaitingTest, a_batch_has_no_more_rows_than_the_largest_bucket) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  auto options = world.options();
  options.max_batch_delay = hours(1);
  serve::InferencePool pool(world.device, net, options);
  Random random;
  Asked const ten(random, 10);
  Asked const other_ten(random, 10);
  auto first = pool.submit(ten.query());
  auto second = pool.submit(other_ten.query());
  EXPECT_TRUE(same_bits(first.get().values, world.alone(*net, ten)));
  pool.drain();  // which the second does not wait for others after
  EXPECT_TRUE(same_bits(second.get().values, world.alone(*net, other_ten)));
  EXPECT_EQ(pool.counts().launches, 2U);
}

TYPED_TEST(WaitingTest, a_batch_that_nobody_fills_is_launched_after_the_delay) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  auto options = world.options();
  options.max_batch_delay = milliseconds(2);
  serve::InferencePool pool(world.device, net, options);
  Random random;
  Asked const asked(random, 2);
  auto const answer = pool.submit(asked.query()).get();
  EXPECT_TRUE(same_bits(answer.values, world.alone(*net, asked)));
  EXPECT_GE(answer.queued, milliseconds(2));
}

TYPED_TEST(WaitingTest, draining_answers_what_was_admitted_and_refuses_what_comes) {
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
    await([&] {  // until it drains; the queue may be full before
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
  pool.drain();  // a second time has nothing to do
}

TYPED_TEST(WaitingTest, going_with_queries_in_flight_and_in_the_queue_answers_them) {
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

TYPED_TEST(WaitingTest, a_callback_gets_the_outcome_once_and_may_submit) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  serve::InferencePool pool(world.device, net, this->one_slot());
  Random random;
  Asked const asked(random, 2);
  auto const expected = world.alone(*net, asked);
  int right = 0;
  std::promise<void> over;
  std::function<void(int)> chain = [&](int left) {
    pool.submit(asked.query(), [&, left](Outcome const& outcome) {
      right += same_bits(outcome.answer().values, expected) ? 1 : 0;
      left == 1 ? over.set_value() : chain(left - 1);
    });
  };
  chain(50);
  over.get_future().get();
  EXPECT_EQ(right, 50);
}

TYPED_TEST(WaitingTest, a_callback_may_neither_drain_nor_swap_and_what_it_throws_is_counted) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  serve::InferencePool pool(world.device, net, world.options());
  Random random;
  Asked const asked(random, 2);
  pool.submit(asked.query(), [&](Outcome const&) {
    EXPECT_THROW(pool.drain(), std::logic_error);
    EXPECT_THROW(pool.swap(net), std::logic_error);
    throw std::domain_error("the user's");
  });
  static_cast<void>(pool.submit(asked.query()).get());
  pool.drain();
  EXPECT_EQ(pool.counts().callbacks_threw, 1U);
  int refused = 0;
  pool.submit(asked.query(), [&](Outcome const& outcome) {
    refused += outcome.has_answer() ? 0 : 1;
    EXPECT_THROW(std::rethrow_exception(outcome.error()), Refused);
    EXPECT_THROW(static_cast<void>(outcome.answer()), Refused);
    EXPECT_THROW(pool.drain(), std::logic_error);
  });
  EXPECT_EQ(refused, 1);  // before submit() has returned
}

TYPED_TEST(WaitingTest, a_callback_inside_submit_may_neither_drain_nor_swap) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  serve::InferencePool pool(world.device, net, world.options());
  Random random;
  Asked const asked(random, 2);
  auto late = asked.query();
  late.deadline = Clock::now();
  int called = 0;
  pool.submit(late, [&](Outcome const& outcome) {
    EXPECT_THROW(static_cast<void>(outcome.answer()), DeadlineExceeded);
    EXPECT_THROW(pool.drain(), std::logic_error);  // it would wait for this very query
    EXPECT_THROW(pool.swap(net), std::logic_error);
    ++called;
  });
  EXPECT_EQ(called, 1);
  EXPECT_EQ(pool.swap(net), 2U);
}

TYPED_TEST(WaitingTest, a_callback_that_is_null_is_refused) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(world.device, world.net(1), world.options());
  Random random;
  Asked const asked(random, 2);
  expect_refused([&] { pool.submit(asked.query(), serve::Callback()); }, "callback", "null");
  EXPECT_EQ(pool.counts().admitted, 0U);
}

TYPED_TEST(WaitingTest, draining_ends_while_others_go_on_submitting) {
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
    await([&] { return refused > before; });  // they have not stopped
    stop = true;
    for (auto& thread : threads) {
      thread.join();
    }
  }
}

TYPED_TEST(WaitingTest, the_poller_sleeps_when_nothing_is_in_flight) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(world.device, world.net(1), world.options());
  serve::InferencePool busy(world.device, world.net(1), world.options());
  Random random;
  Asked const asked(random, 2);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    // It goes to sleep after each round: a bell that is rung before that is heard at once.
    auto const before = pool.counts().poller_sleeps;
    static_cast<void>(pool.submit(asked.query()).get());
    await([&] { return pool.counts().poller_sleeps > before; });
    auto const asleep = pool.counts();
    static_cast<void>(busy.submit(asked.query()).get());
    static_cast<void>(busy.submit(asked.query()).get());
    auto const later = pool.counts();
    EXPECT_LE(later.poller_sweeps, asleep.poller_sweeps + 1);  // of a bell just rung
    EXPECT_LE(later.poller_sleeps, asleep.poller_sleeps + 1);
  }
}

}  // namespace
}  // namespace msstream::testing
