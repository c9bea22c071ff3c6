// SPDX-License-Identifier: Apache-2.0
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <optional>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <Runtime R>
[[nodiscard]] Device<R> device_of(std::size_t limit_bytes, std::size_t growth_bytes = 8 * kMiB) {
  return Device<R>({.memory = {.limit_bytes = limit_bytes, .max_growth_bytes = growth_bytes}});
}

template <class R>
class BlockPool : public RuntimeTest<R> {};
TYPED_TEST_SUITE(BlockPool, Runtimes, RuntimeNames);

TYPED_TEST(BlockPool, a_stream_gets_its_own_block_back_without_a_wait) {
  auto const device = device_of<TypeParam>(64 * kMiB);
  StreamPool pool(device, {.groups = 1});
  Gate gate;
  StreamScope const scope(pool[0]);
  std::optional<Tensor<std::uint8_t, TypeParam>> first(std::in_place, device, Shape{1000});
  auto* const memory = first->data();
  // The queue of stream group 0 is [wait for the test's gate, fill `first`].
  gate.hold(pool[0].compute());
  fill_bytes(*first, 1);
  first.reset();
  // The queue of stream group 0 becomes [wait for the test's gate, fill `first`, fill `second`].
  Tensor<std::uint8_t, TypeParam> second(device, {1000});
  EXPECT_EQ(second.data(), memory);
  fill_bytes(second, 2);
  EXPECT_EQ(device.wait_counts().issued, 0U);
  gate.open();
  EXPECT_EQ(to_host(second), std::vector<std::uint8_t>(1000, 2));
}

TYPED_TEST(BlockPool, an_unordered_stream_gets_other_memory) {
  auto const device = device_of<TypeParam>(64 * kMiB);
  StreamPool pool(device, {.groups = 2});
  std::optional<Tensor<std::uint8_t, TypeParam>> first(std::in_place, device, Shape{1000});
  auto* const memory = first->data();
  Gate gate;
  gate.hold(pool[0].compute());
  {
    StreamScope const scope(pool[0]);
    fill_bytes(*first, 1);
  }
  first.reset();
  StreamScope const scope(pool[1]);
  Tensor<std::uint8_t, TypeParam> second(device, {1000});
  EXPECT_NE(second.data(), memory);
  EXPECT_EQ(device.memory_statistics().waiting_reuses, 0U);
}

/// Returns the order in which the last use of a block on one stream and the first use by the
/// block's next owner on another stream ran. There is no other memory for the next owner.
template <Runtime R>
[[nodiscard]] Order order_of_owners() {
  auto const device = device_of<R>(2 * kMiB);
  StreamPool<R> pool(device, {.groups = 2});
  Journal journal;
  std::optional<Tensor<std::uint8_t, R>> old(std::in_place, device, Shape{2 * kMiB});
  auto* const memory = old->data();
  Gate gate;
  // The queue of stream group 0 is [fill, wait for the test's gate, "old"]; that of stream group 1
  // is [wait for "old", "new"].
  {
    StreamScope const scope(pool[0]);
    fill_bytes(*old, 0);
    gate.hold(pool[0].compute());
    issue("old", reads(*old), journal.entry(device, "old"));
  }
  old.reset();
  StreamScope const scope(pool[1]);
  Tensor<std::uint8_t, R> next(device, {2 * kMiB});
  EXPECT_EQ(next.data(), memory);
  EXPECT_EQ(device.memory_statistics().waiting_reuses, 1U);
  issue("new", writes(next), journal.entry(device, "new"));
  EXPECT_EQ(device.wait_counts().issued, 1U);
  if constexpr (!keeps_waits<R>) {
    pool[1].synchronize();
  }
  gate.open();
  pool.synchronize();
  return journal.entries();
}

TYPED_TEST(BlockPool, at_the_limit_the_next_owner_waits_on_the_device) {
  EXPECT_THAT(order_of_owners<TypeParam>(), ElementsAre("old", "new"));
}
TEST(BlockPoolWithoutWaits, the_next_owner_overtakes) {
  EXPECT_THAT(order_of_owners<HostWithoutWaits>(), ElementsAre("new", "old"));
}

TYPED_TEST(BlockPool, a_stream_that_has_waited_takes_the_block_without_another_wait) {
  auto const device = device_of<TypeParam>(64 * kMiB);
  StreamPool pool(device, {.groups = 2});
  std::optional<Tensor<std::uint8_t, TypeParam>> first(std::in_place, device, Shape{1000});
  auto* const memory = first->data();
  Gate gate;
  gate.hold(pool[0].compute());
  // The queue of stream group 0 is [wait for the test's gate, fill `first`]; that of stream group 1
  // is [wait for the fill, read `first`, fill `second`].
  {
    StreamScope const scope(pool[0]);
    fill_bytes(*first, 1);
  }
  StreamScope const scope(pool[1]);
  issue("read", reads(*first), [](auto) {});
  EXPECT_EQ(device.wait_counts().issued, 1U);
  first.reset();
  Tensor<std::uint8_t, TypeParam> second(device, {1000});
  EXPECT_EQ(second.data(), memory);
  fill_bytes(second, 2);
  EXPECT_EQ(device.wait_counts().issued, 1U);
  EXPECT_EQ(device.memory_statistics().waiting_reuses, 0U);
  gate.open();
  EXPECT_EQ(to_host(second), std::vector<std::uint8_t>(1000, 2));
}

TYPED_TEST(BlockPool, a_block_whose_work_is_over_goes_to_any_stream_without_a_wait) {
  auto const device = device_of<TypeParam>(64 * kMiB);
  StreamPool pool(device, {.groups = 2});
  std::optional<Tensor<std::uint8_t, TypeParam>> first(std::in_place, device, Shape{1000});
  auto* const memory = first->data();
  {
    StreamScope const scope(pool[0]);
    fill_bytes(*first, 1);
    pool[0].synchronize();
  }
  first.reset();
  StreamScope const scope(pool[1]);
  Tensor<std::uint8_t, TypeParam> second(device, {1000});
  EXPECT_EQ(second.data(), memory);
  fill_bytes(second, 2);
  EXPECT_EQ(device.wait_counts().issued, 0U);
}

/// Returns the order in which an untracked read of a frozen tensor and the first write of the next
/// owner of its memory ran.
template <Runtime R>
[[nodiscard]] Order order_after_frozen() {
  auto const device = device_of<R>(2 * kMiB);
  StreamPool<R> pool(device, {.groups = 2});
  Journal journal;
  std::optional<Tensor<std::uint8_t, R>> weights(std::in_place, device, Shape{2 * kMiB});
  {
    StreamScope const scope(pool[0]);
    fill_bytes(*weights, 0);
  }
  weights->freeze();
  Gate gate;
  gate.hold(pool[0].compute());
  // The queue of stream group 0 is [wait for the test's gate, read]; that of stream group 1 is
  // [wait for the read, write].
  {
    StreamScope const scope(pool[0]);
    issue("read", reads(*weights), journal.entry(device, "read"));
  }
  weights.reset();
  StreamScope const scope(pool[1]);
  Tensor<std::uint8_t, R> next(device, {2 * kMiB});
  issue("write", writes(next), journal.entry(device, "write"));
  EXPECT_EQ(device.wait_counts().issued, 1U);
  if constexpr (!keeps_waits<R>) {
    pool[1].synchronize();
  }
  gate.open();
  pool.synchronize();
  return journal.entries();
}

TYPED_TEST(BlockPool, the_memory_of_a_frozen_tensor_is_reused_after_its_untracked_reads) {
  EXPECT_THAT(order_after_frozen<TypeParam>(), ElementsAre("read", "write"));
}
TEST(BlockPoolWithoutWaits, the_next_owner_of_frozen_memory_overtakes) {
  EXPECT_THAT(order_after_frozen<HostWithoutWaits>(), ElementsAre("write", "read"));
}

TYPED_TEST(BlockPool, out_of_memory_says_who_holds_what_and_leaves_all_usable) {
  auto const device = device_of<TypeParam>(4 * kMiB);
  std::optional<Tensor<std::uint8_t, TypeParam>> large(std::in_place, device, Shape{3 * kMiB});
  fill_bytes(*large, 7);
  try {
    Tensor<std::uint8_t, TypeParam> const second(device, {2 * kMiB});
    FAIL() << "5 MiB allocated under a limit of 4 MiB";
  } catch (OutOfMemory const& error) {
    EXPECT_EQ(error.requested_bytes(), 2U * kMiB);
    EXPECT_THAT(error.what(), HasSubstr("device memory: 2097152 bytes asked"));
    EXPECT_THAT(error.what(), HasSubstr("3145728 in use"));
    EXPECT_THAT(error.what(), HasSubstr("limit of 4194304"));
  }
  EXPECT_EQ(to_host(*large), std::vector<std::uint8_t>(3 * kMiB, 7));
  EXPECT_NO_THROW((Tensor<std::uint8_t, TypeParam>(device, {1000})));
}

TYPED_TEST(BlockPool, sizes_beyond_all_memory_are_out_of_memory) {
  Device<TypeParam> const device;
  for (int const power : {47, 48, 55, 62}) {
    Shape const shape{std::int64_t{1} << power};
    EXPECT_THROW((Tensor<std::uint8_t, TypeParam>(device, shape)), OutOfMemory) << power;
    EXPECT_THROW((PinnedArray<std::uint8_t, TypeParam>(device, std::size_t{1} << power)),
                 OutOfMemory)
        << power;
  }
}

TYPED_TEST(BlockPool, a_byte_count_beyond_64_bits_is_out_of_memory) {
  Device<TypeParam> const device;
  // 2^61 elements of 8 bytes are 2^64 bytes, which would wrap to 0.
  EXPECT_THROW((Tensor<std::int64_t, TypeParam>(device, {std::int64_t{1} << 61})), OutOfMemory);
  EXPECT_THROW((PinnedArray<std::int64_t, TypeParam>(device, std::size_t{1} << 61U)), OutOfMemory);
}

TYPED_TEST(BlockPool, cached_memory_of_other_sizes_makes_room) {
  auto const device = device_of<TypeParam>(4 * kMiB);
  for (int i = 0; i < 2; ++i) {
    Tensor<std::uint8_t, TypeParam> const half(device, {2 * kMiB});
    fill_bytes(half, 1);
  }
  device.default_group().synchronize();
  Tensor<std::uint8_t, TypeParam> const whole(device, {4 * kMiB});
  auto const statistics = device.memory_statistics();
  EXPECT_EQ(statistics.reserved_bytes, 4U * kMiB);
  EXPECT_EQ(statistics.live_bytes, 4U * kMiB);
}

TYPED_TEST(BlockPool, cached_memory_in_flight_is_not_waited_for_on_the_host) {
  auto const device = device_of<TypeParam>(4 * kMiB);
  StreamPool pool(device, {.groups = 1});
  StreamScope const scope(pool[0]);
  std::optional<Tensor<std::uint8_t, TypeParam>> in_flight(std::in_place, device, Shape{2 * kMiB});
  Gate gate;
  gate.hold(pool[0].compute());
  fill_bytes(*in_flight, 1);
  in_flight.reset();
  // The allocation must fail at once. If the host waited for the gate, the wait would never end.
  EXPECT_THROW((Tensor<std::uint8_t, TypeParam>(device, {4 * kMiB})), OutOfMemory);
  gate.open();
  pool.synchronize();
  EXPECT_NO_THROW((Tensor<std::uint8_t, TypeParam>(device, {4 * kMiB})));
}

TYPED_TEST(BlockPool, what_is_left_of_a_piece_is_not_lost) {
  auto const device = device_of<TypeParam>(4 * kMiB, 64 << 10);
  Tensor<std::uint8_t, TypeParam> const first(device, {40 << 10});
  Tensor<std::uint8_t, TypeParam> const second(device, {40 << 10});
  Tensor<std::uint8_t, TypeParam> const rest_of_first(device, {24 << 10});
  Tensor<std::uint8_t, TypeParam> const rest_of_second(device, {24 << 10});
  EXPECT_EQ(device.memory_statistics().growths, 2U);
  EXPECT_EQ(device.memory_statistics().reserved_bytes, 128U << 10U);
}

TYPED_TEST(BlockPool, empty_tensors_are_tensors) {
  Device<TypeParam> const device;
  Tensor<float, TypeParam> const first(device, {0});
  Tensor<float, TypeParam> const second(device, {0, 5});
  EXPECT_NE(first.data(), nullptr);
  EXPECT_NE(first.identity(), second.identity());
  fill_bytes(first, 1);
  copy(second, first);
  EXPECT_TRUE(to_host(second).empty());
}

TYPED_TEST(BlockPool, statistics_count_what_was_done) {
  auto const device = device_of<TypeParam>(64 * kMiB);
  {
    Tensor<std::uint8_t, TypeParam> const large(device, {2 * kMiB});
    Tensor<std::uint8_t, TypeParam> const small(device, {1000});
    auto const now = device.memory_statistics();
    EXPECT_EQ(now.live_bytes, 2U * kMiB + 1024U);
    EXPECT_EQ(now.reserved_bytes, 8U * kMiB);  // one growth step, which holds both tensors
    EXPECT_EQ(now.growths, 1U);
    EXPECT_EQ(now.allocations, 2U);
    EXPECT_EQ(now.limit_bytes, 64U * kMiB);
  }
  auto const after = device.memory_statistics();
  EXPECT_EQ(after.live_bytes, 0U);
  EXPECT_EQ(after.peak_live_bytes, 2U * kMiB + 1024U);
  EXPECT_EQ(after.reserved_bytes, 8U * kMiB);
}

}  // namespace
}  // namespace msstream::testing
