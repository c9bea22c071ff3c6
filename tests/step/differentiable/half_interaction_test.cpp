// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/stream/stream_pool.hpp>

#include <cmath>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

/// Interactions of half precision on a tape: 6 samples with 9 vectors of 12.
template <class R>
class HalfInteractionTapeTest : public GradientTest<R> {
 protected:
  static constexpr std::int64_t kOutputs = 12 + 36;

  struct Operands {
    Tensor<float, R> dense;
    Tensor<float, R> embeddings;
    Tensor<float, R> factors;
  };
  Operands operands() {
    return {this->random_tensor({6, 12}),
            this->random_tensor({6, 8, 12}),
            this->random_tensor({6, kOutputs})};
  }
  /// Returns the gradients of the operands in the sum of the outputs, each times its factor.
  template <RealElement T>
  std::pair<Floats, Floats> gradients(Operands const& of) {
    GradientTape tape(this->device());
    auto const output =
        ops::dot_interaction(tape, ops::cast<T>(tape, of.dense), ops::cast<T>(tape, of.embeddings));
    tape.backward(ops::sum(tape, ops::multiply(tape, ops::cast<float>(tape, output), of.factors)));
    return {to_host(tape.gradient(of.dense)), to_host(tape.gradient(of.embeddings))};
  }
  template <HalfElement T>
  void compare() {
    auto const of = operands();
    auto const [dense, embeddings] = gradients<T>(of);
    auto const expected = ops::dot_interaction_gradient(
        ops::cast<T>(of.dense), ops::cast<T>(of.embeddings), ops::cast<T>(of.factors));
    EXPECT_EQ(dense, to_host(ops::cast<float>(*expected.left)));
    EXPECT_EQ(embeddings, to_host(ops::cast<float>(*expected.right)));
    auto const [exact_dense, exact_embeddings] = gradients<float>(of);
    constexpr double kPart = std::is_same_v<T, float16> ? 0.01 : 0.08;
    EXPECT_NE(dense, exact_dense) << "the gradients were not computed in half precision";
    expect_near(dense, to_doubles(exact_dense), kPart);
    expect_near(embeddings, to_doubles(exact_embeddings), kPart);
  }
};
TYPED_TEST_SUITE(HalfInteractionTapeTest, Runtimes, RuntimeNames);

TYPED_TEST(HalfInteractionTapeTest, gradients_are_those_without_a_tape_and_near_float32) {
  this->template compare<bfloat16>();
  this->template compare<float16>();
}

TYPED_TEST(HalfInteractionTapeTest, without_a_tape_the_output_has_the_same_bits) {
  auto const of = this->operands();
  auto const dense = ops::cast<bfloat16>(of.dense);
  auto const embeddings = ops::cast<bfloat16>(of.embeddings);
  GradientTape tape(this->device());
  auto const recorded = to_host(ops::cast<float>(ops::dot_interaction(tape, dense, embeddings)));
  EXPECT_EQ(to_host(ops::cast<float>(ops::dot_interaction(no_tape, dense, embeddings))), recorded);
  EXPECT_EQ(to_host(ops::cast<float>(ops::dot_interaction(dense, embeddings))), recorded);
}

TYPED_TEST(HalfInteractionTapeTest, an_operand_without_a_gradient_leaves_that_of_the_other) {
  auto const of = this->operands();
  auto const dense = ops::cast<bfloat16>(of.dense);
  auto const embeddings = ops::cast<bfloat16>(of.embeddings);
  auto const expected =
      ops::dot_interaction_gradient(dense, embeddings, ops::cast<bfloat16>(of.factors));
  auto const train = [&](GradientTape<TypeParam>& tape) {
    auto const output = ops::cast<float>(tape, ops::dot_interaction(tape, dense, embeddings));
    tape.backward(ops::sum(tape, ops::multiply(tape, output, of.factors)));
  };
  GradientTape without_embeddings(this->device());
  without_embeddings.without_gradient(embeddings);
  train(without_embeddings);
  EXPECT_EQ(to_host(ops::cast<float>(without_embeddings.gradient(dense))),
            to_host(ops::cast<float>(*expected.left)));
  EXPECT_THROW((void)without_embeddings.gradient(embeddings), std::logic_error);
  GradientTape without_dense(this->device());
  without_dense.without_gradient(dense);
  train(without_dense);
  EXPECT_EQ(to_host(ops::cast<float>(without_dense.gradient(embeddings))),
            to_host(ops::cast<float>(*expected.right)));
}

TYPED_TEST(HalfInteractionTapeTest, has_the_same_bits_in_any_number_of_groups) {
  auto const of = this->operands();
  auto const train = [&](int groups) {
    StreamPool pool(this->device(), {.groups = groups});
    GradientTape tape(this->device());
    auto const dense = ops::cast<bfloat16>(tape, of.dense);
    auto const embeddings = ops::cast<bfloat16>(tape, of.embeddings);
    std::vector<Tensor<float, TypeParam>> branches;
    for (int i = 0; i < 4; ++i) {
      StreamScope const scope(pool[i % groups], {.include_grad = true});
      auto const output = ops::dot_interaction(tape, dense, embeddings);
      branches.push_back(ops::multiply(tape, ops::cast<float>(tape, output), of.factors));
    }
    tape.backward(ops::sum(tape, ops::add(tape, branches)));
    return std::pair{to_host(tape.gradient(of.dense)), to_host(tape.gradient(of.embeddings))};
  };
  auto const one = train(1);
  EXPECT_EQ(train(2), one);
  EXPECT_EQ(train(4), one);
}

}  // namespace
}  // namespace msstream::testing
