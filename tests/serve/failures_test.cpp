// SPDX-License-Identifier: Apache-2.0
// Tests that every query gets an outcome, whatever fails, and that an inference pool goes on with
// the replicas that are left.
#include "base/many.hpp"
#include "base/watchdog.hpp"
#include "serve/serve_fixture.hpp"

#include <msstream/runtime/faulty.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <chrono>
#include <string>

namespace msstream::testing {
namespace {

using serve::Outcome;
using serve::Refused;
using ::testing::HasSubstr;

template <class R>
class ServeFailuresTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(ServeFailuresTest, Runtimes, RuntimeNames);

TYPED_TEST(ServeFailuresTest, what_the_model_throws_its_query_gets) {
  ServeWorld<TypeParam> const world;
  for (auto const threads : {LaunchThreads::none, LaunchThreads::shared}) {
    auto const net = world.net(1);
    std::atomic<int> calls{0};
    auto options = world.options();
    options.capture = false;
    options.launch_threads = threads;
    options.max_batch_delay = std::chrono::nanoseconds(threads == LaunchThreads::none ? 0 : 1);
    serve::InferencePool pool(world.device, net, options);
    Random random;
    std::vector<Asked> asked;
    std::vector<Floats> expected;
    for (int i = 0; i < 40; ++i) {
      asked.emplace_back(random, random.integer(1, 16));
      expected.push_back(world.alone(*net, asked.back()));
    }
    // Replaces functions that the model calls. No thread calls them until queries are submitted.
    net->before = [&] {
      if (calls.fetch_add(1) % 5 == 3) {
        throw std::domain_error("before all of it");
      }
    };
    net->midway = [&] {
      if (calls.fetch_add(1) % 7 == 3) {
        throw std::domain_error("midway");
      }
    };
    std::vector<std::future<Answer>> answers;
    for (auto const& one : asked) {
      answers.push_back(pool.submit(one.query()));
    }
    std::uint64_t failed = 0;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      try {
        EXPECT_TRUE(same_bits(answers[i].get().values, expected[i]));
      } catch (std::domain_error const&) {
        ++failed;
      }
    }
    pool.drain();
    auto const counts = pool.counts();
    EXPECT_GT(failed, 0U);
    EXPECT_LT(failed, 40U);
    EXPECT_EQ(counts.failed, failed);
    EXPECT_EQ(counts.admitted, counts.answered + counts.failed);
    EXPECT_EQ(counts.sound_replicas, 2);
  }
}

TYPED_TEST(ServeFailuresTest, a_pool_whose_model_fails_on_zeros_is_not_made) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  net->midway = [] { throw std::domain_error("the model's"); };
  EXPECT_THROW((serve::InferencePool(world.device, net, world.options())), std::domain_error);
}

TYPED_TEST(ServeFailuresTest, what_cannot_be_captured_is_issued_and_says_so) {
  if constexpr (!CapturingRuntime<TypeParam>) {
    GTEST_SKIP() << "nothing is captured on this runtime";
  }
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  int calls = 0;
  net->midway = [&] {
    ++calls;
    if (calls == 4 || calls == 7) {  // the first two calls try out the model
      throw std::domain_error("not in a capture");
    }
  };
  auto options = world.options();
  std::vector<std::string> lines;
  options.log = [&](std::string const& line) { lines.push_back(line); };
  serve::InferencePool pool(world.device, net, options);
  net->midway = [] {};
  EXPECT_EQ(pool.counts().captured_steps, 6U);
  EXPECT_EQ(pool.counts().failed_captures, 2U);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], HasSubstr("replica 0 for each launch of up to 16 rows, since not in a"));
  Random random;
  for (int i = 0; i < 20; ++i) {
    std::vector<Asked> asked;
    std::vector<std::future<Answer>> answers;
    for (int j = 0; j < 8; ++j) {
      answers.push_back(pool.submit(asked.emplace_back(random, random.integer(1, 16)).query()));
    }
    for (std::size_t j = 0; j < answers.size(); ++j) {
      EXPECT_TRUE(same_bits(answers[j].get().values, world.alone(*net, asked[j])));
    }
  }
}

/// A fixture with a device whose runtime calls may fail.
class FaultyServeTest : public ::testing::Test {
 protected:
  using R = Faulty<Host>;

  explicit FaultyServeTest() : world_({.runtime = {.plan = plan_}}), net_(world_.net(1)) {
    for (int i = 0; i < 12; ++i) {
      asked_.emplace_back(random_, random_.integer(1, 16));
      expected_.push_back(world_.alone(*net_, asked_.back()));
    }
  }

  /// Returns whether a query got its answer, which must be right. A query without an answer must
  /// have a failure of the device, or a refusal since no replica is left.
  bool is_answered(std::future<Answer>& answer, std::size_t which) {
    try {
      EXPECT_TRUE(same_bits(answer.get().values, expected_[which]));
      return true;
    } catch (CudaError const&) {
    } catch (OutOfMemory const&) {
    } catch (Refused const& refused) {
      EXPECT_EQ(refused.reason(), Refused::Reason::no_replica_left);
    }
    return false;
  }
  /// Returns options of a pool without a log, since captures are meant to fail in the tests.
  [[nodiscard]] static InferencePoolOptions options() {
    auto options = ServeWorld<R>::options();
    options.log = {};
    return options;
  }
  bool ask(auto& pool, std::size_t which = 0) {
    auto answer = pool.submit(asked_[which].query());
    return is_answered(answer, which);
  }

  std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
  Random random_;
  ServeWorld<R> world_;
  std::shared_ptr<Net<R>> net_;
  std::vector<Asked> asked_;
  std::vector<Floats> expected_;
};

TEST_F(FaultyServeTest, what_was_not_launched_runs_on_another_replica) {
  auto const all_options = options();
  for (auto const threads : {LaunchThreads::none, LaunchThreads::per_group}) {
    auto with = all_options;
    with.launch_threads = threads;
    serve::InferencePool pool(world_.device, net_, with);
    plan_->fail(RuntimeCall::launch_graph, 1, Fault::launch_failure);
    EXPECT_TRUE(ask(pool));
    EXPECT_EQ(pool.counts().moved, 1U);
    EXPECT_EQ(pool.counts().sound_replicas, 1);
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      EXPECT_TRUE(ask(pool, i));
    }
    plan_->reset();
  }
}

TEST_F(FaultyServeTest, what_was_launched_gets_the_error_and_the_others_go_on) {
  for (auto const call : {RuntimeCall::query, RuntimeCall::record}) {
    serve::InferencePool pool(world_.device, net_, options());
    std::future<Answer> answer;
    {
      Gate gate;
      hold_all(gate, pool);
      plan_->fail(call, 1, Fault::launch_failure);
      answer = pool.submit(asked_[0].query());
      await([&] { return pool.counts().failed == 1; });  // the poller queries work that takes long
    }
    EXPECT_THAT(error_of<CudaError>(answer), HasSubstr("719"));
    EXPECT_EQ(pool.counts().sound_replicas, 1);
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      EXPECT_TRUE(ask(pool, i));
    }
    plan_->reset();
  }
}

TEST_F(FaultyServeTest, a_pool_without_replicas_refuses_and_says_why) {
  auto with = options();
  with.replicas = 1;
  with.depth = 1;
  serve::InferencePool pool(world_.device, net_, with);
  std::vector<std::future<Answer>> answers;
  {
    Gate gate;
    hold_all(gate, pool);
    for (int i = 0; i < 3; ++i) {
      answers.push_back(pool.submit(asked_[0].query()));
    }
    plan_->fail(RuntimeCall::query, 1, Fault::sticky);
    await([&] { return plan_->lost(); });
  }
  EXPECT_THAT(error_of<CudaError>(answers[0]), HasSubstr("700"));
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_THAT(error_of<Refused>(answers[i]), HasSubstr("no replica is left"));
  }
  auto late = pool.submit(asked_[0].query());
  EXPECT_THAT(error_of<Refused>(late), HasSubstr("700"));
  EXPECT_EQ(pool.counts().sound_replicas, 0);
  pool.drain();
  EXPECT_EQ(pool.counts().failed, 3U);
  EXPECT_EQ(pool.counts().refused, 1U);
}

TEST_F(FaultyServeTest, a_query_whose_launch_fails_twice_gets_the_failure_and_spares_the_rest) {
  auto const all_options = options();
  for (auto const threads : {LaunchThreads::none, LaunchThreads::per_group}) {
    auto with = all_options;
    with.launch_threads = threads;
    with.replicas = 4;
    serve::InferencePool pool(world_.device, net_, with);
    std::atomic<bool> is_called{false};
    std::atomic<bool> may_return{false};
    pool.submit(asked_[1].query(), [&](Outcome const&) {  // keeps the poller busy
      is_called = true;
      is_called.notify_all();
      may_return.wait(false);
    });
    is_called.wait(false);
    plan_->fail(RuntimeCall::launch_graph, 1, Fault::launch_failure);
    auto answer = pool.submit(asked_[0].query());
    await([&] { return pool.counts().sound_replicas == 3; });
    plan_->fail(RuntimeCall::launch_graph, 1, Fault::launch_failure);
    may_return = true;
    may_return.notify_all();
    EXPECT_THAT(error_of<CudaError>(answer), HasSubstr("719"));
    EXPECT_EQ(pool.counts().moved, 1U);
    EXPECT_EQ(pool.counts().sound_replicas, 2);
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      EXPECT_TRUE(ask(pool, i));
    }
    plan_->reset();
  }
}

/// Makes a replica fail while a launch thread runs the model for one of its queries and more
/// queries are staged for that thread. None of them may be launched on the failed replica.
TEST_F(FaultyServeTest, what_is_staged_on_a_replica_that_has_failed_is_not_launched_there) {
  auto with = options();
  with.depth = 3;
  with.capture = false;
  with.launch_threads = LaunchThreads::shared;
  with.launch_thread_count = 1;
  serve::InferencePool pool(world_.device, net_, with);
  std::atomic<int> calls{0};
  std::atomic<bool> may_fail{false};
  net_->before = [&] {
    if (calls.fetch_add(1) == 0) {
      may_fail.wait(false);
      throw CudaError(719, "a launch", "the first");
    }
  };
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 6; ++i) {
    answers.push_back(pool.submit(asked_[0].query()));
  }
  may_fail = true;
  may_fail.notify_all();
  std::vector<int> answered_by(2);
  int failed = 0;
  for (auto& answer : answers) {
    try {
      ++answered_by[static_cast<std::size_t>(answer.get().replica)];
    } catch (CudaError const&) {
      ++failed;
    }
  }
  EXPECT_EQ(failed, 1);
  EXPECT_THAT(answered_by, ::testing::UnorderedElementsAre(0, 5));
  EXPECT_EQ(calls, 6);  // one call for each query
  EXPECT_EQ(pool.counts().sound_replicas, 1);
}

/// A variant of the pool's options and of how queries are submitted. The test makes each runtime
/// call fail in each variant.
struct FailureCase {
  std::string name;
  std::function<void(InferencePoolOptions&)> change = [](auto&) {};
  bool with_callbacks = false;
  bool with_a_swap = false;
};

TEST_F(FaultyServeTest, whichever_call_fails_every_query_gets_an_outcome) {
  std::vector<FailureCase> const cases{
      {.name = "captured"},
      {.name = "not captured", .change = [](auto& o) { o.capture = false; }},
      {.name = "launch threads",
       .change = [](auto& o) { o.launch_threads = LaunchThreads::per_group; }},
      {.name = "launch threads, not captured",
       .change =
           [](auto& o) {
             o.launch_threads = LaunchThreads::per_group;
             o.capture = false;
           }},
      {.name = "three streams, not captured",
       .change = [](auto& o) { o.merge_streams = o.capture = false; }},
      {.name = "batches",
       .change = [](auto& o) { o.max_batch_delay = std::chrono::microseconds(20); }},
      {.name = "callbacks that submit", .with_callbacks = true},
      {.name = "a swap", .with_a_swap = true},
  };
  constexpr std::size_t kQueries = 6;  // more than the four slots
  auto const other = world_.net(1);    // a model with the same answers
  // Makes every call fail in turn. In builds slowed down by tools only some of the calls fail, down
  // to every tenth, beginning with another call in each case.
  std::uint64_t const step = 10 / many(10);
  std::uint64_t first = 0;
  for (auto const& its : cases) {
    for (auto const fault : {Fault::out_of_memory, Fault::launch_failure, Fault::sticky}) {
      int answered = 0;
      bool fires = true;
      // The number of calls depends on what the poller sees. The loop ends when no call is left to
      // fail, or at call 150, since a poller may query without end.
      for (std::uint64_t number = first++ % step + 1; fires && number <= 150; number += step) {
        auto const where = fmt::format("{}, call {}, {}", its.name, number, name_of(fault));
        SCOPED_TRACE(where);
        Watchdog const watchdog([&] { return where; });
        {
          auto with = options();
          its.change(with);
          serve::InferencePool pool(world_.device, net_, with);
          plan_->fail(number, fault);
          std::vector<std::future<Answer>> answers;
          std::atomic<std::size_t> called{0};
          for (std::size_t i = 0; i < kQueries; ++i) {
            auto const& asked = asked_[i];
            answers.push_back(pool.submit(asked.query()));
            if (its.with_callbacks) {
              pool.submit(asked.query(), [&, i](Outcome const&) {
                pool.submit(asked_[i].query(), [&](Outcome const&) { ++called; });
              });
            }
          }
          if (its.with_a_swap) {
            try {
              pool.swap(other);
            } catch (CudaError const&) {
            } catch (OutOfMemory const&) {
            }
          }
          for (std::size_t i = 0; i < answers.size(); ++i) {
            answered += is_answered(answers[i], i) ? 1 : 0;
          }
          await([&] { return !its.with_callbacks || called == kQueries; });
          pool.drain();
          fires = plan_->failed().has_value();
          auto const counts = pool.counts();
          EXPECT_EQ(counts.admitted, counts.answered + counts.failed);
          EXPECT_EQ(counts.admitted + counts.refused, kQueries * (its.with_callbacks ? 3 : 1));
          EXPECT_TRUE(fault == Fault::sticky || counts.sound_replicas >= 1);
          EXPECT_TRUE(fault == Fault::sticky || counts.failed <= kQueries);
        }
        plan_->reset();
        ASSERT_FALSE(HasFailure());
      }
      EXPECT_GT(answered, 0);
    }
  }
}

TEST_F(FaultyServeTest, a_swap_in_which_a_call_fails_leaves_the_old_model_or_brings_the_new) {
  auto const other = world_.net(2);
  auto const expected_of_other = world_.alone(*other, asked_[0]);
  bool fires = true;
  for (std::uint64_t number = 1; fires; ++number) {
    SCOPED_TRACE(fmt::format("call {}", number));
    auto with = options();
    with.replicas = 1;
    serve::InferencePool pool(world_.device, net_, with);
    plan_->fail(number, Fault::launch_failure);
    bool swapped = false;
    try {
      pool.swap(other);
      swapped = true;
    } catch (CudaError const&) {
    }
    fires = plan_->failed().has_value();
    plan_->reset();
    auto const answer = pool.submit(asked_[0].query()).get();
    EXPECT_EQ(answer.version, swapped ? 2U : 1U);
    EXPECT_TRUE(same_bits(answer.values, swapped ? expected_of_other : expected_[0]));
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace msstream::testing
