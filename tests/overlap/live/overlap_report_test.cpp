// SPDX-License-Identifier: Apache-2.0
// Tests reports of steps that run, eager, captured and launched by threads.
#include "memory/runtimes.hpp"

#include <msstream/ops/elementwise.hpp>
#include <msstream/overlap/report.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/record_step.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/copy.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <class R>
class LiveOverlapReport : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto const reason = why_unavailable<R>(); !reason.empty()) {
      GTEST_SKIP() << R::name << ": " << reason;
    }
  }
  static void expect_sum(OverlapReport const& report) {
    std::int64_t sum = 0;
    for (auto const& time : report.times()) {
      sum += time.ns;
    }
    EXPECT_EQ(sum, report.window_ns());
    EXPECT_GT(sum, 0);
  }
};
TYPED_TEST_SUITE(LiveOverlapReport, Runtimes, RuntimeNames);

TYPED_TEST(LiveOverlapReport, accounts_for_steps_with_launch_threads_and_without) {
  for (auto const threads : {LaunchThreads::none, LaunchThreads::shared}) {
    Device<TypeParam> device;
    StreamPool pool(device, {.groups = 2, .launch_threads = threads, .log = nullptr});
    auto const x = to_device(device, std::vector<float>(100'000, 1.0F), {100'000});
    std::vector<float> sum;
    auto const report = overlap_report(device, [&] {
      auto const left = ops::scale(x, 2.0F);
      StreamScope const scope(pool[1]);
      auto const right = ops::scale(x, 3.0F);
      sum = to_host(ops::add(std::vector{left, right}));
    });
    EXPECT_EQ(sum.front(), 5.0F);
    this->expect_sum(report);
    EXPECT_THAT(report.text(), HasSubstr("Recorded in the program, 3 steps"));
    // CUPTI has names of its own.
    EXPECT_THAT(report.json(), AnyOf(HasSubstr("copy_d2h"), HasSubstr("Memcpy DtoH")));
    EXPECT_THAT(report.text(), Not(HasSubstr("replays")));
  }
}

TYPED_TEST(LiveOverlapReport, says_what_of_a_replay_is_not_recorded) {
  Device<TypeParam> device;
  auto const x = to_device(device, std::vector<float>(1'000, 1.0F), {1'000});
  auto const y = to_device(device, std::vector<float>(1'000, 0.0F), {1'000});
  auto const train = [&] { copy(y, ops::scale(x, 2.0F)); };
  train();
  CapturedStep step(device, train);
  auto const report = overlap_report(device, [&] { step.replay(); }, {.warm_up = 1, .steps = 4});
  this->expect_sum(report);
  EXPECT_THAT(report.text(),
              AnyOf(HasSubstr("4 of 4 operations are replays"), HasSubstr("are nodes of graphs")));
}

TYPED_TEST(LiveOverlapReport, leaves_nothing_behind_if_a_step_throws) {
  Device<TypeParam> device;
  auto const x = to_device(device, std::vector<float>(1'000, 1.0F), {1'000});
  int calls = 0;
  auto const step = [&] {
    auto const y = ops::scale(x, 2.0F);
    if (++calls == 2) {
      throw std::runtime_error("no such row");
    }
    (void)to_host(y);
  };
  auto const before = device.memory_statistics().live_bytes;
  EXPECT_THROW((void)overlap_report(device, step, {.warm_up = 1}), std::runtime_error);
  EXPECT_EQ(device.memory_statistics().live_bytes, before);
  EXPECT_NO_THROW((void)record_step(device, step)) << "the recording has ended";
  this->expect_sum(overlap_report(device, step));
}

TYPED_TEST(LiveOverlapReport, refuses_a_second_recording_of_the_device) {
  Device<TypeParam> device;
  auto const x = to_device(device, std::vector<float>(1'000, 1.0F), {1'000});
  auto const step = [&] { (void)ops::scale(x, 2.0F); };
  this->expect_sum(overlap_report(device,
                                  [&] {
                                    step();
                                    EXPECT_THROW((void)overlap_report(device, step, {.warm_up = 0}),
                                                 std::logic_error);
                                  },
                                  {.warm_up = 0}));
}

}  // namespace
}  // namespace msstream::testing
