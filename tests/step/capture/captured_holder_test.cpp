// SPDX-License-Identifier: Apache-2.0
// Tests TensorHolder in captured steps: the work that a holder covers is ordered in replays,
// whether the memory is made inside the step or outside.
#include "base/message_of.hpp"
#include "step/capture/captured_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/tensor_holder.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class CapturedHolderTest : public RuntimeTest<R> {
 protected:
  using Floats32 = Tensor<float, R>;

  /// Copies x to y on group 1, by a direct call of the runtime that a TensorHolder covers.
  void copy_under_holder(Floats32 const& x, Floats32 const& y) {
    StreamScope const scope(world_.pool[1]);
    auto const stream = world_.device.current_group().compute();
    TensorHolder holder(stream);
    holder.hold(x, AccessMode::read);
    holder.hold(y);
    world_.device.runtime().copy(y.data(), x.data(), x.bytes(), CopyKind::d2d, stream.native());
  }
  /// Adds 1 to x, copies x to y, and sets z to y, each on a different group.
  void step(Floats32 const& x, Floats32 const& y, Floats32 const& z) {
    {
      StreamScope const scope(world_.pool[0]);
      copy(x, ops::add(std::vector{x, one_}));
    }
    copy_under_holder(x, y);
    StreamScope const scope(world_.pool[2]);
    copy(z, y);
  }

  StepWorld<R> world_;
  Floats32 one_ = world_.vector(1.0F);
};
TYPED_TEST_SUITE(CapturedHolderTest, Runtimes, RuntimeNames);

TYPED_TEST(CapturedHolderTest, memory_from_outside_is_ordered) {
  auto const x = this->world_.vector(0.0F);
  auto const y = this->world_.vector(0.0F);
  auto const z = this->world_.vector(0.0F);
  auto const before = this->world_.device.wait_counts();
  CapturedStep step(this->world_.device, [&] { this->step(x, y, z); });
  // Group 1 must wait for the write of x, and group 2 for the copy on group 1.
  EXPECT_GE(this->world_.device.wait_counts().needed - before.needed, 2U);
  constexpr int kReplays = 50;
  for (int i = 0; i < kReplays; ++i) {
    step.replay();
    copy(y, this->world_.vector(-1.0F));  // replays are ordered after the last use outside
  }
  EXPECT_EQ(to_host(z), Floats(StepWorld<TypeParam>::kCount, static_cast<float>(kReplays)));
}

TYPED_TEST(CapturedHolderTest, memory_from_inside_is_ordered) {
  auto const x = this->world_.vector(0.0F);
  auto const z = this->world_.vector(0.0F);
  CapturedStep step(this->world_.device, [&] {
    Tensor<float, TypeParam> const y(this->world_.device, x.shape());
    this->step(x, y, z);
  });
  step.replay();
  step.replay();
  EXPECT_EQ(to_host(z), Floats(StepWorld<TypeParam>::kCount, 2.0F));
}

/// A capture runs nothing, so another thread may use the memory of its holders while the capture is
/// open.
TYPED_TEST(CapturedHolderTest, another_thread_uses_the_memory_beside_the_capture) {
  auto const x = this->world_.vector(1.0F);
  auto const y = this->world_.vector(0.0F);
  auto const z = this->world_.vector(0.0F);
  auto const two = this->world_.vector(2.0F);
  auto const on_another_thread = [&](Tensor<float, TypeParam> const& target, int group) {
    std::thread([&] {
      StreamScope const scope(this->world_.pool[group]);
      EXPECT_NO_THROW(copy(target, two));
    }).join();
  };
  CapturedStep step(this->world_.device, [&] {
    {
      StreamScope const scope(this->world_.pool[1]);
      auto const stream = this->world_.device.current_group().compute();
      TensorHolder holder(stream);
      holder.hold(y);
      on_another_thread(y, 0);  // while the holder is open
      this->world_.device.runtime().copy(
          y.data(), two.data(), y.bytes(), CopyKind::d2d, stream.native());
    }
    on_another_thread(y, 2);  // while the capture is open
    this->copy_under_holder(x, y);
    on_another_thread(y, 0);
    copy(z, y);
  });
  EXPECT_EQ(to_host(y).front(), 2.0F);
  step.replay();
  on_another_thread(y, 2);
  EXPECT_EQ(to_host(z).front(), 1.0F);
}

TYPED_TEST(CapturedHolderTest, one_that_is_open_at_the_end_of_the_capture_is_named) {
  auto const x = this->world_.vector(1.0F);
  auto const y = this->world_.vector(0.0F);
  std::optional<TensorHolder<TypeParam>> holder;
  std::uint_least32_t line = 0;
  auto const hold_x = [&] {
    holder.emplace(this->world_.device.current_group().compute());
    line = std::source_location::current().line() + 1;
    holder->hold(x);
  };
  auto const message =
      message_of<std::logic_error>([&] { CapturedStep<TypeParam>(this->world_.device, hold_x); });
  EXPECT_THAT(message, ::testing::HasSubstr("captured_holder_test.cpp:" + std::to_string(line)));
  EXPECT_THAT(message, ::testing::HasSubstr("still open at the end of the capture"));
  EXPECT_THROW(holder->release(), std::logic_error);
  holder.reset();
  copy(x, ops::add(std::vector{x, this->one_}));
  EXPECT_EQ(to_host(x).front(), 2.0F);
  // A holder that is released inside a captured step may be destroyed after the capture.
  CapturedStep step(this->world_.device, [&] {
    hold_x();
    holder->release();
    copy(y, x);
  });
  holder.reset();
  step.replay();
  EXPECT_EQ(to_host(y).front(), 2.0F);
}

}  // namespace
}  // namespace msstream::testing
