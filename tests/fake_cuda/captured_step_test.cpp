// SPDX-License-Identifier: Apache-2.0
// Tests of the CUDA calls of a captured step: a replay is one launch, regardless of the number of
// operations in the step.
#include "budget.hpp"
#include "fake_cuda_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/step/captured_step.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace fake_cuda {
namespace {

TEST(CapturedStepBudget, a_replay_is_one_launch) {
  constexpr int kReplays = 100;
  auto const before = live();
  {
    Device const device;
    Pool const pool(device, {.groups = 4});
    Floats const x(device, {1000});
    ms::fill_bytes(x, 0);
    std::optional<ms::CapturedStep<ms::Cuda>> step;
    step.emplace(device, [&] {
      for (int i = 0; i < 8; ++i) {
        Scope const scope(pool[i % 4]);
        Floats const made(device, {1000});
        ms::copy(made, x);
        ms::copy(x, made);
      }
    });
    EXPECT_EQ(live().graphs, before.graphs + 1);
    repeat(kWarmUp, [&] { step->replay(); });
    auto const counted = calls_of([&] { repeat(kReplays, [&] { step->replay(); }); });
    EXPECT_TRUE(within(counted, Budget().exactly("cudaGraphLaunch", kReplays)));
  }
  EXPECT_EQ(live().graphs, before.graphs);
  EXPECT_EQ(live().streams, before.streams);
  EXPECT_TRUE(take_misuses().empty());
}

TEST(CapturedStepOrder, a_step_of_which_the_upload_fails_leaves_nothing) {
  Device const device;
  Floats const x(device, {1000});
  ms::fill_bytes(x, 0);
  auto const make = [&] {
    ms::CapturedStep<ms::Cuda> step(device, [&] { ms::fill_bytes(x, 1); });
    step.replay();
    device.default_group().synchronize();
  };
  auto const fail_and_make = [&] {
    for (auto const* const call : {"cudaGraphInstantiate", "cudaGraphUpload"}) {
      FailingCall const failing(call, 1);
      EXPECT_THROW(make(), ms::CudaError);
    }
    make();
  };
  repeat(kWarmUp, fail_and_make);  // streams keep their created events for reuse
  auto const before = live();
  repeat(kWarmUp, fail_and_make);
  EXPECT_EQ(live(), before);
  EXPECT_THAT(take_misuses(), ::testing::IsEmpty());
}

/// A replay that only the order of a stream puts behind the upload of its graph may never end.
TEST(CapturedStepOrder, a_graph_is_uploaded_before_its_first_replay_is_issued) {
  Device const device;
  Floats const x(device, {1000});
  ms::fill_bytes(x, 0);
  for (bool const device_is_busy : {true, false}) {
    std::optional<BusyDevice> busy;
    if (device_is_busy) {
      busy.emplace();
    }
    ms::CapturedStep<ms::Cuda> step(device, [&] {
      Floats const made(device, {1000});
      ms::copy(made, x);
      ms::copy(x, made);
    });
    step.replay();
    step.replay();
    device.default_group().synchronize();
    EXPECT_THAT(take_misuses(), ::testing::IsEmpty());
  }
}

}  // namespace
}  // namespace fake_cuda
