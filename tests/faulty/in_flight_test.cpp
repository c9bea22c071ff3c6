// SPDX-License-Identifier: Apache-2.0
// Tests that the destruction of objects waits for the work in flight that uses them, even if a wait
// fails.
#include "memory/device/foreign_block.hpp"
#include "memory/watched_runtime.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/runtime/faulty.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/tensor.hpp>
#include <msstream/tensor/tensor_holder.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <memory>
#include <optional>
#include <utility>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;

using R = Faulty<Watched<Host>>;

/// A device whose work does not run before the host waits for it. An action that should wait for
/// the work, but does not, is therefore recorded in the journal before the work.
struct Held {
  Held() {
    auto const watch = std::make_shared<Watch>();
    watch_waits(*watch, gate, journal);
    watch->gives_back_libraries = watch->gives_back;
    DeviceOptions<R> options;
    options.runtime.plan = plan;
    options.runtime.runtime.watch = watch;
    device.emplace(options);
  }
  Held(Held const&) = delete;
  Held& operator=(Held const&) = delete;

  void hold(Stream<R> const& stream) {
    gate.hold(stream);
    device->runtime().call_host(stream.native(), journal.entry("work"));
  }

  Gate gate;
  Journal journal;
  std::shared_ptr<FaultPlan> plan = std::make_shared<FaultPlan>();
  std::optional<Device<R>> device;
};

/// Calls test(held, fail) for each runtime call that a wait makes, combined with each fault with
/// which that call may fail.
template <class Test>
void for_each_failed_wait(Test&& test) {
  for (auto const call :
       {RuntimeCall::create_event, RuntimeCall::record, RuntimeCall::synchronize}) {
    for (auto const fault : {Fault::launch_failure, Fault::sticky}) {
      SCOPED_TRACE(fmt::format("{} fails, {}", name_of(call), name_of(fault)));
      Held held;
      test(held, [&] { held.plan->fail(call, 1, fault); });
      EXPECT_TRUE(held.plan->failed().has_value());
    }
  }
}

TEST(InFlight, a_group_keeps_its_workspace_until_its_work_is_over) {
  for_each_failed_wait([](Held& held, auto fail) {
    {
      StreamPool<R> pool(*held.device, {.groups = 1});
      held.hold(pool[0].compute());
      fail();
    }
    EXPECT_THAT(held.journal.entries(), ElementsAre("work", "free"));
  });
}

TEST(InFlight, a_device_keeps_its_memory_until_the_work_on_it_is_over) {
  for_each_failed_wait([](Held& held, auto fail) {
    std::optional<StreamPool<R>> pool(std::in_place, *held.device, StreamPoolOptions{.groups = 1});
    std::optional<StreamScope<R>> scope(std::in_place, (*pool)[0]);
    std::optional<Tensor<float, R>> x(std::in_place, *held.device, Shape{1});
    scope.reset();
    pool.reset();
    {
      Stream<R> const stream(*held.device);
      TensorHolder holder(stream);
      holder.hold(*x);
      held.hold(stream);
      fail();
    }
    x.reset();
    held.device.reset();
    EXPECT_THAT(held.journal.entries(), ElementsAre("free", "work", "free"))
        << "the group's workspace, the work, the memory";
  });
}

TEST(InFlight, a_foreign_owner_keeps_its_memory_until_the_work_on_it_is_over) {
  for_each_failed_wait([](Held& held, auto fail) {
    auto const tell = [&](float* memory) {
      held.journal.add("free");
      held.gate.open();
      delete memory;
    };
    std::unique_ptr<float, decltype(tell)> owner(new float, tell);
    auto* const memory = owner.get();
    std::optional<Tensor<float, R>> x(
        Tensor<float, R>(memory::adopt(held.device->state(), memory, 4, std::move(owner)), {1}));
    Stream<R> const stream(*held.device);
    {
      TensorHolder holder(stream);
      holder.hold(*x);
      held.hold(stream);
    }
    fail();
    x.reset();
    EXPECT_THAT(held.journal.entries(), ElementsAre("work", "free"));
  });
}

}  // namespace
}  // namespace msstream::testing
