// SPDX-License-Identifier: Apache-2.0
// Tests host data in a captured step: each replay copies the data anew, or the capture is refused.
#include "step/capture/captured_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/step/differentiable_ops.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <class R>
class CapturedHostDataTest : public RuntimeTest<R> {
 protected:
  static PinnedArray<float, R> pinned(Device<R> const& device, float value) {
    PinnedArray<float, R> array(device, StepWorld<R>::kCount);
    std::ranges::fill(array.elements(), value);
    return array;
  }
};
TYPED_TEST_SUITE(CapturedHostDataTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(CapturedHostDataTest, an_upload_that_each_replay_would_repeat_is_refused) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto const mask_in_step = [&] {
    CapturedStep<TypeParam>(world.device, [&] {
      NameScope const tower("tower");
      copy(x, ops::add(std::vector{x, world.vector(0.5F)}));
    });
  };
  EXPECT_THAT(message_of<std::logic_error>(mask_in_step),
              AllOf(StartsWith("to_device in 'tower' inside a capture"), HasSubstr("PinnedArray")));
  EXPECT_EQ(to_host(x).front(), 1.0F);
  auto const mask = world.vector(0.5F);  // made outside of the step, used inside
  CapturedStep step(world.device, [&] { copy(x, ops::add(std::vector{x, mask})); });
  step.replay();
  EXPECT_EQ(to_host(x).front(), 1.5F);
}

TYPED_TEST(CapturedHostDataTest, a_copy_from_pinned_memory_that_is_gone_is_refused) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto const refused = [&](auto&& function) {
    auto const message =
        message_of<std::logic_error>([&] { CapturedStep<TypeParam>(world.device, function); });
    EXPECT_THAT(message, HasSubstr("PinnedArray that nobody has any more"));
  };
  refused([&] { copy(x, this->pinned(world.device, 2)); });
  auto const kept = this->pinned(world.device, 3);
  refused([&] {
    copy(x, kept);
    StreamScope const scope(world.pool[1]);
    auto const temporary = this->pinned(world.device, 2);
    copy(x, temporary);
    copy(x, temporary);
  });
  EXPECT_EQ(to_host(x).front(), 1.0F);
  copy(x, this->pinned(world.device, 4));  // an eager copy may outlive its source
  EXPECT_EQ(to_host(x).front(), 4.0F);
}

TYPED_TEST(CapturedHostDataTest,
           steps_that_share_pinned_memory_are_refused_when_only_they_have_it) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  std::optional mask(this->pinned(world.device, 2));
  CapturedStep first(world.device, [&] { copy(x, *mask); });
  {
    CapturedStep second(world.device, [&] { copy(x, *mask); });
    second.replay();
    mask.reset();
    for (auto* const step : {&first, &second}) {
      EXPECT_THAT(message_of<std::logic_error>([&] { step->replay(); }),
                  HasSubstr("PinnedArray that nobody has any more"));
    }
  }
  EXPECT_THAT(message_of<std::logic_error>([&] { first.replay(); }),
              HasSubstr("PinnedArray that nobody has any more"));
  EXPECT_EQ(to_host(x).front(), 2.0F);
}

TYPED_TEST(CapturedHostDataTest, pinned_memory_that_another_step_writes_needs_no_other_owner) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto const y = world.vector(5);
  std::optional between(this->pinned(world.device, 2));
  CapturedStep writer(world.device, [&] { copy(*between, y); });
  CapturedStep reader(world.device, [&] { copy(x, *between); });
  between.reset();
  writer.replay();
  reader.replay();
  EXPECT_EQ(to_host(x).front(), 5.0F);
}

TYPED_TEST(CapturedHostDataTest, a_replay_from_pinned_memory_that_is_gone_is_refused) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  std::optional mask(this->pinned(world.device, 2));
  CapturedStep step(world.device, [&] { copy(x, *mask); });
  auto const copy_of_mask = *mask;
  mask.reset();
  step.replay();
  EXPECT_EQ(to_host(x).front(), 2.0F);
  CapturedStep other(world.device, [&x, own = this->pinned(world.device, 3)] { copy(x, own); });
  EXPECT_THAT(message_of<std::logic_error>([&] { other.replay(); }),
              HasSubstr("PinnedArray that nobody has any more"));
  step.replay();
  EXPECT_EQ(to_host(x).front(), 2.0F);
}

TYPED_TEST(CapturedHostDataTest, pinned_memory_that_the_step_writes_may_go) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto const y = world.vector(0);
  CapturedStep step(world.device, [&] {
    auto const way = this->pinned(world.device, 0);
    copy(way, x);
    copy(y, way);
  });
  for (float const value : {2.0F, 3.0F}) {
    copy(x, world.vector(value));
    step.replay();
    EXPECT_EQ(to_host(y).front(), value);
  }
}

TYPED_TEST(CapturedHostDataTest, a_replay_copies_what_pinned_memory_holds_then) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto const before = this->pinned(world.device, 2);
  std::optional<PinnedArray<float, TypeParam>> inside;
  CapturedStep step(world.device, [&] {
    copy(x, before);
    Tensor<float, TypeParam> const y(world.device, x.shape());
    inside.emplace(this->pinned(world.device, 10));
    copy(y, *inside);
    copy(x, ops::add(std::vector{x, y}));
  });
  for (float const value : {1.0F, 5.0F, 7.0F}) {
    std::ranges::fill(before.elements(), value);
    std::ranges::fill(inside->elements(), 10 * value);
    step.replay();
    EXPECT_EQ(to_host(x).front(), 11 * value);
    before.wait();
    inside->wait();
  }
}

TYPED_TEST(CapturedHostDataTest, a_tape_first_used_in_a_capture_is_right_eagerly_before_a_replay) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto const gradient = world.vector(0);
  GradientTape tape(world.device);
  auto const train = [&] {
    tape.backward(ops::sum(tape, ops::scale(tape, x, 3.0F)));
    copy(gradient, tape.gradient(x));
    tape.clear();
  };
  CapturedStep step(world.device, train);
  train();
  EXPECT_EQ(to_host(gradient).front(), 3.0F);
  copy(gradient, x);
  step.replay();
  EXPECT_EQ(to_host(gradient).front(), 3.0F);
}

}  // namespace
}  // namespace msstream::testing
