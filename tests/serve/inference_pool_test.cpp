// SPDX-License-Identifier: Apache-2.0
// Tests that a query gets the bits that the model computes for the query alone, however the
// inference pool runs it.
#include "runtime/counting.hpp"
#include "serve/serve_fixture.hpp"

#include <msstream/ops/dense.hpp>
#include <msstream/stream/stream_scope.hpp>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>

namespace msstream::testing {
namespace {

template <class R>
class InferencePoolTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(InferencePoolTest, Runtimes, RuntimeNames);

TYPED_TEST(InferencePoolTest, a_query_gets_its_answer) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  serve::InferencePool pool(world.device, net, world.options());
  Random random;
  Asked const asked(random, 3);
  auto const answer = pool.submit(asked.query()).get();
  EXPECT_TRUE(same_bits(answer.values, world.alone(*net, asked)));
  EXPECT_EQ(answer.version, 1U);
  EXPECT_GT(answer.on_device.count(), 0);
  EXPECT_EQ(pool.counts().answered, 1U);
  EXPECT_EQ(pool.latencies().on_device.count, 1U);
}

/// Submits random queries from several threads, and compares every answer with the model's answer
/// to the query alone.
template <Runtime R, class Pool>
void ask_from_threads(ServeWorld<R> const& world, Net<R> const& net, Pool& pool, int queries = 40) {
  constexpr int kThreads = 4;
  Random random;
  SCOPED_TRACE(fmt::format("seed {}", random.seed()));
  std::vector<std::vector<Asked>> asked(kThreads);
  std::vector<std::vector<Floats>> expected(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    for (int j = 0; j < queries; ++j) {
      auto const& made =
          asked[static_cast<std::size_t>(i)].emplace_back(random, random.integer(1, 16));
      expected[static_cast<std::size_t>(i)].push_back(world.alone(net, made));
    }
  }
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      constexpr std::size_t kAhead = 5;
      std::vector<std::future<Answer>> answers;
      auto const look = [&](std::size_t j) {
        wrong += same_bits(answers[j].get().values, expected[i][j]) ? 0 : 1;
      };
      for (std::size_t j = 0; j < asked[i].size(); ++j) {
        answers.push_back(pool.submit(asked[i][j].query()));
        if (j >= kAhead) {
          look(j - kAhead);
        }
      }
      for (std::size_t j = asked[i].size() - kAhead; j < asked[i].size(); ++j) {
        look(j);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool.counts().answered, static_cast<std::uint64_t>(kThreads * queries));
}

TYPED_TEST(InferencePoolTest, many_threads_get_the_bits_of_lone_runs_with_every_option) {
  std::vector<std::pair<std::string, std::function<void(InferencePoolOptions&)>>> const changes{
      {"as they are", [](auto&) {}},
      {"one replica", [](auto& o) { o.replicas = 1; }},
      {"five replicas", [](auto& o) { o.replicas = 5; }},
      {"depth 1", [](auto& o) { o.depth = 1; }},
      {"depth 4", [](auto& o) { o.depth = 4; }},
      {"not captured", [](auto& o) { o.capture = false; }},
      {"three streams", [](auto& o) { o.merge_streams = false; }},
      {"three streams, not captured", [](auto& o) { o.merge_streams = o.capture = false; }},
      {"a launch thread for all",
       [](auto& o) {
         o.launch_threads = LaunchThreads::shared;
         o.launch_thread_count = 1;
       }},
      {"launch threads, not captured",
       [](auto& o) {
         o.launch_threads = LaunchThreads::per_group;
         o.capture = false;
       }},
      {"a spinning launch thread a replica",
       [](auto& o) {
         o.launch_threads = LaunchThreads::per_group;
         o.launch_spin_us = 50;
       }},
      {"high priority", [](auto& o) { o.stream_priority = StreamPriority::high; }},
      {"one bucket", [](auto& o) { o.buckets = {16}; }},
      {"batches", [](auto& o) { o.max_batch_delay = std::chrono::microseconds(100); }},
      {"batches by launch threads", [](auto& o) {
         o.max_batch_delay = std::chrono::microseconds(100);
         o.launch_threads = LaunchThreads::shared;
       }}};
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  for (auto const& [name, change] : changes) {
    SCOPED_TRACE(name);
    auto options = world.options();
    change(options);
    serve::InferencePool pool(world.device, net, options);
    ask_from_threads(world, *net, pool);
    auto const steps =
        static_cast<std::uint64_t>(options.replicas * options.depth) * options.buckets.size();
    EXPECT_EQ(pool.counts().captured_steps,
              options.capture && CapturingRuntime<TypeParam> ? steps : 0U);
    EXPECT_EQ(pool.counts().failed_captures, 0U);
  }
}

TYPED_TEST(InferencePoolTest, whoever_shares_memory) {
  for (auto const pinned : {PinnedMode::shared, PinnedMode::per_group}) {
    for (auto const mode : {PoolMode::shared, PoolMode::private_pools_one_limit}) {
      DeviceOptions<TypeParam> options;
      options.memory.pinned_mode = pinned;
      options.memory.mode = mode;
      options.memory.private_pools = 3;
      ServeWorld<TypeParam> const world(options);
      auto const net = world.net(1);
      serve::InferencePool pool(world.device, net, world.options());
      ask_from_threads(world, *net, pool, 10);
    }
  }
}

TYPED_TEST(InferencePoolTest, replicas_with_weights_of_their_own) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  std::vector<std::shared_ptr<Net<TypeParam> const>> copies;
  serve::InferencePool pool(world.device, net, world.options(), [&](Net<TypeParam> const&) {
    return copies.emplace_back(world.net(1));
  });
  EXPECT_EQ(copies.size(), 2U);
  EXPECT_NE(copies[0]->table.data(), copies[1]->table.data());
  ask_from_threads(world, *net, pool, 10);
}

/// A model whose matrix products use a workspace of the matrix library. Each replica has its own
/// workspace.
template <Runtime R>
struct Perceptron {
  static constexpr std::int64_t kUnits = 96;

  explicit Perceptron(Net<R> const& of)
      : net(of),
        hidden(of.frozen(1, {Net<R>::kDense, kUnits})),
        deep(of.frozen(2, {kUnits, kUnits})),
        last(of.frozen(3, {kUnits, Net<R>::kOutputs})),
        bias(of.frozen(4, {kUnits})),
        last_bias(of.frozen(5, {Net<R>::kOutputs})) {}

  [[nodiscard]] Tensor<float, R> operator()(serve::Inputs<R> const& inputs) const {
    auto const first =
        ops::dense(inputs.template get<float>("dense"), hidden, bias, ops::Activation::relu);
    auto const second = ops::dense(first, deep, bias, ops::Activation::relu);
    return ops::dense(second, last, last_bias, ops::Activation::none);
  }

  Net<R> net;
  Tensor<float, R> hidden, deep, last, bias, last_bias;
};

/// A matrix product may add in another order for another number of rows. The expected bits are
/// therefore those of running the query alone in buffers of the query's bucket.
TYPED_TEST(InferencePoolTest, matrix_products_of_replicas_beside_each_other_are_right) {
  ServeWorld<TypeParam> const world;
  auto const model = std::make_shared<Perceptron<TypeParam> const>(*world.net(1));
  Random random;
  SCOPED_TRACE(fmt::format("seed {}", random.seed()));
  std::vector<Asked> asked;
  std::vector<Floats> expected;
  for (int i = 0; i < 64; ++i) {
    asked.emplace_back(random, random.integer(1, 16));
    auto const bucket = asked.back().rows <= 4 ? 4 : 16;
    expected.push_back(world.alone_in(bucket, *model, asked.back()));
  }
  for (bool const capture : {true, false}) {
    auto options = world.options();
    options.replicas = 4;
    options.capture = capture;
    serve::InferencePool pool(world.device, model, options);
    for (int round = 0; round < 4; ++round) {
      std::vector<std::future<Answer>> answers;
      for (auto const& one : asked) {
        answers.push_back(pool.submit(one.query()));
      }
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(same_bits(answers[i].get().values, expected[i])) << i;
      }
    }
  }
}

TYPED_TEST(InferencePoolTest, a_query_goes_to_the_replica_with_the_least_to_do) {
  ServeWorld<TypeParam> const world;
  auto options = world.options();
  options.replicas = 3;
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  for (int round = 0; round < 10; ++round) {
    // Each replica has room for two of the queries at a time.
    std::vector<std::future<Answer>> answers;
    {
      Gate gate;
      hold_all(gate, pool);
      for (int i = 0; i < 3; ++i) {
        answers.push_back(pool.submit(asked.query()));
      }
    }
    std::vector<int> launched(3);
    for (auto& answer : answers) {
      ++launched[static_cast<std::size_t>(answer.get().replica)];
    }
    ASSERT_THAT(launched, ::testing::Each(1));
  }
}

/// Two threads may claim slots of one replica at the same time, but only one of them may launch.
TYPED_TEST(InferencePoolTest, one_thread_at_a_time_launches_on_a_replica) {
  ServeWorld<TypeParam> const world;
  auto const net = world.net(1);
  auto options = world.options();
  options.replicas = 1;
  options.capture = false;
  serve::InferencePool pool(world.device, net, options);
  std::atomic<int> inside{0};
  std::atomic<int> beside{0};
  net->before = [&] {
    ++inside;
    for (int i = 0; i < 20; ++i) {
      std::this_thread::yield();
      beside += inside.load() > 1 ? 1 : 0;
    }
  };
  net->midway = [&] { --inside; };
  ask_from_threads(world, *world.net(1), pool, 40);
  EXPECT_EQ(beside, 0);
}

TYPED_TEST(InferencePoolTest, queued_and_on_device_are_the_latency_and_count_no_time_twice) {
  ServeWorld<TypeParam> const world;
  auto options = world.options();
  options.replicas = 1;
  options.depth = 4;
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  auto const begin = serve::Clock::now();
  std::vector<std::future<Answer>> answers;
  {
    Gate gate;
    hold_all(gate, pool);
    for (int i = 0; i < 4; ++i) {
      answers.push_back(pool.submit(asked.query()));
    }
    auto const until = serve::Clock::now() + std::chrono::milliseconds(2);
    await([&] { return serve::Clock::now() > until; });
  }
  // The gate held all four queries, but the device was busy with one after the other.
  std::chrono::nanoseconds on_device{0};
  for (auto& answer : answers) {
    auto const its = answer.get();
    on_device += its.on_device;
    EXPECT_GE(its.queued.count(), 0);
    EXPECT_LE(its.queued + its.on_device, serve::Clock::now() - begin);
  }
  EXPECT_LE(on_device, serve::Clock::now() - begin);
  EXPECT_GE(on_device, std::chrono::milliseconds(1));
}

/// A model that gives the same values for every query.
template <Runtime R>
struct Constant {
  [[nodiscard]] Tensor<float, R> operator()(serve::Inputs<R> const& inputs) const {
    return values.rows(0, inputs.rows());
  }
  Tensor<float, R> values;
};

TYPED_TEST(InferencePoolTest, an_answer_comes_after_the_copy_of_inputs_that_it_ignores) {
  ServeWorld<TypeParam> const world;
  auto values = zeros<float, TypeParam>(world.device, {16, 2});
  values.freeze();
  auto options = world.options();
  options.capture = false;
  options.merge_streams = false;
  auto const model = std::make_shared<Constant<TypeParam> const>(Constant<TypeParam>{values});
  serve::InferencePool pool(world.device, model, options);
  Random random;
  Asked const asked(random, 2);
  std::future<Answer> held;
  {
    Gate gate;
    gate.hold(pool.streams()[0].h2d());
    held = ask_held(pool, asked);
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(pool.submit(asked.query()).get().replica, 1);
    }
    EXPECT_EQ(held.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  }
  EXPECT_EQ(held.get().replica, 0);
}

TYPED_TEST(InferencePoolTest, a_query_that_does_not_fit_is_refused_by_name) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(world.device, world.net(1), world.options());
  Random random;
  Asked const asked(random, 2);
  auto const refused = [&](Query const& query, auto const&... words) {
    expect_refused([&] { static_cast<void>(pool.submit(query)); }, words...);
  };
  refused({.rows = 0, .values = {asked.keys, asked.dense}}, "0 rows", "1 to 16");
  refused({.rows = 17, .values = {asked.keys, asked.dense}}, "17 rows", "1 to 16");
  refused({.rows = 2, .values = {asked.keys}}, "1 fields", "has 2");
  refused({.rows = 2, .values = {asked.dense, asked.keys}}, "float32", "'keys'", "int64");
  refused({.rows = 1, .values = {asked.keys, asked.dense}}, "8 values", "'keys'", "4 a row");
  EXPECT_EQ(pool.submit(asked.query()).get().values.size(), 4U);
  EXPECT_EQ(pool.counts().admitted, 1U);
}

TYPED_TEST(InferencePoolTest, options_out_of_range_are_refused_by_name) {
  ServeWorld<TypeParam> const world;
  auto const refused = [&](auto&& change, auto const&... words) {
    auto options = world.options();
    change(options);
    expect_refused([&] { serve::InferencePool(world.device, world.net(1), options); }, words...);
  };
  refused([](auto& o) { o.replicas = 0; }, "replicas", "1 to 255");
  refused([](auto& o) { o.depth = 65; }, "depth", "1 to 64");
  refused([](auto& o) { o.inputs = {}; }, "no inputs");
  refused([](auto& o) { o.inputs.push_back(o.inputs[0]); }, "two inputs", "'keys'");
  refused([](auto& o) { o.inputs[1].per_row = 0; }, "'dense'", "at least 1");
  refused([](auto& o) { o.buckets = {}; }, "no buckets");
  refused([](auto& o) { o.buckets = {4, 4}; }, "bucket", "ascending");
  refused([](auto& o) { o.launch_thread_count = 2; }, "launch_thread_count");
  refused([](auto& o) { o.launch_spin_us = -2; }, "launch_spin_us");
  refused([](auto& o) { o.outputs_per_row = 3; }, "shape", "[4, 3]");
  refused([](auto& o) { o.max_batch_delay = std::chrono::nanoseconds(-1); }, "max_batch_delay");
  refused([](auto& o) { o.max_batch_delay = std::chrono::nanoseconds::max(); },
          "max_batch_delay",
          "an hour");
  refused([](auto& o) { o.ageing = std::chrono::nanoseconds(0); }, "ageing", "more than 0");
  refused(
      [](auto& o) {
        o.max_batch_delay = std::chrono::nanoseconds(1);
        o.queue_capacity = 0;
      },
      "queue_capacity");
  refused([](auto& o) { o.inputs[0].name = "ids"; }, "'keys'");
  expect_refused(
      [&] {
        serve::InferencePool(
            world.device, std::shared_ptr<Net<TypeParam> const>(), world.options());
      },
      "null");
}

/// A model that also issues an operation on a second branch.
template <Runtime R>
struct NetInBranches : Net<R> {
  using Net<R>::Net;
  [[nodiscard]] Tensor<float, R> operator()(serve::Inputs<R> const& inputs) const {
    {
      StreamScope const scope(inputs.branch(1));
      static_cast<void>(ops::multiply(this->weights, this->weights));
    }
    return Net<R>::operator()(inputs);
  }
};

/// Returns the number of sets of library handles, each with a workspace, that a pool makes.
std::int64_t libraries_of_pool(bool captured) {
  using R = Counting<Host>;
  auto const census = std::make_shared<Census>();
  ServeWorld<R> const world(DeviceOptions<R>{.runtime = {.runtime = {}, .census = census}});
  auto options = world.options();
  options.replicas = 5;
  options.branches = 2;
  options.capture = captured;
  static_cast<void>(world.device.default_group());  // made on first use, so not counted below
  auto const before = census->libraries.load();
  serve::InferencePool const pool(
      world.device, std::make_shared<NetInBranches<R> const>(world.device, 0), options);
  EXPECT_EQ(pool.counts().captured_steps, captured ? 20U : 0U);
  return census->libraries.load() - before;
}

TEST(PoolLibraries, groups_whose_work_is_captured_by_twins_make_none) {
  EXPECT_EQ(libraries_of_pool(false), 2 * (5 + 1)) << "a replica more to try out models";
  EXPECT_EQ(libraries_of_pool(true), 2 * (5 + 1)) << "those of the branches are the twins'";
}

}  // namespace
}  // namespace msstream::testing
