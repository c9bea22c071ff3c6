// SPDX-License-Identifier: Apache-2.0
// Tests captured steps that share the memory of their intermediate tensors.
#include "memory/device/device_state.hpp"
#include "runtime/counting.hpp"
#include "step/capture/captured_fixture.hpp"
#include "stream/stream.hpp"

#include <msstream/memory/device.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <thread>

namespace msstream::testing {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

template <class R>
class StepMemoryTest : public RuntimeTest<R> {
 protected:
  using Values = Tensor<float, R>;
  static constexpr std::int64_t kCount = 4 * kMiB;  ///< 16 MiB of floats

  void SetUp() override {
    RuntimeTest<R>::SetUp();
    if (!this->IsSkipped()) {
      device.emplace();
      pool.emplace(*device, StreamPoolOptions{.groups = 3});
    }
  }
  [[nodiscard]] Values values(float value) const {
    return to_device<float, R>(*device, Floats(static_cast<std::size_t>(kCount), value), {kCount});
  }
  /// Sets y to 4 x, with an intermediate tensor that is allocated inside the step.
  static void fourfold(Values const& x, Values const& y) {
    copy(y, ops::scale(ops::scale(x, 2.0F), 2.0F));
  }
  [[nodiscard]] std::size_t reserved() const { return device->memory_statistics().reserved_bytes; }
  [[nodiscard]] std::uint64_t waits() const { return device->wait_counts().issued; }

  std::optional<Device<R>> device;
  std::optional<StreamPool<R>> pool;
};
TYPED_TEST_SUITE(StepMemoryTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(StepMemoryTest, steps_that_share_it_take_as_much_as_one) {
  auto const x = this->values(1);
  auto const y = this->values(0);
  auto const step = [&] { this->fourfold(x, y); };
  auto const taken_by = [&](auto&& make_both) {
    auto const before = this->reserved();
    auto const both = make_both();
    return this->reserved() - before;
  };
  using Both =
      std::pair<std::unique_ptr<CapturedStep<TypeParam>>, std::unique_ptr<CapturedStep<TypeParam>>>;
  auto const& device = *this->device;
  auto const apart = taken_by([&] {
    return Both{std::make_unique<CapturedStep<TypeParam>>(device, step),
                std::make_unique<CapturedStep<TypeParam>>(device, step)};
  });
  CapturedStep const sweeps(device, [] {});  // releases the memory of earlier steps
  auto const together = taken_by([&] {
    StepMemory const memory(device);
    return Both{std::make_unique<CapturedStep<TypeParam>>(device, step, memory),
                std::make_unique<CapturedStep<TypeParam>>(device, step, memory)};
  });
  EXPECT_GE(together, 2U * 16 * kMiB) << "two tensors inside";
  EXPECT_LT(together, apart / 2 + 4 * kMiB);
}

TYPED_TEST(StepMemoryTest, steps_on_different_groups_follow_each_other_where_they_share_it) {
  auto const a = this->values(1);
  auto const b = this->values(2);
  auto const from_a = this->values(0);
  auto const from_b = this->values(0);
  auto const waits_of_second = [&](StepMemory<TypeParam> const& first_memory,
                                   StepMemory<TypeParam> const& second_memory) {
    CapturedStep first(
        *this->device, [&] { this->fourfold(a, from_a); }, first_memory);
    CapturedStep second(
        *this->device, [&] { this->fourfold(b, from_b); }, second_memory);
    this->device->default_group().synchronize();
    this->pool->synchronize();
    {
      StreamScope const scope((*this->pool)[0]);
      first.replay();
    }
    auto const before = this->waits();
    StreamScope const scope((*this->pool)[1]);
    second.replay();
    return this->waits() - before;
  };
  StepMemory const memory(*this->device);
  EXPECT_EQ(waits_of_second(memory, memory), 1U);
  EXPECT_EQ(waits_of_second(memory, StepMemory(*this->device)), 0U);
}

TYPED_TEST(StepMemoryTest, many_replays_by_turns_give_the_bits_of_eager_steps) {
  StepWorld<TypeParam> const world;
  auto const run = [&](bool captured) {
    auto const x = world.vector(1);
    auto const y = world.vector(2);
    auto const z = world.vector(3);
    auto const one = [&] { world.step(x, y, z); };
    auto const other = [&] { world.step(z, x, y); };
    StepMemory const memory(world.device);
    std::optional<CapturedStep<TypeParam>> first;
    std::optional<CapturedStep<TypeParam>> second;
    if (captured) {
      first.emplace(world.device, one, memory);
      second.emplace(world.device, other, memory);
    }
    for (int i = 0; i < 50; ++i) {
      StreamScope const scope(world.pool[i % 4]);
      captured ? static_cast<void>(first->replay()) : one();
      StreamScope const elsewhere(world.pool[(i + 1) % 4]);
      captured ? static_cast<void>(second->replay()) : other();
      copy(z, ops::scale(z, 0.25F));
    }
    return to_host(ops::add(std::vector{x, y, z}));
  };
  EXPECT_TRUE(same_bits(run(true), run(false)));
}

TYPED_TEST(StepMemoryTest, what_lives_on_is_its_steps_alone) {
  auto const x = this->values(1);
  auto const y = this->values(0);
  StepMemory const memory(*this->device);
  std::optional<Tensor<float, TypeParam>> kept;
  std::optional<CapturedStep<TypeParam>> first;
  first.emplace(
      *this->device, [&] { kept = ops::scale(ops::scale(x, 2.0F), 3.0F); }, memory);
  auto const* const address = kept->data();
  CapturedStep second(
      *this->device, [&] { this->fourfold(x, y); }, memory);
  first->replay();
  second.replay();
  EXPECT_EQ(to_host(*kept).front(), 6.0F);
  EXPECT_EQ(to_host(y).back(), 4.0F);
  // The memory of a result that was kept is never given to other steps, since they do not know the
  // work that reads it.
  kept.reset();
  first.reset();
  CapturedStep third(
      *this->device,
      [&] {
        auto const all = {ops::scale(x, 1.0F), ops::scale(x, 2.0F), ops::scale(x, 3.0F)};
        for (auto const& tensor : all) {
          EXPECT_NE(tensor.data(), address);
        }
        copy(y, *all.begin());
      },
      memory);
  third.replay();
  EXPECT_EQ(to_host(y).front(), 1.0F);
}

TYPED_TEST(StepMemoryTest, a_step_may_read_and_write_what_another_has_made) {
  auto const x = this->values(1);
  StepMemory const memory(*this->device);
  std::optional<Tensor<float, TypeParam>> made;
  CapturedStep first(
      *this->device, [&] { made = ops::scale(x, 2.0F); }, memory);
  CapturedStep second(
      *this->device, [&] { copy(*made, ops::scale(*made, 5.0F)); }, memory);
  {
    StreamScope const scope((*this->pool)[0]);
    first.replay();
    second.replay();
  }
  StreamScope const scope((*this->pool)[1]);
  second.replay();
  EXPECT_EQ(to_host(*made).front(), 50.0F);
}

/// Memory that is free inside a step is used by the step's next replay. It must stay at its
/// address, even when another step needs a large block and finds free memory in pieces only.
TYPED_TEST(StepMemoryTest, memory_of_a_graph_stays_where_it_is) {
  using Values = typename TestFixture::Values;
  auto const& device = *this->device;
  auto const x = this->values(1);
  auto const y = this->values(0);
  auto const wide = Shape{2 * TestFixture::kCount};
  StepMemory const memory(device);
  std::vector<Values> kept;
  CapturedStep first(
      device,
      [&] {
        auto const a = ops::scale(x, 2.0F);
        kept.push_back(ops::scale(x, 3.0F));
        auto const b = ops::scale(x, 4.0F);
        kept.push_back(ops::scale(x, 5.0F));
        copy(y, ops::add(std::vector{a, b}));
      },
      memory);
  CapturedStep second(
      device,
      [&] {
        Values const more(device, wide);
        fill_bytes(more, 0xFF);
        Values const most(device, wide);
        fill_bytes(most, 0xFF);
      },
      memory);
  for (int i = 0; i < 3; ++i) {
    first.replay();
    EXPECT_EQ(to_host(y).front(), 6.0F);
    EXPECT_EQ(to_host(y).back(), 6.0F);
    EXPECT_EQ(to_host(kept.front()).front(), 3.0F);
    EXPECT_EQ(to_host(kept.back()).back(), 5.0F);
    second.replay();
  }
}

/// If there is no memory for capturing another step, the existing steps keep their memory and still
/// work.
TYPED_TEST(StepMemoryTest, a_capture_that_finds_no_memory_takes_none_of_the_others) {
  DeviceOptions<TypeParam> options;
  options.memory.limit_bytes = std::size_t{96} << 20U;
  Device<TypeParam> const device(options);
  auto const x = to_device<float, TypeParam>(device, Floats(4 * kMiB, 1.0F), {4 * kMiB});
  auto const y = to_device<float, TypeParam>(device, Floats(4 * kMiB, 0.0F), {4 * kMiB});
  StepMemory const memory(device);
  CapturedStep step(
      device, [&] { this->fourfold(x, y); }, memory);
  EXPECT_THROW(CapturedStep<TypeParam>(
                   device,
                   [&] { static_cast<void>(Tensor<float, TypeParam>(device, {24 * kMiB})); },
                   memory),
               OutOfMemory);
  step.replay();
  EXPECT_EQ(to_host(y).front(), 4.0F);
  EXPECT_EQ(to_host(y).back(), 4.0F);
}

TYPED_TEST(StepMemoryTest, a_step_that_goes_waits_for_its_own_replays_only) {
  auto const x = this->values(1);
  auto const y = this->values(0);
  StepMemory const memory(*this->device);
  std::optional<CapturedStep<TypeParam>> first;
  first.emplace(
      *this->device, [&] { this->fourfold(x, y); }, memory);
  CapturedStep second(
      *this->device, [&] { this->fourfold(x, y); }, memory);
  auto const& group = (*this->pool)[0];
  StreamScope const scope(group);
  first->replay();
  group.synchronize();
  auto& captures = this->device->state()->memory.capture_pools();
  Gate gate;
  gate.hold(group.compute());
  second.replay();
  first.reset();
  captures.sweep();
  EXPECT_FALSE(captures.has_retired()) << "its last replay is over";
  gate.open();
  EXPECT_EQ(to_host(y).front(), 4.0F);
}

TYPED_TEST(StepMemoryTest, an_exception_in_a_capture_leaves_it_usable) {
  auto const x = this->values(1);
  auto const y = this->values(0);
  StepMemory const memory(*this->device);
  std::optional<Tensor<float, TypeParam>> escaped;
  EXPECT_THROW(CapturedStep<TypeParam>(
                   *this->device,
                   [&] {
                     escaped = ops::scale(x, 2.0F);
                     throw std::runtime_error("given up");
                   },
                   memory),
               std::runtime_error);
  CapturedStep step(
      *this->device, [&] { this->fourfold(x, y); }, memory);
  step.replay();
  EXPECT_EQ(to_host(y).front(), 4.0F);
}

TYPED_TEST(StepMemoryTest, two_threads_do_not_capture_in_it_at_once) {
  auto const x = this->values(1);
  auto const y = this->values(0);
  StepMemory const memory(*this->device);
  CapturedStep step(
      *this->device,
      [&] {
        this->fourfold(x, y);
        std::thread([&] {
          EXPECT_THROW(CapturedStep<TypeParam>(
                           *this->device, [] {}, memory),
                       std::logic_error);
          CapturedStep own(*this->device, [] {});
          own.replay();
        }).join();
      },
      memory);
  step.replay();
  EXPECT_EQ(to_host(y).front(), 4.0F);
}

TYPED_TEST(StepMemoryTest, it_is_for_one_device) {
  Device<TypeParam> const other;
  StepMemory const memory(*this->device);
  EXPECT_THROW(CapturedStep<TypeParam>(
                   other, [] {}, memory),
               std::invalid_argument);
  CapturedStep own(
      *this->device, [] {}, memory);
  own.replay();
}

TYPED_TEST(StepMemoryTest, that_of_a_group_is_of_the_same_device) {
  Device<TypeParam> const other;
  EXPECT_THROW(StepMemory(other, (*this->pool)[0]), std::invalid_argument);
  EXPECT_THROW(StepMemory(*this->device, other.default_group()), std::invalid_argument);
}

TYPED_TEST(StepMemoryTest, that_of_a_group_is_replayed_there) {
  auto const x = this->values(1);
  auto const y = this->values(0);
  auto const& group = (*this->pool)[2];
  StepMemory const memory(*this->device, group);
  CapturedStep step(
      *this->device, [&] { this->fourfold(x, y); }, memory);
  StreamScope const scope((*this->pool)[0]);
  EXPECT_EQ(step.replay().stream, group.compute().engine().slot().index);
  EXPECT_EQ(to_host(y).front(), 4.0F);
}

/// Returns how many sets of library handles, each with a workspace, two captured steps on three
/// groups make.
template <Runtime R>
std::int64_t libraries_made(bool shared, bool of_group) {
  auto const census = std::make_shared<Census>();
  Device<Counting<R>> const device({.runtime = {.runtime = {}, .census = census}});
  StreamPool pool(device, {.groups = 3});
  auto const x = to_device<float>(device, Floats(64, 1.0F), {64});
  auto const y = to_device<float>(device, Floats(64, 0.0F), {64});
  auto const step = [&] {
    for (int i = 0; i < 3; ++i) {
      StreamScope const scope(pool[i]);
      copy(y, ops::scale(x, 2.0F));
    }
  };
  StepMemory const memory =
      of_group ? StepMemory(device, pool[1]) : StepMemory<Counting<R>>(device);
  StepMemory const other(device);
  auto const before = census->libraries.load();
  CapturedStep const first(device, step, memory);
  CapturedStep const second(device, step, shared ? memory : other);
  return census->libraries.load() - before;
}

TEST(StepMemoryLibraries, steps_that_share_it_share_workspaces) {
  EXPECT_EQ(libraries_made<Host>(false, false), 6);
  EXPECT_EQ(libraries_made<Host>(true, false), 3);
  EXPECT_EQ(libraries_made<Host>(true, true), 2) << "the group lends its own";
}

TEST(CapturedStreams, are_given_back_when_the_step_is_captured) {
  auto const census = std::make_shared<Census>();
  Device<Counting<Host>> const device({.runtime = {.runtime = {}, .census = census}});
  StreamPool pool(device, {.groups = 3});
  auto const x = to_device<float>(device, Floats(8, 1.0F), {8});
  auto const y = to_device<float>(device, Floats(8, 0.0F), {8});
  auto const before = census->streams.load();
  auto most = before;
  CapturedStep step(device, [&] {
    for (int i = 0; i < 3; ++i) {
      StreamScope const scope(pool[i]);
      copy(y, ops::scale(x, 2.0F));
    }
    most = census->streams.load();
  });
  EXPECT_GE(most, before + 3 + 1) << "a twin each, and the origin";
  EXPECT_EQ(census->streams.load(), before);
  step.replay();
  EXPECT_THAT(to_host(y), ::testing::Each(2.0F));
}

}  // namespace
}  // namespace msstream::testing
