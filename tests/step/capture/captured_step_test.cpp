// SPDX-License-Identifier: Apache-2.0
// Tests steps that are captured as a graph once and then replayed.
#include "memory/blocks/block.hpp"
#include "memory/device/device_state.hpp"
#include "step/capture/captured_fixture.hpp"

#include <msstream/memory/device.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class CapturedStepTest : public RuntimeTest<R> {};
TYPED_TEST_SUITE(CapturedStepTest, Runtimes, RuntimeNames);

/// Runs `count` steps and returns the value of z after each, one row per step. Each step has
/// another x, and an eager operation follows it. `step` issues or replays one step.
template <Runtime R, class Step>
Floats rows_after(StepWorld<R> const& world,
                  int count,
                  Tensor<float, R> const& x,
                  Tensor<float, R> const& y,
                  Tensor<float, R> const& z,
                  Step&& step) {
  Tensor<float, R> const rows(world.device, {count, StepWorld<R>::kCount});
  for (int i = 0; i < count; ++i) {
    {
      StreamScope const scope(world.pool[i % 3]);
      copy(x, ops::scale(z, 0.125F * static_cast<float>(i % 7)));
      step();
    }
    StreamScope const scope(world.pool[(i + 1) % 4]);
    copy(rows.rows(i, i + 1).reshaped({StepWorld<R>::kCount}), z);
    copy(y, ops::scale(y, 0.5F));
  }
  return to_host(rows);
}

/// A thread that works on the groups of a StepWorld until it is stopped, and checks its results.
template <Runtime R>
class Neighbour {
 public:
  explicit Neighbour(StepWorld<R> const& world) : thread_([this, &world] { work(world); }) {}
  ~Neighbour() {
    stop_ = true;
    thread_.join();
  }

 private:
  void work(StepWorld<R> const& world) {
    for (int i = 0; !stop_ || i < 20; ++i) {
      auto const start = world.vector(static_cast<float>(i));
      StreamScope const scope(world.pool[i % 4]);
      auto const out = to_host(ops::add(std::vector{ops::scale(start, 2.0F), start}));
      ASSERT_EQ(out.front(), 3.0F * static_cast<float>(i));
      ASSERT_EQ(out.back(), 3.0F * static_cast<float>(i));
    }
  }
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TYPED_TEST(CapturedStepTest, a_thousand_replays_among_eager_work_give_the_bits_of_eager_steps) {
  constexpr int kReplays = 1000;
  StepWorld<TypeParam> const world;
  auto const run = [&](auto&& make_step) {
    auto const x = world.vector(1);
    auto const y = world.vector(2);
    auto const z = world.vector(3);
    return rows_after(world, kReplays, x, y, z, make_step(x, y, z));
  };
  auto const expected = run(
      [&](auto const& x, auto const& y, auto const& z) { return [&] { world.step(x, y, z); }; });
  Neighbour<TypeParam> const neighbour(world);
  std::optional<CapturedStep<TypeParam>> step;
  auto const replayed = run([&](auto const& x, auto const& y, auto const& z) {
    step.emplace(world.device, [&] { world.step(x, y, z); });
    return [&] { step->replay(); };
  });
  EXPECT_TRUE(same_bits(replayed, expected));
}

TEST(CapturedStepOnHost, an_operation_follows_nothing_that_its_producer_does_later) {
  StepWorld<Host> const world;
  auto const x = world.vector(1);
  auto const y = world.vector(2);
  int ran = 0;
  int later_ran = 0;
  int consumer_ran = 0;
  auto const notes = [&](int& when) {
    return [&ran, &when](HostStream stream) { stream.run([&ran, &when] { when = ran++; }); };
  };
  CapturedStep<Host> step(world.device, [&] {
    {
      StreamScope const scope(world.pool[1]);
      issue("produce", writes(x), [](HostStream stream) { stream.run([] {}); });
      issue("later", writes(y), notes(later_ran));
    }
    StreamScope const scope(world.pool[2]);
    issue("consume", reads(x), notes(consumer_ran));
  });
  int before = 0;
  constexpr int kReplays = 200;  // in random orders of operations without an order
  for (int i = 0; i < kReplays; ++i) {
    ran = 0;
    step.replay();
    static_cast<void>(to_host(y));
    before += consumer_ran < later_ran ? 1 : 0;
  }
  EXPECT_GT(before, 0);
  EXPECT_LT(before, kReplays);
}

TEST(CapturedStepOnHost, without_the_order_of_its_graph_it_goes_wrong) {
  StepWorld<HostWithoutEdges> const world;
  auto const run = [&](bool captured) {
    auto const x = world.vector(1);
    auto const y = world.vector(2);
    auto const z = world.vector(3);
    std::optional<CapturedStep<HostWithoutEdges>> step;
    if (captured) {
      step.emplace(world.device, [&] { world.step(x, y, z); });
    }
    return rows_after(
        world, 50, x, y, z, [&] { captured ? (void)step->replay() : world.step(x, y, z); });
  };
  EXPECT_FALSE(same_bits(run(true), run(false)));
}

TYPED_TEST(CapturedStepTest, what_is_made_inside_and_lives_on_is_written_by_each_replay) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  std::optional<Tensor<float, TypeParam>> made;
  CapturedStep step(world.device, [&] { made = ops::scale(x, 3.0F); });
  for (float const value : {1.0F, 2.0F, 5.0F}) {
    copy(x, world.vector(value));
    step.replay();
    EXPECT_EQ(to_host(*made).front(), 3.0F * value);
  }
}

TYPED_TEST(CapturedStepTest, its_memory_is_nobody_elses_while_it_lives_and_goes_back_after) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto& memory = world.device.state()->memory;
  constexpr std::int64_t kLarge = 1 << 20;
  memory.return_cached_memory();
  auto const reserved = world.device.memory_statistics().reserved_bytes;
  std::vector<std::byte const*> inside;
  std::optional<CapturedStep<TypeParam>> step;
  step.emplace(world.device, [&] {
    for (int i = 0; i < 8; ++i) {
      StreamScope const scope(world.pool[i % 4]);
      auto const small = ops::scale(x, 2.0F);
      Tensor<std::uint8_t, TypeParam> const large(world.device, {kLarge});
      fill_bytes(large, 1);
      inside.push_back(small.block()->data);
      inside.push_back(large.block()->data);
    }
  });
  EXPECT_GE(world.device.memory_statistics().reserved_bytes, reserved + kLarge);
  auto const is_inside = [&](std::byte const* data) {
    return std::find(inside.begin(), inside.end(), data) != inside.end();
  };
  for (int round = 0; round < 2; ++round) {
    std::vector<memory::BlockRef> held;
    for (int i = 0; i < 16; ++i) {
      StreamScope const scope(world.pool[i % 4]);
      held.push_back(ops::scale(x, 2.0F).block());
      held.push_back(Tensor<std::uint8_t, TypeParam>(world.device, {kLarge}).block());
    }
    for (auto const& block : held) {
      ASSERT_FALSE(is_inside(block->data));
    }
    step->replay();
  }
  // The memory of a living step does not go back to the runtime when unneeded memory is released,
  // either.
  world.pool[0].synchronize();
  memory.return_cached_memory();
  memory.release_unneeded();
  EXPECT_GE(world.device.memory_statistics().reserved_bytes, reserved + kLarge);
  step->replay();
  step.reset();
  world.device.current_group().synchronize();
  for (int i = 0; i < 4; ++i) {
    world.pool[i].synchronize();
  }
  memory.release_unneeded();
  memory.return_cached_memory();
  EXPECT_LE(world.device.memory_statistics().reserved_bytes, reserved);
}

TYPED_TEST(CapturedStepTest, the_limit_is_for_both) {
  constexpr std::size_t kLimit = std::size_t{64} << 20U;
  constexpr std::int64_t kMost = 40 << 20;
  DeviceOptions<TypeParam> options;
  options.memory.limit_bytes = kLimit;
  options.memory.max_growth_bytes = std::size_t{1} << 20U;
  options.memory.wait_for_frees = std::chrono::minutes(10);
  Device<TypeParam> const device(options);
  auto const use_most = [&] {
    Tensor<std::uint8_t, TypeParam> const large(device, {kMost});
    fill_bytes(large, 1);
  };
  use_most();  // its memory stays, free, in the shared pool
  std::optional<CapturedStep<TypeParam>> step;
  step.emplace(device, use_most);
  EXPECT_LE(device.memory_statistics().reserved_bytes, kLimit);
  EXPECT_THROW(use_most(), OutOfMemory);
  EXPECT_THROW((CapturedStep<TypeParam>(device, use_most)), OutOfMemory);
  step->replay();
  step.reset();
  use_most();  // waits for the last replay if needed
  EXPECT_LE(device.memory_statistics().peak_reserved_bytes, kLimit);
}

TYPED_TEST(CapturedStepTest, whatever_pools_the_groups_have) {
  for (auto const mode :
       {PoolMode::shared, PoolMode::private_pools, PoolMode::private_pools_one_limit}) {
    DeviceOptions<TypeParam> options;
    options.memory.mode = mode;
    options.memory.private_pools = 3;
    options.memory.limit_bytes = std::size_t{192} << 20U;
    StepWorld<TypeParam> const world(options);
    auto const x = world.vector(1);
    auto const y = world.vector(2);
    auto const z = world.vector(3);
    world.step(x, y, z);
    auto const expected = to_host(z);
    copy(y, world.vector(2));
    auto const before = world.device.memory_statistics().reserved_bytes;
    {
      CapturedStep step(world.device, [&] { world.step(x, y, z); });
      EXPECT_GT(world.device.memory_statistics().reserved_bytes, before);
      step.replay();
      EXPECT_TRUE(same_bits(to_host(z), expected));
      EXPECT_FALSE(world.device.memory_snapshot().ranges.empty());
    }
    world.device.state()->memory.release_unneeded();
    EXPECT_LE(world.device.memory_statistics().reserved_bytes, before);
  }
}

TYPED_TEST(CapturedStepTest, the_host_cannot_wait_inside) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto const refused = [&](auto&& wait) {
    EXPECT_THROW(CapturedStep<TypeParam>(world.device, wait), std::logic_error);
  };
  refused([&] { static_cast<void>(to_host(x)); });
  refused([&] { static_cast<void>(to_host(ops::scale(x, 2.0F))); });
  refused([&] {
    fill_bytes(x, 0);
    auto frozen = x;
    frozen.freeze();
  });
  refused([&] {
    fill_bytes(x, 0);
    world.device.current_group().synchronize();
  });
  EXPECT_EQ(to_host(x).front(), 1.0F);
}

TYPED_TEST(CapturedStepTest, what_is_refused_inside_names_the_call_and_the_place) {
  using R = TypeParam;
  StepWorld<R> const world;
  auto const x = world.vector(1);
  PinnedArray<float, R> const pinned(world.device, static_cast<std::size_t>(x.count()));
  auto const refused = [&](auto&& function) {
    return message_of<std::logic_error>([&] {
      CapturedStep<R>(world.device, [&] {
        copy(x, ops::scale(x, 2.0F));
        copy(pinned, x);
        NameScope const tower("tower");
        function();
      });
    });
  };
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  using ::testing::StartsWith;
  EXPECT_THAT(refused([&] { static_cast<void>(to_host(x)); }),
              StartsWith("to_host in 'tower': the host waits for memory"));
  EXPECT_THAT(refused([&] { pinned.wait(); }), StartsWith("PinnedArray::wait in 'tower': "));
  EXPECT_THAT(refused([&] {
                auto frozen = x;
                frozen.freeze();
              }),
              StartsWith("Tensor::freeze in 'tower': "));
  EXPECT_THAT(refused([&] {
                issue("wait", writes(x), [&](auto) { world.device.current_group().synchronize(); });
              }),
              AllOf(HasSubstr("synchronize"), HasSubstr("the operation 'tower/wait'")));
  EXPECT_THAT(refused([&] { issue("wait", writes(x), [&](auto) { pinned.wait(); }); }),
              StartsWith("PinnedArray::wait in 'tower/wait': "));
  EXPECT_THAT(refused([&] { issue("nest", writes(x), [&](auto) { fill_bytes(x, 0); }); }),
              HasSubstr("inside the work of the operation 'tower/nest'"));
  EXPECT_EQ(to_host(x).front(), 1.0F);
}

TYPED_TEST(CapturedStepTest, steps_do_not_nest) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  CapturedStep step(world.device, [&] { copy(x, ops::scale(x, 2.0F)); });
  auto const refused = [&](auto&& call) {
    EXPECT_THROW(CapturedStep<TypeParam>(world.device, call), std::logic_error);
  };
  refused([&] { step.replay(); });
  refused([&] { CapturedStep inner(world.device, [] {}); });
  StepWorld<TypeParam> const other;
  auto const y = other.vector(1);
  std::optional<CapturedStep<TypeParam>> inner;
  CapturedStep outer(world.device, [&] {
    copy(x, ops::scale(x, 3.0F));
    inner.emplace(other.device, [&] { copy(y, ops::scale(y, 5.0F)); });
  });
  step.replay();
  outer.replay();
  inner->replay();
  EXPECT_EQ(to_host(x).front(), 6.0F);
  EXPECT_EQ(to_host(y).front(), 5.0F);
}

TYPED_TEST(CapturedStepTest, two_steps_on_the_same_tensors_follow_each_other) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto const one = world.vector(1);
  CapturedStep doubles(world.device, [&] {
    StreamScope const scope(world.pool[1]);
    copy(x, ops::scale(x, 2.0F));
  });
  CapturedStep adds(world.device, [&] {
    StreamScope const scope(world.pool[2]);
    copy(x, ops::add(std::vector{x, one}));
  });
  float expected = 1;
  for (int i = 0; i < 100; ++i) {
    StreamScope const scope(world.pool[i % 4]);
    doubles.replay();
    adds.replay();
    StreamScope const elsewhere(world.pool[(i + 1) % 4]);
    copy(x, ops::scale(x, 0.5F));
    expected = (2 * expected + 1) / 2;
  }
  EXPECT_EQ(to_host(x).front(), expected);
}

TYPED_TEST(CapturedStepTest, one_that_goes_with_replays_in_flight_takes_nothing_along) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  std::optional<Tensor<float, TypeParam>> made;
  std::optional<CapturedStep<TypeParam>> step;
  step.emplace(world.device, [&] {
    auto const own = ops::scale(x, 10.0F);
    made = ops::add(std::vector{ops::scale(x, 2.0F), own});
  });
  step->replay();
  static_cast<void>(to_host(*made));  // has made all allocations of a first use
  auto& memory = world.device.state()->memory;
  auto const& group = world.pool[3];
  order::Position last;
  {
    Gate gate;
    // The queue of the stream group is [wait for the test's gate, replay, replay].
    gate.hold(group.compute());
    {
      StreamScope const scope(group);
      step->replay();
      last = step->replay();
    }
    step.reset();
    made.reset();
    memory.release_unneeded();
    EXPECT_FALSE(world.device.context()->tracker->is_complete(last));
    EXPECT_TRUE(memory.capture_pools().has_retired());
  }
  world.device.context()->tracker->synchronize(last);
  memory.release_unneeded();
  EXPECT_FALSE(memory.capture_pools().has_retired());
  EXPECT_EQ(to_host(x).front(), 1.0F);
}

TYPED_TEST(CapturedStepTest, others_go_on_with_the_same_tensors_while_it_is_captured) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  auto const seven = world.vector(7);
  auto const seen = world.vector(0);
  static_cast<void>(to_host(seen));
  Gate gate;
  CapturedStep step(world.device, [&] {
    fill_bytes(x, 0);
    // During the capture, another thread queues [wait for the test's gate, copy 7 to x] on group 1
    // and [wait, copy x to seen] on group 2. Its work is not captured, and ordered as without a
    // capture.
    std::thread([&] {
      gate.hold(world.pool[1].compute());
      {
        StreamScope const scope(world.pool[1]);
        copy(x, seven);
      }
      StreamScope const scope(world.pool[2]);
      copy(seen, x);
    }).join();
    fill_bytes(x, 0);
  });
  gate.open();
  EXPECT_EQ(to_host(seen).front(), 7.0F);
  EXPECT_EQ(to_host(x).front(), 7.0F);
  step.replay();
  EXPECT_EQ(to_host(x).front(), 0.0F);
}

TYPED_TEST(CapturedStepTest, it_reads_what_is_frozen_and_does_not_write_it) {
  StepWorld<TypeParam> const world;
  auto frozen = world.vector(4);
  frozen.freeze();
  auto x = world.vector(1);
  CapturedStep step(world.device, [&] { copy(x, ops::scale(frozen, 0.5F)); });
  EXPECT_THROW(CapturedStep<TypeParam>(world.device, [&] { copy(frozen, x); }), std::logic_error);
  step.replay();
  EXPECT_EQ(to_host(x).front(), 2.0F);
  x.freeze();
  EXPECT_THROW(step.replay(), std::logic_error);
}

TYPED_TEST(CapturedStepTest, a_twin_is_of_no_use_to_others) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  std::optional<StreamGroup<TypeParam>> twin;
  CapturedStep step(world.device, [&] {
    twin = world.device.current_group();
    std::thread([&] {
      StreamScope const scope(*twin);
      EXPECT_THROW(fill_bytes(x, 0), std::logic_error);
      EXPECT_THROW(static_cast<void>(ops::scale(x, 1.0F)), std::logic_error);
    }).join();
    copy(x, ops::scale(x, 2.0F));
  });
  StreamScope const scope(*twin);
  EXPECT_THROW(fill_bytes(x, 0), std::logic_error);
}

TYPED_TEST(CapturedStepTest, it_keeps_its_device) {
  std::optional<StepWorld<TypeParam>> world(std::in_place);
  auto x = std::make_optional(world->vector(1));
  std::optional<Tensor<float, TypeParam>> made;
  std::optional<CapturedStep<TypeParam>> step;
  step.emplace(world->device, [&] { made = ops::scale(*x, 2.0F); });
  x.reset();
  world.reset();
  step->replay();
  EXPECT_EQ(to_host(*made).front(), 2.0F);
  step.reset();
  made.reset();
}

TYPED_TEST(CapturedStepTest, an_empty_one_can_be_replayed) {
  StepWorld<TypeParam> const world;
  CapturedStep step(world.device, [] {});
  world.device.synchronize(step.replay());
}

TYPED_TEST(CapturedStepTest, the_host_waits_for_the_position_of_a_replay) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(3);
  PinnedArray<float, TypeParam> const result(world.device, StepWorld<TypeParam>::kCount);
  CapturedStep step(world.device, [&] { copy(result, ops::scale(x, 2.0F)); });
  world.device.synchronize(step.replay());
  EXPECT_EQ(result.const_elements().back(), 6.0F);
}

TYPED_TEST(CapturedStepTest, a_program_may_launch_its_graph) {
  StepWorld<TypeParam> const world;
  auto const x = world.vector(1);
  CapturedStep const step(world.device, [&] { copy(x, ops::scale(x, 2.0F)); });
  auto const group = world.device.default_group();
  group.synchronize();
  for (int i = 0; i < 2; ++i) {
    world.device.runtime().launch_graph(step.native(), group.compute().native());
  }
  group.synchronize();
  EXPECT_EQ(to_host(x).front(), 4.0F);
}

}  // namespace
}  // namespace msstream::testing
