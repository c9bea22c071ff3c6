// SPDX-License-Identifier: Apache-2.0
#include "memory/watched_runtime.hpp"
#include "runtime/gate.hpp"
#include "stream/stream_context.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <memory>
#include <optional>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;

template <class R>
class Lifetime : public RuntimeTest<R> {};
TYPED_TEST_SUITE(Lifetime, Runtimes, RuntimeNames);

TYPED_TEST(Lifetime, a_tensor_keeps_its_device) {
  std::optional<Device<TypeParam>> device(std::in_place);
  Tensor<float, TypeParam> const kept(*device, {4});
  device.reset();
  fill_bytes(kept, 0);
  EXPECT_EQ(to_host(kept), std::vector<float>(4, 0.0F));
}

TYPED_TEST(Lifetime, a_tensor_outlives_the_group_that_writes_it) {
  Device<TypeParam> const device;
  std::optional<Tensor<std::uint8_t, TypeParam>> kept;
  {
    StreamPool pool(device, {.groups = 3});
    StreamScope const scope(pool[2]);
    kept.emplace(device, Shape{1 << 20});
    fill_bytes(*kept, 5);
  }
  EXPECT_EQ(to_host(*kept), std::vector<std::uint8_t>(1 << 20, 5));
}

TYPED_TEST(Lifetime, memory_whose_streams_are_gone_is_reused) {
  Device<TypeParam> const device(
      {.memory = {.limit_bytes = 2 * kMiB, .max_growth_bytes = 2 * kMiB}});
  for (std::uint8_t round = 1; round < 20; ++round) {
    StreamPool pool(device, {.groups = 2});
    StreamScope const scope(pool[round % 2]);
    Tensor<std::uint8_t, TypeParam> const tensor(device, {2 * kMiB});
    fill_bytes(tensor, round);
    EXPECT_EQ(to_host(tensor), std::vector<std::uint8_t>(2 * kMiB, round));
  }
  EXPECT_EQ(device.memory_statistics().growths, 1U);
}

// Runs on the host only. On CUDA the test would hang: destroying a group frees its workspace, which
// waits for all streams, also for the one that the gate holds.
TEST(LifetimeOnHost, work_of_a_stream_that_is_gone_is_waited_for) {
  Device<Host> const device;
  PinnedArray<std::int32_t, Host> const source(device, 3);
  std::fill_n(source.data(), 3, 42);
  Tensor<std::int32_t, Host> const target(device, {3});
  Gate gate;
  {
    StreamPool pool(device, {.groups = 1});
    gate.hold(pool[0].h2d());
    StreamScope const scope(pool[0]);
    copy(target, source);
  }
  // The queue of the destroyed group's h2d stream is [wait for the test's gate, copy]; that of the
  // default group is [wait for the copy, copy back to the host].
  PinnedArray<std::int32_t, Host> const result(device, 3);
  copy(result, target);
  EXPECT_EQ(device.wait_counts().issued, 1U);
  gate.open();
  result.wait();
  EXPECT_THAT(std::vector(result.data(), result.data() + 3), ElementsAre(42, 42, 42));
}

TEST(LifetimeOnHost, all_memory_goes_back_to_the_runtime) {
  std::optional<Device<Host>> device(std::in_place, DeviceOptions<Host>{.runtime = {1U << 30U}});
  auto const runtime = device->context()->runtime;
  {
    StreamPool pool(*device, {.groups = 4});
    for (int i = 0; i < 100; ++i) {
      StreamScope const scope(pool[i % 4]);
      fill_bytes(Tensor<std::uint8_t, Host>(*device, {i * 30'000}), 1);
    }
    EXPECT_LT(runtime->memory_info().free_bytes, 1U << 30U);
  }
  device.reset();
  EXPECT_EQ(runtime->memory_info().free_bytes, 1U << 30U);
}

TEST(LifetimeOnHost, a_device_that_goes_waits_for_the_last_uses_of_its_memory) {
  Journal journal;
  Gate gate;
  std::optional device(watched_device<Host>({}));
  watch_waits(watch_of(*device), gate, journal);
  StreamPool pool(*device, {.groups = 1});
  // The queue of stream group 0 is [wait for the test's gate, write].
  gate.hold(pool[0].compute());
  {
    StreamScope const scope(pool[0]);
    Tensor<float, Watched<Host>> const tensor(*device, {16});
    issue("write", writes(tensor), journal.entry(*device, "write"));
  }
  device.reset();
  EXPECT_THAT(journal.entries(), ElementsAre("write", "free"));
}

}  // namespace
}  // namespace msstream::testing
