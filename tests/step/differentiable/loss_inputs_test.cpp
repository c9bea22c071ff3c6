// SPDX-License-Identifier: Apache-2.0
// Tests of the inputs of losses besides the predictions: pairs, weights, and labels that the tape
// has recorded.
#include "step/gradient_fixture.hpp"

#include <msstream/step/differentiable_ops.hpp>

namespace msstream::testing {
namespace {

template <class R>
using LossInputsTest = GradientTest<R>;
TYPED_TEST_SUITE(LossInputsTest, Runtimes, RuntimeNames);

TYPED_TEST(LossInputsTest, weights_leave_pairs_out) {
  auto const positives = this->put(this->random.reals(3), {3, 1});
  auto const negatives = this->put(this->random.reals(3), {3, 1});
  ops::LossOptions<TypeParam> const options{.weight = this->put(Floats{1, 1, 0}),
                                            .reduction = ops::LossReduction::weighted_mean};
  auto const two = [](auto const& scores) { return scores.rows(0, 2); };
  EXPECT_EQ(to_host(ops::bpr_loss(no_tape, positives, negatives, options)),
            to_host(ops::bpr_loss(no_tape, two(positives), two(negatives))));
  EXPECT_EQ(to_host(ops::margin_ranking_loss(no_tape, positives, negatives, 1.0F, options)),
            to_host(ops::margin_ranking_loss(no_tape, two(positives), two(negatives), 1.0F)));
}

TYPED_TEST(LossInputsTest, recorded_targets_of_mse_get_a_gradient) {
  this->expect_gradient(
      this->random.reals(6),
      {3, 2},
      [&](auto& tape, auto const& x) {
        return ops::mse_loss(tape, ops::square(tape, x), ops::scale(tape, x, 3.0F));
      },
      [](Doubles const& x) {
        double sum = 0;
        for (auto const value : x) {
          sum += (value * value - 3 * value) * (value * value - 3 * value);
        }
        return Doubles{sum / static_cast<double>(x.size())};
      });
}

TYPED_TEST(LossInputsTest, recorded_labels_and_weights_are_refused) {
  auto const x = this->put(Floats{1, 2}, {2, 1});
  GradientTape tape(this->device());
  auto const made = ops::sigmoid(tape, x);
  auto const expect_refusals = [&](bool refused) {
    auto const check = [&](auto const& call, char const* what) {
      refused ? expect_refused(call, what, "is a result that the tape has recorded") : (void)call();
    };
    check([&] { return ops::mean_bce_with_logits(tape, x, made); }, "mean_bce_with_logits: labels");
    check([&] { return ops::bce_with_logits(tape, x, made); }, "bce_with_logits: labels");
    check([&] { return ops::hinge_loss(tape, x, made); }, "hinge_loss: labels");
    check([&] { return ops::mse_loss(tape, x, x, {.weight = made}); }, "mse_loss: weight");
    check(
        [&] {
          return ops::mean_softmax_cross_entropy(
              tape, x, this->put(Integers{0, 0}), {.sample_weight = made.reshaped({2})});
        },
        "mean_softmax_cross_entropy: sample_weight");
  };
  expect_refusals(true);
  tape.without_gradient(made);
  expect_refusals(false);
}

}  // namespace
}  // namespace msstream::testing
