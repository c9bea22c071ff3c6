// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/loss.hpp>

#include <cmath>

namespace msstream::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

template <class R>
class SoftmaxTest : public OpsTest<R> {
 protected:
  using Options = ops::CrossEntropyOptions<R>;
};
TYPED_TEST_SUITE(SoftmaxTest, Runtimes, RuntimeNames);

TYPED_TEST(SoftmaxTest, goes_over_the_last_dimension) {
  Shape const shape{2, 3, 4};
  auto const values = this->random.reals(shape.count(), -4.0F, 4.0F);
  Doubles expected;
  for (std::size_t row = 0; row < 6; ++row) {
    double sum = 0;
    for (std::size_t c = 0; c < 4; ++c) {
      sum += std::exp(double{values[4 * row + c]});
    }
    for (std::size_t c = 0; c < 4; ++c) {
      expected.push_back(std::exp(double{values[4 * row + c]}) / sum);
    }
  }
  auto const output = ops::softmax(this->put(values, shape));
  EXPECT_EQ(output.shape(), shape);
  expect_near(to_host(output), expected);
}

TYPED_TEST(SoftmaxTest, one_length_serves_a_run_of_rows) {
  auto const x = this->put(Floats(12, 7.0F), {2, 2, 3});
  EXPECT_THAT(to_host(ops::softmax(x, this->put(Integers{2, 0}))),
              ElementsAre(0.5F, 0.5F, 0, 0.5F, 0.5F, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(to_host(ops::softmax(x, this->put(Integers{1, 2, 0, 1}, {2, 2}))),
              ElementsAre(1, 0, 0, 0.5F, 0.5F, 0, 0, 0, 0, 1, 0, 0));
  EXPECT_THAT(to_host(ops::softmax(x, this->scalar(1))),
              ElementsAre(1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0));
}

TYPED_TEST(SoftmaxTest, a_masked_gradient_is_that_of_the_columns_that_count) {
  auto const x = this->random_tensor({1, 2});
  auto const padded = this->put(Floats{to_host(x)[0], to_host(x)[1], 100.0F}, {1, 3});
  auto const gradient = this->put(Floats{1, -2}, {1, 2});
  auto const padded_gradient = this->put(Floats{1, -2, 50}, {1, 3});
  auto expected = to_host(ops::softmax_gradient(ops::softmax(x), gradient));
  expected.push_back(0.0F);
  EXPECT_EQ(to_host(ops::softmax_gradient(ops::softmax(padded, this->scalar(2)), padded_gradient)),
            expected);
}

TYPED_TEST(SoftmaxTest, takes_no_rows_and_no_columns) {
  EXPECT_TRUE(to_host(ops::softmax(this->any({0, 3}))).empty());
  EXPECT_TRUE(to_host(ops::softmax(this->any({3, 0}))).empty());
  auto const none = this->template any<std::int64_t>({0});
  EXPECT_TRUE(to_host(ops::softmax(this->any({0, 3}), none)).empty());
  EXPECT_TRUE(to_host(ops::softmax_cross_entropy(this->any({0, 3}), none).losses).empty());
}

TYPED_TEST(SoftmaxTest, cross_entropy_agrees_with_double) {
  auto const values = this->random.reals(5 * 4, -4.0F, 4.0F);
  Integers const classes = {0, 3, 1, 1, 2};
  Doubles losses;
  Doubles gradients;
  for (std::size_t row = 0; row < 5; ++row) {
    double sum = 0;
    for (std::size_t c = 0; c < 4; ++c) {
      sum += std::exp(double{values[4 * row + c]});
    }
    auto const chosen = static_cast<std::size_t>(classes[row]);
    losses.push_back(std::log(sum) - values[4 * row + chosen]);
    for (std::size_t c = 0; c < 4; ++c) {
      gradients.push_back(std::exp(double{values[4 * row + c]}) / sum - (c == chosen ? 1 : 0));
    }
  }
  auto const result = ops::softmax_cross_entropy(this->put(values, {5, 4}), this->put(classes));
  EXPECT_EQ(result.losses.shape(), (Shape{5}));
  expect_near(to_host(result.losses), losses);
  expect_near(to_host(result.gradients), gradients);
}

TYPED_TEST(SoftmaxTest, a_bad_class_is_dropped_counted_or_thrown_once_at_the_next_wait) {
  using Options = typename TestFixture::Options;
  auto const logits = this->random_tensor({3, 2});
  auto const bad = this->put(Integers{-1, 0, 2});
  auto const dropped = ops::softmax_cross_entropy(logits, bad);
  EXPECT_EQ(to_host(dropped.losses)[0], 0.0F);
  EXPECT_NE(to_host(dropped.losses)[1], 0.0F);
  EXPECT_THAT(to_host(dropped.gradients.rows(2, 3)), Each(0.0F));

  auto const counter = this->scalar(10);
  (void)ops::softmax_cross_entropy(
      logits, bad, Options{.out_of_range = ops::OutOfRange::count, .bad_id_count = counter});
  EXPECT_THAT(to_host(counter), ElementsAre(12));

  // Without columns all classes are bad.
  auto const no_columns = ops::softmax_cross_entropy(
      this->any({3, 0}),
      bad,
      Options{.out_of_range = ops::OutOfRange::count, .bad_id_count = counter});
  EXPECT_THAT(to_host(no_columns.losses), Each(0.0F));
  EXPECT_THAT(to_host(counter), ElementsAre(15));

  NameScope const name("user");
  auto const trapped = ops::softmax_cross_entropy(
      logits, this->put(Integers{1, 0, 2}), Options{.out_of_range = ops::OutOfRange::trap});
  EXPECT_THAT(message_of<std::out_of_range>([&] { (void)to_host(trapped.losses); }),
              ::testing::HasSubstr("user/softmax_cross_entropy: id 2 outside [0, 2)"));
  EXPECT_EQ(to_host(trapped.losses)[2], 0.0F);
}

TYPED_TEST(SoftmaxTest, refuses_shapes_that_do_not_fit) {
  auto const x = this->any({4, 3});
  auto const three = this->put(Integers{1, 1, 1});
  auto const none = this->template any<std::int64_t>({0});
  expect_refused([&] { (void)ops::softmax(this->any({})); }, "softmax");
  expect_refused([&] { (void)ops::softmax(x, three); }, "softmax", "[3]", "4 rows", "[4, 3]");
  expect_refused([&] { (void)ops::softmax(x, none); }, "softmax", "[0]");
  expect_refused(
      [&] {
        (void)ops::softmax_gradient(x, this->any({3, 4}));
      },
      "softmax_gradient",
      "[3, 4]");
  expect_refused([&] { (void)ops::softmax_cross_entropy(x, three); },
                 "softmax_cross_entropy",
                 "[4, 3]",
                 "[3]");
  auto const four = this->put(Integers{0, 0, 0, 0});
  expect_refused(
      [&] {
        (void)ops::softmax_cross_entropy(x, four.reshaped({2, 2}));
      },
      "softmax_cross_entropy",
      "[4, 3]",
      "[2, 2]");
  expect_refused(
      [&] { (void)ops::softmax_cross_entropy(x, four, {.out_of_range = ops::OutOfRange::count}); },
      "softmax_cross_entropy",
      "bad_id_count");
}

}  // namespace
}  // namespace msstream::testing
