// SPDX-License-Identifier: Apache-2.0
// Tests captures that can no longer become a graph.
#include "base/message_of.hpp"
#include "memory/device/device_state.hpp"
#include "step/capture/captured_fixture.hpp"

#include <msstream/ops/arithmetic.hpp>
#include <msstream/ops/elementwise.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/trace/name_scope.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>

namespace msstream::testing {
namespace {

template <class R>
class SpoiltCaptureTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(SpoiltCaptureTest, Runtimes, RuntimeNames);

TYPED_TEST(SpoiltCaptureTest, what_a_failed_capture_made_is_not_used) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto const weight = world.vector(2);
  Optimizer<TypeParam> optimizer(world.device,
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.5F});
  optimizer.add("weight", weight);
  GradientTape<TypeParam> tape(world.device);
  std::optional<Tensor<float, TypeParam>> loss;
  auto const step = [&] {
    loss = ops::sum(tape, ops::multiply(tape, weight, x));
    tape.backward(*loss);
    optimizer.step(tape);
  };
  EXPECT_THROW(CapturedStep<TypeParam>(world.device,
                                       [&] {
                                         step();
                                         throw std::domain_error("before clear()");
                                       }),
               std::domain_error);
  auto const expect_told = [](auto&& call) {
    EXPECT_THAT(message_of<std::logic_error>(call),
                ::testing::AllOf(::testing::HasSubstr("a capture that failed"),
                                 ::testing::HasSubstr("clear()")));
  };
  auto const lost = *loss;
  expect_told([&] { (void)ops::scale(lost, 2.0F); });
  expect_told([&] { (void)to_host(lost); });
  expect_told([&] { step(); });  // would add the gradients that the tape has
  EXPECT_EQ(to_host(weight).front(), 2.0F);
  tape.clear();
  step();
  EXPECT_EQ(to_host(weight).front(), 1.5F);
  tape.clear();
  CapturedStep<TypeParam> again(world.device, [&] {
    step();
    tape.clear();
  });
  again.replay();
  EXPECT_EQ(to_host(weight).front(), 1.0F);
}

TYPED_TEST(SpoiltCaptureTest, an_exception_inside_leaves_all_as_it_was) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto const y = world.vector(2);
  auto const z = world.vector(3);
  std::optional<Tensor<float, TypeParam>> escaped;
  auto const before = world.device.memory_statistics();
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(CapturedStep<TypeParam>(world.device,
                                         [&] {
                                           world.step(x, y, z);
                                           escaped = ops::scale(x, 2.0F);
                                           throw std::domain_error("inside");
                                         }),
                 std::domain_error);
    EXPECT_EQ(to_host(y).front(), 2.0F);
    EXPECT_EQ(to_host(z).front(), 3.0F);
    copy(*escaped, x);  // a usable tensor
    EXPECT_EQ(to_host(*escaped).front(), 1.0F);
    escaped.reset();
    static_cast<void>(to_host(x));
  }
  world.device.state()->memory.release_unneeded();
  EXPECT_EQ(world.device.memory_statistics().live_bytes, before.live_bytes);
  EXPECT_LE(world.device.memory_statistics().reserved_bytes, before.reserved_bytes);
  world.step(x, y, z);
  auto const expected = to_host(z);
  copy(y, world.vector(2));
  CapturedStep step(world.device, [&] { world.step(x, y, z); });
  step.replay();
  EXPECT_TRUE(same_bits(to_host(z), expected));
}

TYPED_TEST(SpoiltCaptureTest, an_operation_that_may_not_be_captured_is_named) {
  using R = TypeParam;
  StepWorld<R> const world;
  auto const x = world.vector(1);
  auto& runtime = world.device.runtime();
  auto const wait = [&](typename R::native_stream native) { runtime.synchronize_stream(native); };
  auto const wait_unheard = [&](typename R::native_stream native) {
    EXPECT_THROW(wait(native), RuntimeError);
  };
  auto const refused = [&](auto const& work) {
    return message_of<std::logic_error>([&] {
      CapturedStep<R>(world.device, [&] {
        copy(x, ops::scale(x, 2.0F));
        NameScope const tower("tower");
        issue("score", writes(x), NativeWork{work});
      });
    });
  };
  for (auto const& message : {refused(wait), refused(wait_unheard)}) {
    EXPECT_THAT(message, ::testing::HasSubstr("'tower/score' may not be captured"));
  }
  auto const users_own = [](typename R::native_stream) { throw std::range_error("the user's"); };
  EXPECT_THROW(
      CapturedStep<R>(world.device, [&] { issue("throws", writes(x), NativeWork{users_own}); }),
      std::range_error);
  CapturedStep step(world.device, [&] { copy(x, ops::scale(x, 3.0F)); });
  step.replay();
  EXPECT_EQ(to_host(x).front(), 3.0F);
}

/// Simulates another thread that waits for the whole device during the capture: the capture becomes
/// invalid, and the next call for one of its streams fails.
TYPED_TEST(SpoiltCaptureTest, a_call_that_fails_after_the_end_of_the_capture_says_so) {
  using R = TypeParam;
  StepWorld<R> const world;
  auto const x = world.vector(1);
  auto& runtime = world.device.runtime();
  auto const event = runtime.create_event(EventTiming::untimed);
  auto const message = message_of<std::runtime_error>([&] {
    CapturedStep<R>(world.device, [&] {
      typename R::native_stream captured{};
      issue("hold", writes(x), NativeWork{[&](typename R::native_stream native) {
              captured = native;
            }});
      EXPECT_THROW(runtime.synchronize_stream(captured), RuntimeError);
      runtime.record(event, captured);
    });
  });
  runtime.destroy_event(event);
  EXPECT_THAT(message, ::testing::StartsWith("the capture was ended from outside"));
  EXPECT_THAT(message, ::testing::HasSubstr("the step can be captured again ("));
  CapturedStep step(world.device, [&] { copy(x, ops::scale(x, 3.0F)); });
  step.replay();
  EXPECT_EQ(to_host(x).front(), 3.0F);
}

}  // namespace
}  // namespace msstream::testing
