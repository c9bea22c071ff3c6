// SPDX-License-Identifier: Apache-2.0
// Tests reports of simulated steps with a planted cause, and of their fixed twins.
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/overlap/report.hpp>
#include <msstream/runtime/sim.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/stream/stream_scope.hpp>
#include <msstream/tensor/issue.hpp>
#include <msstream/tensor/tensor.hpp>

#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace msstream::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using SimTensor = Tensor<float, Sim>;

/// A simulated device with two stream groups. The name of an operation says how long it takes.
class SimulatedSteps {
 public:
  SimulatedSteps() : device(options()), pool(device, {.groups = 2, .log = nullptr}) {}

  [[nodiscard]] static DeviceOptions<Sim> options() {
    SimCost cost;
    cost.launch_call_ns = 5'000;
    cost.kernel = [](std::string_view name, auto) {
      double const us = name == "long" ? 400 : name == "middle" ? 100 : 2;
      return SimCost::Kernel{us * 1'000, 10};
    };
    DeviceOptions<Sim> options;
    options.runtime.schedule = sim::by_time();
    options.runtime.cost = cost;
    return options;
  }
  [[nodiscard]] SimTensor tensor() const { return SimTensor(device.state(), {16}); }
  static void run(char const* name, SimTensor const& written) {
    issue(name, writes(written), [](HostStream stream) { stream.run([] {}); });
  }
  static order::Position run(char const* name, SimTensor const& read, SimTensor const& written) {
    return issue(name, reads(read), writes(written), [](HostStream stream) { stream.run([] {}); });
  }

  Device<Sim> device;
  StreamPool<Sim> pool;
};

void expect_sum(OverlapReport const& report) {
  std::int64_t sum = 0;
  for (auto const& time : report.times()) {
    EXPECT_GT(time.ns, 0);
    sum += time.ns;
  }
  EXPECT_EQ(sum, report.window_ns());
  EXPECT_GT(sum, 0);
}

/// Steps of two long operations on two groups, and a middle one that needs both and that the next
/// step needs. If `waits`, group 0 waits for group 1 without need.
OverlapReport report_of_waiting(bool waits) {
  SimulatedSteps steps;
  auto const x = steps.tensor();
  auto const y = steps.tensor();
  auto const sum = steps.tensor();
  return overlap_report(steps.device, [&] {
    {
      // First the group that waits for the step before: the event of its wait is recorded now, and
      // covers nothing later.
      StreamScope const scope(steps.pool[1]);
      SimulatedSteps::run("long", sum, y);
    }
    if (waits) {
      steps.pool[0].compute().wait(steps.pool[1].compute().record());
    }
    StreamScope const scope(steps.pool[0]);
    SimulatedSteps::run("long", sum, x);
    issue("middle", reads(x, y), writes(sum), [](HostStream stream) { stream.run([] {}); });
  });
}

TEST(SimulatedOverlapReport, a_redundant_wait_is_a_false_dependency) {
  auto const report = report_of_waiting(true);
  ASSERT_FALSE(report.findings().empty()) << report.text();
  auto const& first = report.findings().front();
  EXPECT_EQ(first.cause, "false-dependency") << report.text();
  EXPECT_FALSE(first.summary.empty());
  EXPECT_FALSE(first.evidence.empty());
  EXPECT_FALSE(first.advice.empty());
  ASSERT_TRUE(first.predicted_step_ns);
  EXPECT_NEAR(*first.predicted_step_ns, 500'000, 20'000);
  EXPECT_NEAR(static_cast<double>(report.window_ns()) / 3, 900'000, 20'000);
  expect_sum(report);

  auto const fixed = report_of_waiting(false);
  EXPECT_FALSE(fixed.has("false-dependency")) << fixed.text();
  EXPECT_THAT(fixed.findings(), IsEmpty()) << fixed.text();
  EXPECT_NEAR(static_cast<double>(fixed.window_ns()) / 3, *first.predicted_step_ns, 20'000);
  expect_sum(fixed);
}

/// Steps in which group 1 needs the first operation of group 0. If `is_late`, it waits for an event
/// that was recorded after two more.
OverlapReport report_of_event(bool is_late) {
  SimulatedSteps steps;
  auto const first = steps.tensor();
  auto const x = steps.tensor();
  auto const y = steps.tensor();
  auto const z = steps.tensor();
  return overlap_report(steps.device, [&] {
    std::optional<Event<Sim>> event;
    auto const& stream = steps.pool[0].compute();
    {
      StreamScope const scope(steps.pool[0]);
      SimulatedSteps::run("middle", z, first);
      event.emplace(stream.record());
      SimulatedSteps::run("long", first, x);
      SimulatedSteps::run("long", x, x);
    }
    if (is_late) {
      event.emplace(stream.record());
    }
    steps.pool[1].compute().wait(*event);
    StreamScope const scope(steps.pool[1]);
    SimulatedSteps::run("long", first, y);
    issue("middle", reads(x, y), writes(z), [](HostStream queue) { queue.run([] {}); });
  });
}

TEST(SimulatedOverlapReport, an_event_that_is_recorded_late_is_a_false_dependency) {
  auto const report = report_of_event(true);
  ASSERT_FALSE(report.findings().empty()) << report.text();
  EXPECT_EQ(report.findings().front().cause, "false-dependency") << report.text();
  EXPECT_FALSE(report.has("one-stream-two-roles")) << report.text();
  EXPECT_GT(report.findings().front().lost_ns, 3 * 700'000) << "both long operations, in each step";
  auto const fixed = report_of_event(false);
  EXPECT_FALSE(fixed.has("false-dependency")) << fixed.text();
}

/// Two long operations that do not need each other, on `groups` groups.
OverlapReport report_of_independent(int groups) {
  SimulatedSteps steps;
  auto const x = steps.tensor();
  auto const y = steps.tensor();
  return overlap_report(steps.device, [&] {
    {
      StreamScope const scope(steps.pool[0]);
      SimulatedSteps::run("long", x);
    }
    StreamScope const scope(steps.pool[groups - 1]);
    SimulatedSteps::run("long", y);
  });
}

TEST(SimulatedOverlapReport, independent_operations_on_one_stream_are_found) {
  auto const report = report_of_independent(1);
  ASSERT_FALSE(report.findings().empty()) << report.text();
  EXPECT_EQ(report.findings().front().cause, "one-stream-two-roles") << report.text();
  expect_sum(report);
  auto const fixed = report_of_independent(2);
  EXPECT_THAT(fixed.findings(), IsEmpty()) << fixed.text();
}

/// A chain of operations on one group.
OverlapReport report_of_chain(char const* name, int length) {
  SimulatedSteps steps;
  auto const x = steps.tensor();
  return overlap_report(steps.device, [&] {
    StreamScope const scope(steps.pool[0]);
    for (int i = 0; i < length; ++i) {
      SimulatedSteps::run(name, x, x);
    }
  });
}

TEST(SimulatedOverlapReport, short_operations_are_launch_bound) {
  auto const report = report_of_chain("short", 50);
  ASSERT_FALSE(report.findings().empty()) << report.text();
  EXPECT_EQ(report.findings().front().cause, "launch-bound") << report.text();
  expect_sum(report);
  auto const fixed = report_of_chain("middle", 50);
  EXPECT_FALSE(fixed.has("launch-bound")) << fixed.text();
  expect_sum(fixed);
}

TEST(SimulatedOverlapReport, operations_that_need_each_other_are_a_true_dependency) {
  SimulatedSteps steps;
  auto const x = steps.tensor();
  auto const y = steps.tensor();
  auto const report = overlap_report(steps.device, [&] {
    {
      StreamScope const scope(steps.pool[0]);
      SimulatedSteps::run("long", x, y);
    }
    StreamScope const scope(steps.pool[1]);
    SimulatedSteps::run("long", y, x);
  });
  EXPECT_FALSE(report.has("false-dependency")) << report.text();
  EXPECT_FALSE(report.has("one-stream-two-roles")) << report.text();
  EXPECT_EQ(report.times().front().kind, "alone") << report.text();
  EXPECT_GT(report.times().front().ns, 0.9 * static_cast<double>(report.window_ns()));
  expect_sum(report);
}

TEST(SimulatedOverlapReport, a_host_that_waits_in_each_step_is_found) {
  auto const report_of = [](bool waits) {
    SimulatedSteps steps;
    auto const x = steps.tensor();
    return overlap_report(steps.device,
                          [&] {
                            StreamScope const scope(steps.pool[0]);
                            order::Position last;
                            for (int i = 0; i < 4; ++i) {
                              last = SimulatedSteps::run("middle", x, x);
                            }
                            if (waits) {
                              steps.device.synchronize(last);
                            }
                          },
                          {.warm_up = 1, .steps = 8});
  };
  auto const report = report_of(true);
  expect_sum(report);
  std::int64_t waited = 0;
  for (auto const& time : report.times()) {
    waited += time.kind == "idle" && time.cause == "host-synchronization" ? time.ns : 0;
  }
  EXPECT_GE(waited, 7 * 5'000) << "a launch in each step but the first\n" << report.text();
  for (auto const& time : report_of(false).times()) {
    EXPECT_NE(time.cause, "host-synchronization");
  }
}

TEST(SimulatedOverlapReport, equal_runs_give_equal_bytes) {
  auto const a = report_of_waiting(true);
  auto const b = report_of_waiting(true);
  EXPECT_EQ(a.text(), b.text());
  EXPECT_EQ(a.json(), b.json());
  EXPECT_EQ(a.html(), b.html());
  EXPECT_THAT(a.text(), HasSubstr("false-dependency"));
}

TEST(SimulatedOverlapReport, is_written_in_the_form_that_the_path_names) {
  auto const report = report_of_waiting(true);
  TemporaryFolder const folder;
  auto const written = [&](char const* name) {
    report.write(folder / name);
    return read_all(folder / name);
  };
  EXPECT_EQ(written("a.txt"), report.text());
  EXPECT_EQ(written("a.json"), report.json());
  EXPECT_EQ(written("a.html"), report.html());
  EXPECT_THAT(message_of<std::invalid_argument>([&] { report.write(folder / "a.svg"); }),
              HasSubstr("a.svg"));
  EXPECT_FALSE(std::filesystem::exists(folder / "a.svg"));
  EXPECT_ANY_THROW(report.write(folder / "none/a.txt"));
}

TEST(SimulatedOverlapReport, refuses_what_it_cannot_report_on) {
  SimulatedSteps steps;
  EXPECT_THAT(message_of<std::invalid_argument>([&] { (void)overlap_report(steps.device, [] {}); }),
              HasSubstr("no operations"));
  int calls = 0;
  EXPECT_THAT(message_of<std::invalid_argument>(
                  [&] { (void)overlap_report(steps.device, [&] { ++calls; }, {.steps = 0}); }),
              HasSubstr("found 0"));
  EXPECT_THROW((void)overlap_report(steps.device, [&] { ++calls; }, {.warm_up = -1}),
               std::invalid_argument);
  EXPECT_EQ(calls, 0);
  auto const report = report_of_chain("middle", 2);
  EXPECT_THAT(message_of<std::invalid_argument>([&] { (void)report.has("nonsense"); }),
              HasSubstr("launch-bound"));
}

}  // namespace
}  // namespace msstream::testing
