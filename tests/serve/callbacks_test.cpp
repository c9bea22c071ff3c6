// SPDX-License-Identifier: Apache-2.0
// Tests on which threads an inference pool calls the callbacks of queries, and what the callbacks
// may do.
#include "serve/waiting_fixture.hpp"

namespace msstream::testing {
namespace {

template <class R>
class CallbacksTest : public WaitingTest<R> {};
TYPED_TEST_SUITE(CallbacksTest, Runtimes, RuntimeNames);

TYPED_TEST(CallbacksTest, a_callback_gets_the_outcome_once_and_may_submit) {
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

TYPED_TEST(CallbacksTest, a_callback_may_neither_drain_nor_swap_and_what_it_throws_is_counted) {
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
  EXPECT_EQ(refused, 1);  // called before submit() returned
}

TYPED_TEST(CallbacksTest, a_callback_inside_submit_may_neither_drain_nor_swap) {
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
    EXPECT_THROW(pool.drain(), std::logic_error);  // would wait for this very query
    EXPECT_THROW(pool.swap(net), std::logic_error);
    ++called;
  });
  EXPECT_EQ(called, 1);
  EXPECT_EQ(pool.swap(net), 2U);
}

TYPED_TEST(CallbacksTest, a_callback_that_is_null_is_refused) {
  ServeWorld<TypeParam> const world;
  serve::InferencePool pool(world.device, world.net(1), world.options());
  Random random;
  Asked const asked(random, 2);
  expect_refused([&] { pool.submit(asked.query(), serve::Callback()); }, "callback", "null");
  EXPECT_EQ(pool.counts().admitted, 0U);
}

}  // namespace
}  // namespace msstream::testing
