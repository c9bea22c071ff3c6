// SPDX-License-Identifier: Apache-2.0
// Tests updates by several micro-batches: those that are dropped, forgotten, and fewer than stated.
#include "ops/ops_fixture.hpp"
#include "step/optimizer/trained_model.hpp"

#include <msstream/step/captured_step.hpp>
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

/// Trains a model by updates of three micro-batches each.
template <class R>
struct InThrees : TrainedModel<R> {
  static constexpr int kMicroBatches = 3;
  enum class Place { before_backward, before_step, after_step };

  explicit InThrees(Device<R> const& device)
      : TrainedModel<R>(device,
                        3,
                        {.kind = ops::OptimizerKind::adam, .learning_rate = 0.1F},
                        {.clip_norm = 1.0F, .micro_batches = kMicroBatches}) {}

  /// Throws std::domain_error at a place of a micro-batch, if one is stated.
  void update(int failing = -1, Place place = {}) {
    for (int i = 0; i < kMicroBatches; ++i) {
      auto const reach = [&](Place reached) {
        if (i == failing && reached == place) {
          throw std::domain_error("half way");
        }
      };
      auto const loss = this->loss();
      reach(Place::before_backward);
      this->tape().backward(loss);
      reach(Place::before_step);
      EXPECT_EQ(this->optimizer().step(this->tape()), i + 1 == kMicroBatches);
      reach(Place::after_step);
    }
    this->tape().clear();
  }
};

TYPED_TEST(MicroBatchesTest, a_capture_that_fails_half_way_leaves_no_trace) {
  if constexpr (CapturingRuntime<TypeParam>) {
    using Model = InThrees<TypeParam>;
    using Place = typename Model::Place;
    Model expected(this->device());
    for (int i = 0; i < 3; ++i) {
      expected.update();
    }
    for (int failing = 0; failing < Model::kMicroBatches; ++failing) {
      for (auto const place : {Place::before_backward, Place::before_step, Place::after_step}) {
        SCOPED_TRACE(fmt::format("micro-batch {}, place {}", failing, static_cast<int>(place)));
        Model model(this->device());
        model.update();
        auto const before = model.saved();
        auto const capture = [&](auto&&... failure) {
          return CapturedStep<TypeParam>(this->device(), [&] { model.update(failure...); });
        };
        EXPECT_THROW((void)capture(failing, place), std::domain_error);
        if (failing > 0 || place != Place::before_backward) {
          EXPECT_THAT(message_of<std::logic_error>([&] { model.update(); }), HasSubstr("clear()"));
        }
        EXPECT_EQ(model.saved(), before);
        model.tape().clear();
        EXPECT_FALSE(model.optimizer().apply_micro_batches(model.tape()));
        // The next capture may be where the failed one was.
        EXPECT_THROW((void)capture(failing, place), std::domain_error);
        EXPECT_NO_THROW(model.optimizer().check_of_list()("checkpoint::save", true));
        model.tape().clear();
        capture().replay();
        model.update();
        EXPECT_EQ(model.saved(), expected.saved());
      }
    }
  }
}

}  // namespace
}  // namespace msstream::testing
