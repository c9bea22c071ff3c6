// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/interaction.hpp>

namespace msstream::testing {
namespace {

template <class R>
class InteractionTest : public OpsTest<R> {};
TYPED_TEST_SUITE(InteractionTest, Runtimes, RuntimeNames);

TYPED_TEST(InteractionTest, the_dense_vector_comes_first_and_then_the_lower_triangle) {
  auto const dense = this->put(Floats{1, 2}, {1, 2});
  auto const embeddings = this->put(Floats{3, 4, 5, 6, 7, 8}, {1, 3, 2});
  // The products are (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2).
  Floats const expected{1, 2, 11, 17, 39, 23, 53, 83};
  auto const output = ops::dot_interaction(dense, embeddings);
  EXPECT_EQ(output.shape(), (Shape{1, 8}));
  EXPECT_EQ(to_host(output), expected);
  EXPECT_EQ(to_host(ops::dot_interaction(dense, embeddings.reshaped({1, 6}))), expected);
}

TYPED_TEST(InteractionTest, gradients_have_the_shapes_of_the_operands) {
  auto const dense = this->random_tensor({5, 4});
  auto const embeddings = this->random_tensor({5, 12});
  auto const gradient = this->random_tensor({5, 10});
  auto const both = ops::dot_interaction_gradient(dense, embeddings, gradient);
  EXPECT_EQ(both.left->shape(), dense.shape());
  EXPECT_EQ(both.right->shape(), embeddings.shape());
  auto const right = ops::dot_interaction_gradient(dense, embeddings, gradient, {.left = false});
  EXPECT_FALSE(right.left.has_value());
  EXPECT_EQ(to_host(*right.right), to_host(*both.right));
  auto const none =
      ops::dot_interaction_gradient(dense, embeddings, gradient, {.left = false, .right = false});
  EXPECT_FALSE(none.left.has_value() || none.right.has_value());
}

TYPED_TEST(InteractionTest, takes_batches_without_samples_and_samples_without_features) {
  EXPECT_TRUE(to_host(ops::dot_interaction(this->any({0, 4}), this->any({0, 3, 4}))).empty());
  auto const dense = this->random_tensor({3, 4});
  EXPECT_EQ(to_host(ops::dot_interaction(dense, this->any({3, 0, 4}))), to_host(dense));
  EXPECT_EQ(to_host(ops::dot_interaction(this->any({2, 0}), this->any({2, 2, 0}))), Floats(6, 0));
}

TYPED_TEST(InteractionTest, refuses_what_does_not_fit) {
  auto const dense = this->any({2, 4});
  auto const refuses = [&](Shape const& embeddings) {
    expect_refused([&] { (void)ops::dot_interaction(dense, this->any(embeddings)); },
                   "dot_interaction",
                   "[2, 4]",
                   embeddings);
  };
  refuses({3, 8});
  refuses({2, 7});
  refuses({2, 2, 3});
  refuses({16});
  expect_refused(
      [&] {
        (void)ops::dot_interaction_gradient(dense, this->any({2, 8}), this->any({2, 6}));
      },
      "dot_interaction_gradient",
      "[2, 6]");
}

}  // namespace
}  // namespace msstream::testing
