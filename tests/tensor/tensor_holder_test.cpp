// SPDX-License-Identifier: Apache-2.0
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor_holder.hpp>

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

template <class R>
class Holder : public RuntimeTest<R> {};
TYPED_TEST_SUITE(Holder, Runtimes, RuntimeNames);

/// Enqueues work directly on the stream, as foreign code does, without issue().
template <Runtime R>
void put_raw(Stream<R> const& stream, Journal const& journal, std::string what) {
  detail::runtime_of<R>(stream.body().backend())
      .call_host(stream.native(), journal.entry(std::move(what)));
}

/// Returns the order in which work enqueued directly on a held stream and an operation issued later
/// ran.
template <Runtime R>
[[nodiscard]] Order order_after_raw(bool with_holder) {
  Device<R> const device;
  Stream<R> stream(device);
  Tensor<float, R> const tensor(device, {16});
  Journal journal;
  Gate gate;
  // The queue of `stream` is [wait for the test's gate, "raw"]; that of the default group is
  // ["issued"].
  {
    std::optional<TensorHolder<R>> holder;
    if (with_holder) {
      holder.emplace(stream);
      holder->hold(tensor);
    }
    gate.hold(stream);
    put_raw(stream, journal, "raw");
  }
  issue("issued", writes(tensor), journal.entry(device, "issued"));
  if (!with_holder || !keeps_waits<R>) {
    device.default_group().synchronize();
  }
  gate.open();
  stream.synchronize();
  device.default_group().synchronize();
  return journal.entries();
}

TYPED_TEST(Holder, later_operations_follow_the_work_that_it_covered) {
  EXPECT_THAT(order_after_raw<TypeParam>(true), ElementsAre("raw", "issued"));
}
TEST(HolderTwin, without_a_holder_they_overtake) {
  EXPECT_THAT(order_after_raw<Host>(false), ElementsAre("issued", "raw"));
}
TEST(HolderTwin, without_waits_they_overtake) {
  EXPECT_THAT(order_after_raw<HostWithoutWaits>(true), ElementsAre("issued", "raw"));
}

/// Returns the order in which an operation on a held group and work enqueued directly on a stream
/// after TensorHolder::hold() ran.
template <Runtime R>
[[nodiscard]] Order order_before_raw(bool with_holder) {
  Device<R> const device;
  StreamPool<R> pool(device, {.groups = 1});
  Stream<R> stream(device);
  Tensor<float, R> const tensor(device, {16});
  Journal journal;
  Gate gate;
  // The queue of stream group 0 is [fill, wait for the test's gate, "issued"]; that of `stream` is
  // ["raw"].
  StreamScope const scope(pool[0]);
  fill_bytes(tensor, 0);
  gate.hold(pool[0].compute());
  issue("issued", reads(tensor), journal.entry(device, "issued"));
  std::optional<TensorHolder<R>> holder;
  if (with_holder) {
    holder.emplace(stream);
    holder->hold(tensor);
  }
  put_raw(stream, journal, "raw");
  if (!with_holder || !keeps_waits<R>) {
    stream.synchronize();
  }
  gate.open();
  pool.synchronize();
  stream.synchronize();
  return journal.entries();
}

TYPED_TEST(Holder, raw_work_follows_the_earlier_operations) {
  EXPECT_THAT(order_before_raw<TypeParam>(true), ElementsAre("issued", "raw"));
}
TEST(HolderTwin, without_a_holder_raw_work_overtakes) {
  EXPECT_THAT(order_before_raw<Host>(false), ElementsAre("raw", "issued"));
}
TEST(HolderTwin, without_waits_raw_work_overtakes) {
  EXPECT_THAT(order_before_raw<HostWithoutWaits>(true), ElementsAre("raw", "issued"));
}

TYPED_TEST(Holder, covers_several_streams_and_goes_on_another_thread) {
  Device<TypeParam> const device;
  Stream<TypeParam> left(device);
  Stream<TypeParam> right(device);
  Tensor<float, TypeParam> const tensor(device, {16});
  Journal journal;
  Gate gate;
  // The queue of `left` is [wait for the test's gate, "left"]; that of `right` is [wait for the
  // test's gate, "right"]; that of the default group is [wait for both, "issued"].
  auto holder = std::make_unique<TensorHolder<TypeParam>>(left, right);
  holder->hold(tensor);
  gate.hold(left);
  gate.hold(right);
  put_raw(left, journal, "left");
  put_raw(right, journal, "right");
  std::thread([&] { holder.reset(); }).join();
  issue("issued", reads(tensor), journal.entry(device, "issued"));
  EXPECT_EQ(device.wait_counts().issued, 2U);
  gate.open();
  device.default_group().synchronize();
  auto const order = journal.entries();
  EXPECT_THAT(order, UnorderedElementsAre("left", "right", "issued"));
  EXPECT_EQ(order.back(), "issued");
}

TYPED_TEST(Holder, keeps_the_memory_and_orders_its_next_owner) {
  DeviceOptions<TypeParam> options;
  options.memory.limit_bytes = std::size_t{2} << 20U;
  Device<TypeParam> const device(options);
  Stream<TypeParam> stream(device);
  std::optional<Tensor<std::uint8_t, TypeParam>> tensor(std::in_place, device, Shape{2 << 20});
  Gate gate;
  TensorHolder holder(stream);
  holder.hold(*tensor);
  tensor.reset();
  EXPECT_THROW((Tensor<std::uint8_t, TypeParam>(device, {2 << 20})), OutOfMemory);
  gate.hold(stream);
  holder.release();
  // The queue of `stream` is [wait for the test's gate]; that of the default group is [wait for
  // `stream`, write].
  Tensor<std::uint8_t, TypeParam> const next(device, {2 << 20});
  issue("write", writes(next), [](auto) {});
  EXPECT_EQ(device.wait_counts().issued, 1U);
}

TYPED_TEST(Holder, release_is_once) {
  Device<TypeParam> const device;
  Stream<TypeParam> stream(device);
  Tensor<float, TypeParam> const tensor(device, {16});
  {
    TensorHolder holder(stream);
    holder.hold(tensor);
    holder.release();
    issue("write", writes(tensor), [](auto) {});
  }
  issue("read", reads(tensor), [](auto) {});
  EXPECT_EQ(device.wait_counts().needed, 1U) << "of the write; the read follows it on its stream";
}

}  // namespace
}  // namespace msstream::testing
