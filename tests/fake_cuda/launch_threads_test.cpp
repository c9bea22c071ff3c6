// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda_fixture.hpp"

#include <msstream/memory/device.hpp>

namespace fake_cuda {
namespace {

/// Tests that launch threads make the same number of CUDA calls as the issuing thread would. Each
/// launch thread sets its current device once, with its first work. The tests permit these calls,
/// but do not require them, because the number of threads that have made them by the end of the
/// warm-up varies.
class LaunchThreadsBudget : public FakeCudaTest,
                            public ::testing::WithParamInterface<ms::LaunchThreads> {
 protected:
  static constexpr int kGroups = 2;
  static constexpr int kThreads = 2;

  [[nodiscard]] ms::StreamPoolOptions options() const {
    return {.groups = kGroups,
            .launch_threads = GetParam(),
            .launch_thread_count = GetParam() == ms::LaunchThreads::shared ? kThreads : 0};
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds,
                         LaunchThreadsBudget,
                         ::testing::Values(ms::LaunchThreads::shared, ms::LaunchThreads::per_group),
                         [](auto const& kind) {
                           return kind.param == ms::LaunchThreads::shared ? "shared" : "per_group";
                         });

TEST_P(LaunchThreadsBudget, one_stream_is_launches_alone) {
  Device const device;
  Pool const pool(device, options());
  Floats const tensor(device, {64});
  auto const step = [&] { await_launch(device, write(pool[0], tensor)); };
  step();
  EXPECT_TRUE(within(calls_of([&] { repeat(100, step); }),
                     Budget().launches(100).at_most("cudaSetDevice", kThreads)));
}

TEST_P(LaunchThreadsBudget, ping_pong_is_one_event_and_one_wait_a_turn) {
  Device const device;
  Pool const pool(device, options());
  Floats const ball(device, {64});
  auto const turns = [&](int count) {
    ms::order::Position last{};
    repeat(count, [&] {
      write(pool[0], ball);
      last = write(pool[1], ball);
    });
    await_launch(device, last);
  };
  turns(kWarmUp);
  EXPECT_TRUE(within(calls_of([&] { turns(100); }),
                     Budget().launches(200).dependencies(200).at_most("cudaSetDevice", kThreads)));
}

}  // namespace
}  // namespace fake_cuda
