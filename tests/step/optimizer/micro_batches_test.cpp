// SPDX-License-Identifier: Apache-2.0
// Tests updates by several micro-batches: those that are dropped, forgotten, and fewer than stated.
#include "ops/ops_fixture.hpp"

#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <stdexcept>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

/// A weight whose gradient is 1 in each micro-batch times its factor, and that loses the gradient.
template <class R>
class MicroBatchesTest : public OpsTest<R> {
 protected:
  [[nodiscard]] static OptimizerOptions options_of(std::int64_t micro_batches) {
    OptimizerOptions options;
    options.micro_batches = micro_batches;
    return options;
  }
  struct Model {
    Tensor<float, R> w;
    Optimizer<R> optimizer;
    GradientTape<R> tape;

    Model(Device<R> const& device, Tensor<float, R> weight, std::int64_t micro_batches)
        : w(weight),
          optimizer(device,
                    {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F},
                    options_of(micro_batches)),
          tape(device) {
      optimizer.add("w", w);
    }
    void backward(float factor = 1.0F) {
      tape.backward(ops::scale(tape, ops::sum(tape, w), factor));
    }
    bool step_of(float factor = 1.0F) {
      backward(factor);
      return optimizer.step(tape);
    }
  };
  [[nodiscard]] Model model_of(std::int64_t micro_batches) {
    return {this->device(), this->put(Floats{1.0F, 1.0F}, {2}), micro_batches};
  }
};
TYPED_TEST_SUITE(MicroBatchesTest, Runtimes, RuntimeNames);

TYPED_TEST(MicroBatchesTest, dropped_ones_are_noticed_once) {
  auto model = this->model_of(2);
  EXPECT_FALSE(model.step_of());
  model.tape.clear();
  EXPECT_THAT(message_of<std::logic_error>([&] { model.step_of(); }),
              AllOf(HasSubstr("micro-batch 2 of 2"), HasSubstr("1 backward()")));
  for (int update = 1; update <= 2; ++update) {
    model.tape.clear();
    EXPECT_FALSE(model.step_of());
    EXPECT_THAT(to_host(model.w), Each(2.0F - static_cast<float>(update)));
    EXPECT_TRUE(model.step_of());
    EXPECT_THAT(to_host(model.w), Each(1.0F - static_cast<float>(update)));
  }
}

TYPED_TEST(MicroBatchesTest, a_step_without_backward_is_refused_until_the_tape_is_cleared) {
  auto model = this->model_of(2);
  EXPECT_FALSE(model.step_of());
  EXPECT_THAT(message_of<std::logic_error>([&] { model.optimizer.step(model.tape); }),
              AllOf(HasSubstr("micro-batch 2 of 2"), HasSubstr("clear()")));
  EXPECT_THROW(model.step_of(), std::logic_error);
  EXPECT_THAT(to_host(model.w), Each(1.0F));
  model.tape.clear();
  EXPECT_FALSE(model.step_of());
  EXPECT_TRUE(model.step_of());
  EXPECT_THAT(to_host(model.w), Each(0.0F));
}

TYPED_TEST(MicroBatchesTest, discarded_ones_leave_no_trace) {
  auto model = this->model_of(3);
  EXPECT_FALSE(model.step_of(100.0F));
  EXPECT_FALSE(model.step_of(100.0F));
  model.optimizer.discard_micro_batches();
  model.tape.clear();
  EXPECT_FALSE(model.step_of(3.0F));
  EXPECT_FALSE(model.step_of(0.0F));
  EXPECT_TRUE(model.step_of(0.0F));
  EXPECT_THAT(to_host(model.w), Each(0.0F));
  model.optimizer.discard_micro_batches();  // nothing is pending
  model.tape.clear();
  EXPECT_FALSE(model.step_of());
}

TYPED_TEST(MicroBatchesTest, fewer_are_applied_by_their_mean) {
  auto model = this->model_of(4);
  EXPECT_FALSE(model.optimizer.apply_micro_batches(model.tape));
  EXPECT_FALSE(model.step_of(1.0F));
  EXPECT_FALSE(model.step_of(3.0F));
  EXPECT_TRUE(model.optimizer.apply_micro_batches(model.tape));
  EXPECT_THAT(to_host(model.w), Each(-1.0F));  // 1 - (1 + 3) / 2
  EXPECT_EQ(model.optimizer.status().steps, 1);
  model.tape.clear();
  EXPECT_FALSE(model.optimizer.apply_micro_batches(model.tape));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(model.step_of(2.0F));
  }
  EXPECT_TRUE(model.step_of(2.0F));
  EXPECT_THAT(to_host(model.w), Each(-3.0F));  // whole updates have their own factor again
}

TYPED_TEST(MicroBatchesTest, none_are_applied_by_the_gradients_of_others) {
  auto model = this->model_of(4);
  EXPECT_FALSE(model.step_of());
  model.backward();
  EXPECT_THAT(
      message_of<std::logic_error>([&] { model.optimizer.apply_micro_batches(model.tape); }),
      HasSubstr("2 backward()"));
  EXPECT_THAT(to_host(model.w), Each(1.0F));
  EXPECT_FALSE(model.optimizer.apply_micro_batches(model.tape));
}

}  // namespace
}  // namespace msstream::testing
