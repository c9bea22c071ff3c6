// SPDX-License-Identifier: Apache-2.0
// Tests which queries wait for other queries to fill a batch, and for how long.
#include "serve/waiting_fixture.hpp"

#include <msstream/ops/elementwise.hpp>
#include <msstream/ops/gather.hpp>

namespace msstream::testing {
namespace {

template <class R>
class BatchesTest : public WaitingTest<R> {};
TYPED_TEST_SUITE(BatchesTest, Runtimes, RuntimeNames);

TYPED_TEST(BatchesTest, a_query_that_waits_for_others_is_launched_before_its_deadline) {
  ServeWorld<TypeParam> const world;
  auto options = world.options();
  options.max_batch_delay = hours(1);
  auto const net = world.net(1);
  Random random;
  Asked const asked(random, 2);
  milliseconds until_deadline{20};
  auto const is_in_time = [&] {  // may fail on a machine that is late itself
    serve::InferencePool pool(world.device, net, options);
    auto patient = pool.submit(asked.query());
    auto query = asked.query();
    query.deadline = Clock::now() + until_deadline;
    auto answer = pool.submit(query);
    try {
      auto const values = answer.get().values;
      EXPECT_EQ(patient.get().values, values);  // patient is in the same batch
      return true;
    } catch (DeadlineExceeded const&) {
      until_deadline *= 2;
      return false;
    }
  };
  await(is_in_time);  // hangs if no attempt is in time
}

TYPED_TEST(BatchesTest, a_query_of_high_priority_waits_for_no_others_and_takes_them_along) {
  ServeWorld<TypeParam> const world;
  auto options = world.options();
  options.max_batch_delay = hours(1);
  serve::InferencePool pool(world.device, world.net(1), options);
  Random random;
  Asked const asked(random, 2);
  auto patient = pool.submit(asked.query());
  auto query = asked.query();
  query.priority = Query::Priority::high;
  auto const urgent = pool.submit(query).get();
  EXPECT_EQ(patient.get().values, urgent.values);
  EXPECT_EQ(pool.counts().launches, 1U);
}

TYPED_TEST(BatchesTest, a_full_queue_waits_for_no_others) {
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

TYPED_TEST(BatchesTest, a_batch_is_launched_when_it_is_full_and_each_query_gets_its_rows) {
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
      for (std::int64_t rows : {3, 5, 1, 7}) {  // 16 rows, the largest bucket
        answers.push_back(pool.submit(asked.emplace_back(random, rows).query()));
      }
      for (std::size_t i = 0; i < answers.size(); ++i) {
        EXPECT_TRUE(same_bits(answers[i].get().values, world.alone(*net, asked[i])));
      }
      EXPECT_EQ(pool.counts().launches, round);
    }
  }
}

TYPED_TEST(BatchesTest, a_batch_has_no_more_rows_than_the_largest_bucket) {
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
  pool.drain();  // launches the second query without waiting for a full batch
  EXPECT_TRUE(same_bits(second.get().values, world.alone(*net, other_ten)));
  EXPECT_EQ(pool.counts().launches, 2U);
}

TYPED_TEST(BatchesTest, a_batch_that_nobody_fills_is_launched_after_the_delay) {
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

/// A model that uses each key of a row by itself: (first key) + 1000 (second key).
template <Runtime R>
Tensor<float, R> combine_columns(serve::Inputs<R> const& inputs) {
  auto const value_of = [&](std::int64_t number) {
    auto const key = inputs.template column<std::int64_t>("keys", number);
    auto const table = inputs.template get<float>("values");  // a value per row, for keys of rows
    return ops::gather_rows(table.reshaped({inputs.rows(), 1}), key);
  };
  return ops::add<R>({value_of(0), ops::scale(value_of(1), 1000.0F)});
}

TYPED_TEST(BatchesTest, columns_of_a_field_are_tensors_of_rows) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(
      world.device,
      std::make_shared<serve::Forward<TypeParam> const>(combine_columns<TypeParam>),
      {.inputs = {serve::field<std::int64_t>("keys", 2, serve::Field::Order::columns),
                  serve::field<float>("values", 1)},
       .outputs_per_row = 1,
       .replicas = 1,
       .buckets = {4}});
  Integers const keys{0, 2, 1, 0, 2, 1};
  auto const answer = pool.submit({.rows = 3, .values = {keys, Floats{5, 6, 7}}}).get();
  EXPECT_THAT(answer.values, ::testing::ElementsAre(7005, 5006, 6007));
}

TYPED_TEST(BatchesTest, columns_are_refused_by_the_name_of_the_field) {
  ServeWorld<TypeParam> const world;
  auto const refusal_of = [&](std::vector<serve::Field> const& fields, std::int64_t number) {
    try {
      serve::InferencePool const pool(world.device,
                                      std::make_shared<serve::Forward<TypeParam> const>(
                                          [number](serve::Inputs<TypeParam> const& inputs) {
                                            (void)inputs.template column<std::int64_t>("keys",
                                                                                       number);
                                            return inputs.template get<float>("values");
                                          }),
                                      {.inputs = fields, .outputs_per_row = 1, .buckets = {4}});
    } catch (std::invalid_argument const& error) {
      return std::string(error.what());
    }
    return std::string("no std::invalid_argument");
  };
  auto const values = serve::field<float>("values", 1);
  EXPECT_THAT(refusal_of({serve::field<std::int64_t>("keys", 2), values}, 0),
              ::testing::HasSubstr("column 0 of input 'keys', whose elements lie row after row"));
  auto const by_columns = serve::field<std::int64_t>("keys", 2, serve::Field::Order::columns);
  EXPECT_THAT(refusal_of({by_columns, values}, 2),
              ::testing::HasSubstr("column 2 of input 'keys'; expected one in [0, 2)"));
}

}  // namespace
}  // namespace msstream::testing
