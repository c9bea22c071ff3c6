// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>
#include <msstream/tensor/publish.hpp>
#include <msstream/tensor/tensor_holder.hpp>

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>

namespace msstream::testing {
namespace {

using ::testing::Each;

template <class R>
class Failure : public RuntimeTest<R> {};
TYPED_TEST_SUITE(Failure, Runtimes, RuntimeNames);

TEST(FailureOnHost, work_that_failed_on_one_group_fails_those_who_wait_for_it_on_another) {
  Device<Host> const device;
  StreamPool<Host> pool(device, {.groups = 2});
  Tensor<float, Host> const x(device, {4});
  {
    StreamScope const scope(pool[1]);
    issue("fails", writes(x), [](HostStream stream) {
      stream.run([] { throw std::runtime_error("out of luck"); });
    });
  }
  EXPECT_THROW(static_cast<void>(to_host(x)), std::runtime_error);
}

TYPED_TEST(Failure, of_a_launch_thread_reaches_whoever_reads_the_result_and_is_then_over) {
  for (auto const threads : {LaunchThreads::shared, LaunchThreads::per_group}) {
    Device<TypeParam> const device;
    StreamPool<TypeParam> pool(device, {.groups = 2, .launch_threads = threads});
    Tensor<float, TypeParam> const x(device, {4});
    {
      StreamScope const scope(pool[1]);
      issue("fails", writes(x), [](auto) { throw std::runtime_error("out of luck"); });
    }
    EXPECT_THROW(static_cast<void>(to_host(x)), std::runtime_error);
    fill_bytes(x, 0);
    EXPECT_THAT(to_host(x), Each(0.0F));
  }
}

/// A callable that throws when it is copied or moved, as a closure whose captures throw does.
struct WorkThatCannotBeStored {
  WorkThatCannotBeStored() = default;
  WorkThatCannotBeStored(WorkThatCannotBeStored const&) {
    throw std::runtime_error("cannot be stored");
  }
  template <class Stream>
  void operator()(Stream const&) const {}
};

TYPED_TEST(Failure, to_store_the_work_for_a_launch_thread_leaves_the_group_usable) {
  Device<TypeParam> const device;
  StreamPool<TypeParam> pool(device, {.groups = 1, .launch_threads = LaunchThreads::per_group});
  StreamScope const scope(pool[0]);
  Tensor<float, TypeParam> const x(device, {4});
  WorkThatCannotBeStored const work;
  EXPECT_THROW(issue("stores", writes(x), work), std::runtime_error);
  fill_bytes(x, 0);
  EXPECT_THAT(to_host(x), Each(0.0F));  // hangs if a number was reserved and never launched
}

TYPED_TEST(Failure, tensors_of_devices_without_a_common_tracker_are_refused) {
  Device<TypeParam> const one;
  Device<TypeParam> const other;
  auto const x = zeros<float>(one, {4});
  auto const y = zeros<float>(other, {4});
  EXPECT_THROW(copy(x, y), std::invalid_argument);
  Stream<TypeParam> stream(one);
  TensorHolder holder(stream);
  EXPECT_THROW(holder.hold(y), std::invalid_argument);
  EXPECT_THAT(to_host(x), Each(0.0F));
  EXPECT_THAT(to_host(y), Each(0.0F));
}

TYPED_TEST(Failure, work_that_waits_for_itself_is_refused) {
  Device<TypeParam> const device;
  Tensor<float, TypeParam> const x(device, {4});
  EXPECT_THROW(issue("waits", writes(x), [&](auto) { publish(x); }), std::logic_error);
  fill_bytes(x, 0);
  EXPECT_THAT(to_host(x), Each(0.0F));
}

/// An attachment of a device that signals when the device is destroyed.
struct GoneSignal {
  explicit GoneSignal(detail::DeviceState&) {}
  ~GoneSignal() {
    gone.store(true);
    gone.notify_all();
  }
  static inline std::atomic<bool> gone{false};
};

TEST(FailureOnHost, work_may_be_the_last_owner_of_its_device) {
  Gate gate;
  {
    Device<Host> const device;
    static_cast<void>(device.state()->attachment<GoneSignal>());
    Tensor<float, Host> const x(device, {4});
    gate.hold(device.default_group().compute());
    issue("holds", writes(x), [x](HostStream stream) { stream.run([x] {}); });
  }
  // The work behind the gate still holds the last reference to the device.
  EXPECT_FALSE(GoneSignal::gone.load());
  gate.open();
  GoneSignal::gone.wait(false);  // hangs if the worker waits for itself
}

}  // namespace
}  // namespace msstream::testing
