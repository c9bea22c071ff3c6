// SPDX-License-Identifier: Apache-2.0
// Tests queries whose rows have lists: they get the bits of an evaluation in tensors of their own
// size, however long the lists are and whatever else is in the launch.
#include "serve/lists_fixture.hpp"

#include <msstream/runtime/faulty.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

namespace msstream::testing {
namespace {

using ::testing::ElementsAreArray;

template <class R>
class ServeListsTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(ServeListsTest, Runtimes, RuntimeNames);

/// Submits random queries, several at a time, and compares every answer with the evaluation.
template <Runtime R, class Pool>
void ask_lists(ListNet<R> const& net, Pool& pool, int queries = 60) {
  Random random;
  SCOPED_TRACE(fmt::format("seed {}", random.seed()));
  std::vector<AskedLists> asked;
  std::vector<Floats> expected;
  for (int i = 0; i < queries; ++i) {
    asked.emplace_back(random, random.integer(1, 16), 16 * ListNet<R>::kPerRow);
    expected.push_back(net.evaluate(asked.back()));
  }
  std::vector<std::future<Answer>> answers;
  for (auto const& one : asked) {
    answers.push_back(pool.submit(one.query()));
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_TRUE(same_bits(answers[i].get().values, expected[i])) << "query " << i;
  }
}

TYPED_TEST(ServeListsTest, get_the_bits_of_evaluation_with_every_option) {
  std::vector<std::pair<std::string, std::function<void(InferencePoolOptions&)>>> const changes{
      {"as they are", [](auto&) {}},
      {"one replica of depth 1", [](auto& o) { o.replicas = o.depth = 1; }},
      {"not captured", [](auto& o) { o.capture = false; }},
      {"three streams", [](auto& o) { o.merge_streams = false; }},
      {"one bucket", [](auto& o) { o.buckets = {16}; }},
      {"odd buckets",
       [](auto& o) {
         o.buckets = {1, 3, 31, 33};
       }},
      {"launch threads", [](auto& o) { o.launch_threads = LaunchThreads::shared; }},
      {"batches", [](auto& o) { o.max_batch_delay = std::chrono::microseconds(100); }},
      {"batches by launch threads, not captured", [](auto& o) {
         o.max_batch_delay = std::chrono::microseconds(100);
         o.launch_threads = LaunchThreads::per_group;
         o.capture = false;
       }}};
  ServeWorld<TypeParam> const world;
  auto const net = std::make_shared<ListNet<TypeParam> const>(world.device, 1);
  for (auto const& [name, change] : changes) {
    SCOPED_TRACE(name);
    auto options = net->options();
    change(options);
    serve::InferencePool pool(world.device, net, options);
    ask_lists(*net, pool);
    EXPECT_EQ(pool.counts().failed_captures, 0U);
  }
}

/// A model that keeps copies of its last lists.
template <Runtime R>
struct ListWitness {
  explicit ListWitness(Device<R> const& on)
      : keys(on, {64}), weights(on, {64}), offsets(on, {17}), answer(zeros<float, R>(on, {16, 1})) {
    answer.freeze();
  }

  [[nodiscard]] Tensor<float, R> operator()(serve::Inputs<R> const& inputs) const {
    rows = inputs.rows();
    auto const capacity = rows * ListNet<R>::kPerRow;
    copy(keys.rows(0, capacity), inputs.template get<std::int64_t>("keys"));
    copy(weights.rows(0, capacity), inputs.template get<float>("weights"));
    copy(offsets.rows(0, rows + 1), inputs.offsets("keys"));
    return answer.rows(0, rows);
  }

  [[nodiscard]] Integers last_offsets() const { return to_host(offsets.rows(0, rows + 1)); }

  mutable std::int64_t rows = 0;
  Tensor<std::int64_t, R> keys;
  Tensor<float, R> weights;
  Tensor<std::int64_t, R> offsets;
  Tensor<float, R> answer;
};

[[nodiscard]] InferencePoolOptions witness_options() {
  auto options = ListNet<Host>::options();
  options.outputs_per_row = 1;
  options.replicas = options.depth = 1;
  options.capture = false;
  return options;
}

/// The offsets of a later query of a launch begin where the lists of the earlier ones end.
TYPED_TEST(ServeListsTest, of_several_queries_follow_each_other_in_one_launch) {
  ServeWorld<TypeParam> const world;
  auto const witness = std::make_shared<ListWitness<TypeParam>>(world.device);
  auto options = witness_options();
  options.max_batch_delay = std::chrono::hours(1);
  serve::InferencePool pool(world.device, witness, options);
  Random random;
  std::vector<AskedLists> asked;
  asked.emplace_back(random, Integers{2, 0, 3});
  asked.emplace_back(random, Integers{0});
  asked.emplace_back(random, Integers{11});  // needs the room of three rows
  asked.emplace_back(random, Integers{1, 1, 0, 0, 4});
  std::vector<std::future<Answer>> answers;
  for (auto const& one : asked) {
    answers.push_back(pool.submit(one.query()));
  }
  pool.drain();
  EXPECT_EQ(pool.counts().launches, 1U);
  EXPECT_EQ(witness->rows, 16);
  // The rows of the queries, and then rows of no query.
  EXPECT_THAT(
      witness->last_offsets(),
      ElementsAreArray(
          {0, 2, 2, 5, /**/ 5, /**/ 16, /**/ 17, 18, 18, 18, 22, /**/ 22, 22, 22, 22, 22, 22}));
  Integers keys;
  Floats weights;
  for (auto const& one : asked) {
    keys.insert(keys.end(), one.keys.begin(), one.keys.end());
    weights.insert(weights.end(), one.weights.begin(), one.weights.end());
  }
  EXPECT_EQ(to_host(witness->keys.rows(0, 22)), keys);
  EXPECT_EQ(to_host(witness->weights.rows(0, 22)), weights);
}

TYPED_TEST(ServeListsTest, get_their_own_rows_of_a_launch_of_several_queries) {
  ServeWorld<TypeParam> const world;
  auto const net = std::make_shared<ListNet<TypeParam> const>(world.device, 1);
  auto options = net->options();
  options.max_batch_delay = std::chrono::hours(1);
  for (bool const capture : {true, false}) {
    options.capture = capture;
    serve::InferencePool pool(world.device, net, options);
    Random random;
    for (std::uint64_t round = 1; round <= 5; ++round) {
      std::vector<AskedLists> asked;
      std::vector<std::future<Answer>> answers;
      for (std::int64_t rows : {3, 5, 1, 7}) {  // 16 rows, the largest bucket
        auto const& one = asked.emplace_back(random, rows, rows * ListNet<TypeParam>::kPerRow);
        answers.push_back(pool.submit(one.query()));
      }
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(same_bits(answers[i].get().values, net->evaluate(asked[i])));
      }
      EXPECT_EQ(pool.counts().launches, round);
    }
  }
}

TYPED_TEST(ServeListsTest, longer_than_their_rows_room_take_up_more_rows) {
  ServeWorld<TypeParam> const world;
  auto const witness = std::make_shared<ListWitness<TypeParam>>(world.device);
  Random random;
  {
    serve::InferencePool pool(world.device, witness, witness_options());
    auto const rows_for = [&](Integers const& lengths) {
      static_cast<void>(pool.submit(AskedLists(random, lengths).query()).get());
      return witness->rows;
    };
    EXPECT_EQ(rows_for({0}), 4);
    EXPECT_EQ(rows_for({16}), 4);
    EXPECT_EQ(rows_for({17}), 16);
    EXPECT_EQ(witness->last_offsets()[16], 17);
    EXPECT_EQ(rows_for({0, 0, 0, 0, 0}), 16);
    EXPECT_EQ(rows_for({0, 64}), 16);
    EXPECT_THAT(witness->last_offsets(),
                ElementsAreArray(
                    Integers{0, 0, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64}));
  }
  auto options = witness_options();
  options.max_batch_delay = std::chrono::hours(1);
  serve::InferencePool pool(world.device, witness, options);
  AskedLists const nine(random, Integers{33});  // 33 keys need the room of nine rows
  auto first = pool.submit(nine.query());
  auto second = pool.submit(nine.query());  // fills the largest bucket, but is not in its launch
  static_cast<void>(first.get());
  pool.drain();
  static_cast<void>(second.get());
  EXPECT_EQ(pool.counts().launches, 2U);
}

/// Uses lists that fill the room, and then shorter ones in either bucket.
TYPED_TEST(ServeListsTest, find_beyond_their_ends_elements_of_their_own_field_or_zeros) {
  ServeWorld<TypeParam> const world;
  auto const witness = std::make_shared<ListWitness<TypeParam>>(world.device);
  serve::InferencePool pool(world.device, witness, witness_options());
  Random random;
  SCOPED_TRACE(fmt::format("seed {}", random.seed()));
  for (int i = 0; i < 60; ++i) {
    AskedLists asked(random, random.integer(1, 16), i % 3 == 0 ? 64 : 5);
    asked.keys = random.integers(asked.offsets.back(), 0, 99);
    asked.weights = random.reals(asked.offsets.back(), 1.0F, 2.0F);
    static_cast<void>(pool.submit(asked.query()).get());
    auto const capacity = witness->rows * ListNet<TypeParam>::kPerRow;
    EXPECT_THAT(to_host(witness->keys.rows(0, capacity)),
                ::testing::Each(::testing::AllOf(::testing::Ge(0), ::testing::Le(99))));
    EXPECT_THAT(to_host(witness->weights.rows(0, capacity)),
                ::testing::Each(::testing::AnyOf(
                    0.0F, ::testing::AllOf(::testing::Ge(1.0F), ::testing::Le(2.0F)))));
    ASSERT_FALSE(this->HasFailure());
  }
}

TYPED_TEST(ServeListsTest, do_not_depend_on_what_the_staging_held) {
  ServeWorld<TypeParam> const world;
  ListNet<TypeParam> const net(world.device, 1);
  auto const layout = std::make_shared<serve::InputLayout const>(net.inputs());
  Random random;
  SCOPED_TRACE(fmt::format("seed {}", random.seed()));
  for (std::int64_t const rows : {1, 31, 32, 33, 127}) {
    serve::Staging<TypeParam> const staging(world.device, layout, rows, net.kOutputs);
    auto const capacity = rows * net.kPerRow;
    for (auto const most : {std::int64_t{0}, std::min(std::int64_t{7}, capacity), capacity}) {
      AskedLists const asked(random, random.integer(1, rows), most);
      std::memset(staging.values(), kPoisonByte, layout->bytes(rows));
      layout->pack_alone(asked.query(), staging.values(), rows);
      // Dense rows and keys beyond the query's stay poisoned.
      bool has_issued = false;
      world.device.context()->tracker->synchronize(staging.issue(rows, net, has_issued));
      auto const answers =
          staging.answers().first(static_cast<std::size_t>(asked.rows * net.kOutputs));
      EXPECT_TRUE(same_bits({answers.begin(), answers.end()}, net.evaluate(asked)));
    }
  }
}

TYPED_TEST(ServeListsTest, are_answered_by_the_model_that_is_published_next) {
  ServeWorld<TypeParam> const world;
  std::vector<std::shared_ptr<ListNet<TypeParam> const>> nets;
  for (int number = 1; number <= 3; ++number) {
    nets.push_back(std::make_shared<ListNet<TypeParam> const>(world.device, number));
  }
  for (bool const capture : {true, false}) {
    auto options = nets[0]->options();
    options.capture = capture;
    serve::InferencePool pool(world.device, nets[0], options);
    ask_lists(*nets[0], pool, 10);
    for (std::size_t i : {1U, 2U, 0U}) {
      pool.swap(nets[i]);
      ask_lists(*nets[i], pool, 10);
    }
  }
}

TYPED_TEST(ServeListsTest, that_do_not_fit_are_refused_by_the_name_of_the_field) {
  ServeWorld<TypeParam> const world;
  auto const net = std::make_shared<ListNet<TypeParam> const>(world.device, 1);
  serve::InferencePool pool(world.device, net, net->options());
  Random random;
  Integers const keys(65);
  Floats const weights(65);
  Floats const dense(6);
  std::span<std::int64_t const> const two(keys.data(), 2);
  auto const refusal_of = [&](Query const& query) {
    return message_of<std::invalid_argument>([&] { static_cast<void>(pool.submit(query)); });
  };
  using ::testing::HasSubstr;
  // 65 keys in two rows.
  EXPECT_THAT(
      refusal_of({.rows = 2, .values = {{keys, Integers{0, 1, 65}}, weights, dense}}),
      HasSubstr("65 values for 'keys'; the largest bucket has room for 64, 4 for each of its 16"));
  // Two keys in two rows.
  auto const refusal_with = [&](Integers const& offsets) {
    return refusal_of({.rows = 2, .values = {{two, offsets}, Floats(2), dense}});
  };
  EXPECT_THAT(refusal_with({}), HasSubstr("2 rows without offsets for the lists of 'keys'"));
  EXPECT_THAT(refusal_with({0, 2}), HasSubstr("2 rows with 2 offsets for 'keys'"));
  EXPECT_THAT(refusal_with({0, 1, 1, 2}), HasSubstr("2 rows with 4 offsets for 'keys'"));
  EXPECT_THAT(refusal_with({1, 1, 2}), HasSubstr("offsets from 1 to 2 for the 2 values of 'keys'"));
  EXPECT_THAT(refusal_with({0, 1, 1}), HasSubstr("offsets from 0 to 1 for the 2 values of 'keys'"));
  EXPECT_THAT(refusal_with({0, 3, 2}), HasSubstr("'keys' that descend, from offset number 1 on"));
  EXPECT_THAT(refusal_with({0, -1, 2}), HasSubstr("'keys' that descend, from offset number 0 on"));
  EXPECT_THAT(
      refusal_of({.rows = 2, .values = {{two, Integers{0, 1, 2}}, Floats(3), dense}}),
      HasSubstr("3 values and 0 offsets for 'weights'; expected as many values as for 'keys', 2"));
  EXPECT_THAT(
      refusal_of(
          {.rows = 2, .values = {{two, Integers{0, 1, 2}}, {Floats(2), Integers{0, 2}}, dense}}),
      HasSubstr("2 values and 2 offsets for 'weights'"));
  EXPECT_THAT(
      refusal_of(
          {.rows = 2, .values = {{two, Integers{0, 1, 2}}, Floats(2), {dense, Integers{0, 6}}}}),
      HasSubstr("offsets for 'dense', which has no lists, but 3 values a row"));
  EXPECT_EQ(pool.counts().admitted, 0U);
  ask_lists(*net, pool, 10);
}

TYPED_TEST(ServeListsTest, of_one_row_need_no_offsets) {
  ServeWorld<TypeParam> const world;
  auto const net = std::make_shared<ListNet<TypeParam> const>(world.device, 1);
  serve::InferencePool pool(world.device, net, net->options());
  Random random;
  for (std::int64_t const length : {0, 1, 4, 5, 31, 64}) {
    AskedLists const asked(random, Integers{length});
    auto const answer = pool.submit({.values = {asked.keys, asked.weights, asked.dense}}).get();
    EXPECT_TRUE(same_bits(answer.values, net->evaluate(asked)));
  }
}

TYPED_TEST(ServeListsTest, are_found_by_the_name_of_a_field_of_lists) {
  ServeWorld<TypeParam> const world;
  auto const refusal_of = [&](std::string const& name) {
    return message_of<std::invalid_argument>([&] {
      serve::InferencePool const pool(world.device,
                                      std::make_shared<serve::Forward<TypeParam> const>(
                                          [&](serve::Inputs<TypeParam> const& inputs) {
                                            (void)inputs.offsets(name);
                                            return inputs.template get<float>("dense");
                                          }),
                                      ListNet<TypeParam>::options());
    });
  };
  EXPECT_THAT(refusal_of("dense"), ::testing::HasSubstr("offsets of input 'dense', which has 3"));
  EXPECT_THAT(refusal_of("history"), ::testing::HasSubstr("the pool has no input 'history'"));
}

/// Lets the launches of all queries fail on one of two replicas.
TEST(ServeListsMoved, from_a_replica_that_fails_keep_their_ends) {
  using R = Faulty<Host>;
  auto const plan = std::make_shared<FaultPlan>();
  ServeWorld<R> const world({.runtime = {.plan = plan}});
  auto const net = std::make_shared<ListNet<R> const>(world.device, 1);
  auto options = net->options();
  options.log = {};
  serve::InferencePool pool(world.device, net, options);
  ask_lists(*net, pool, 10);
  plan->fail(RuntimeCall::launch_graph, 1, Fault::launch_failure);
  ask_lists(*net, pool, 10);
  EXPECT_GE(pool.counts().moved, 1U);
  EXPECT_EQ(pool.counts().sound_replicas, 1);
}

}  // namespace
}  // namespace msstream::testing
