// SPDX-License-Identifier: Apache-2.0
// Tests queries that are not launched at once: their queue, their deadlines, and which thread
// launches them.
#include "serve/waiting_fixture.hpp"

namespace msstream::testing {
namespace {

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
  static_cast<void>(pool.submit(asked.query()).get());  // a slot is idle before its reply arrives
}

TYPED_TEST(WaitingTest, urgent_queries_come_first_and_those_of_one_priority_in_order) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(world.device, world.net(1), this->one_slot());
  Random random;
  Asked const asked(random, 2);
  std::vector<std::string> order;
  auto const submit = [&](std::string const& name, Priority priority) {
    submit_named(pool, asked, name, priority, order);
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

TYPED_TEST(WaitingTest, what_has_waited_for_ageing_twice_goes_before_what_is_urgent_and_newer) {
  ServeWorld<TypeParam> const world;
  auto options = this->one_slot();
  options.ageing = std::chrono::nanoseconds(1);  // has passed when the first is answered
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  std::vector<std::string> order;
  {
    Gate gate;
    hold_all(gate, pool);
    submit_named(pool, asked, "first", Priority::high, order);
    submit_named(pool, asked, "low", Priority::low, order);
    submit_named(pool, asked, "high", Priority::high, order);
    submit_named(pool, asked, "normal", Priority::normal, order);
  }
  pool.drain();
  EXPECT_THAT(order, ElementsAre("first", "low", "high", "normal"));
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
    for (auto& answer : impatient) {  // expire on time, while the first query is in flight
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
  auto first = pool.submit(asked.query());  // not in flight while it is being launched
  auto query = asked.query();
  query.deadline = Clock::now() + milliseconds(2);
  auto answer = pool.submit(query);
  EXPECT_THROW(static_cast<void>(answer.get()), DeadlineExceeded);
  may_launch = true;
  may_launch.notify_all();
  static_cast<void>(first.get());
  EXPECT_EQ(pool.counts().launches, 1U);
}

TYPED_TEST(WaitingTest, in_a_full_queue_urgent_queries_take_the_places_of_others) {
  ServeWorld<TypeParam> const world;
  auto options = this->one_slot();
  options.queue_capacity = 3;
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  std::vector<std::string> told;  // only the poller uses it until the pool is drained
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
    await([&] { return pool.counts().displaced == 1; });  // displaces low 2, before first ends
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

/// While the poller is busy in a callback, a thread that submits a query launches a waiting one if
/// it finds the slot idle.
TYPED_TEST(WaitingTest, who_submits_launches_what_waits_when_a_slot_is_idle) {
  ServeWorld<TypeParam> const world;
  auto options = this->one_slot();
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  std::atomic<bool> is_called{false};
  std::atomic<bool> may_return{false};
  std::vector<std::string> order;
  auto const submit = [&](std::string const& name, Priority priority) {
    submit_named(pool, asked, name, priority, order);
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
  EXPECT_EQ(pool.counts().launches, 2U);  // this thread launched the foremost query
  may_return = true;
  may_return.notify_all();
  pool.drain();
  EXPECT_THAT(order, ElementsAre("high", "normal"));
}

/// Keeps the poller, which reports expired queries, busy in a callback. A thread that submits a
/// query must not launch an expired one.
TYPED_TEST(WaitingTest, who_submits_launches_nothing_whose_deadline_has_passed) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(world.device, world.net(1), this->one_slot());
  Random random;
  Asked const asked(random, 2);
  std::atomic<bool> is_called{false};
  std::atomic<bool> may_return{false};
  auto late = asked.query();
  late.deadline = Clock::now() + milliseconds(50);
  std::future<Answer> too_late;
  {
    Gate gate;
    hold_all(gate, pool);
    pool.submit(asked.query(), [&](Outcome const&) {
      is_called = true;
      is_called.notify_all();
      may_return.wait(false);
    });
    too_late = pool.submit(late);
  }
  is_called.wait(false);
  await([&] { return Clock::now() > late.deadline; });
  auto in_time = pool.submit(asked.query());
  may_return = true;
  may_return.notify_all();
  EXPECT_THROW(static_cast<void>(too_late.get()), DeadlineExceeded);
  EXPECT_EQ(in_time.get().values.size(), 4U);
}

TYPED_TEST(WaitingTest, the_poller_sleeps_when_nothing_is_in_flight) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(world.device, world.net(1), world.options());
  serve::InferencePool busy(world.device, world.net(1), world.options());
  Random random;
  Asked const asked(random, 2);
  for (std::uint64_t round = 1; round <= 20; ++round) {
    // The poller goes to sleep after each query, unless its doorbell is rung before it sleeps.
    auto const before = pool.counts().poller_sleeps;
    static_cast<void>(pool.submit(asked.query()).get());
    await([&] { return pool.counts().poller_sleeps > before; });
    auto const asleep = pool.counts();
    static_cast<void>(busy.submit(asked.query()).get());
    static_cast<void>(busy.submit(asked.query()).get());
    auto const later = pool.counts();
    EXPECT_LE(later.poller_sweeps, asleep.poller_sweeps + 1);  // one sweep for a bell just rung
    EXPECT_LE(later.poller_sleeps, asleep.poller_sleeps + 1);
  }
}

}  // namespace
}  // namespace msstream::testing
