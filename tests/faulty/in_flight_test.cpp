// SPDX-License-Identifier: Apache-2.0
// What goes while work is in flight waits for that work, also when a wait fails.
#include "memory/runtimes.hpp"
#include "runtime/gate.hpp"

#include <msstream/memory/foreign_block.hpp>
#include <msstream/runtime/faulty.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/tensor/tensor.hpp>
#include <msstream/tensor/tensor_holder.hpp>

#include <gmock/gmock.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;

struct OpeningHostOptions {
  Gate* gate = nullptr;        ///< opens when the host starts to wait
  Journal* journal = nullptr;  ///< gets "free" when something that work may use goes
};

/// The host runtime for tests of who must wait: what should wait, but does not, comes before all
/// that the gate holds.
class OpeningHost : public RuntimeDecorator<Host> {
 public:
  using Options = OpeningHostOptions;
  static constexpr std::string_view name = "opening host";

  explicit OpeningHost(Options options) : RuntimeDecorator({}), options_(options) {}

  void synchronize(native_event event) {
    options_.gate->open();
    inner_.synchronize(event);
  }
  void synchronize_stream(native_stream stream) {
    options_.gate->open();
    inner_.synchronize_stream(stream);
  }
  void free_device(void* memory, std::size_t bytes) noexcept {
    freed();
    inner_.free_device(memory, bytes);
  }
  native_libraries create_libraries(std::size_t) { return this; }
  void destroy_libraries(native_libraries) noexcept { freed(); }

 private:
  void freed() noexcept {
    options_.journal->add("free");
    options_.gate->open();  // too late: a test that fails should not hang as well
  }

  Options options_;
};

using R = Faulty<OpeningHost>;

/// A device whose work is held until the host waits for it.
struct Held {
  Held() {
    DeviceOptions<R> options;
    options.runtime.plan = plan;
    options.runtime.runtime = {&gate, &journal};
    device.emplace(options);
  }
  void hold(Stream<R>& stream) {
    gate.hold(stream);
    device->context()->runtime->call_host(stream.native(), [this] { journal.add("work"); });
  }

  Gate gate;
  Journal journal;
  std::shared_ptr<FaultPlan> plan = std::make_shared<FaultPlan>();
  std::optional<Device<R>> device;
};

/// Calls test(held, fail) for each way in which one of the next calls that a wait takes may fail.
template <class Test>
void for_each_failed_wait(Test&& test) {
  for (auto const call :
       {RuntimeCall::create_event, RuntimeCall::record, RuntimeCall::synchronize}) {
    for (auto const fault : {Fault::launch_failure, Fault::sticky}) {
      SCOPED_TRACE(text(name_of(call), " fails, ", name_of(fault)));
      Held held;
      test(held, [&] { held.plan->fail(call, 1, fault); });
      EXPECT_TRUE(held.plan->failed().has_value());
    }
  }
}

TEST(InFlight, AGroupKeepsItsWorkspaceUntilItsWorkIsOver) {
  for_each_failed_wait([](Held& held, auto fail) {
    {
      StreamPool<R> pool(*held.device, {.groups = 1});
      held.hold(pool[0].compute());
      fail();
    }
    EXPECT_THAT(held.journal.entries(), ElementsAre("work", "free"));
  });
}

TEST(InFlight, ADeviceKeepsItsMemoryUntilTheWorkOnItIsOver) {
  for_each_failed_wait([](Held& held, auto fail) {
    std::optional<StreamPool<R>> pool(std::in_place, *held.device, StreamPoolOptions{.groups = 1});
    std::optional<StreamScope<R>> scope(std::in_place, (*pool)[0]);
    std::optional<Tensor<float, R>> x(std::in_place, *held.device, Shape{1});
    scope.reset();
    pool.reset();
    {
      Stream<R> stream(held.device->context());
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

TEST(InFlight, AForeignOwnerKeepsItsMemoryUntilTheWorkOnItIsOver) {
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
    Stream<R> stream(held.device->context());
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
