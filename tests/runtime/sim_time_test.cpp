// SPDX-License-Identifier: Apache-2.0
// Tests the virtual time of the simulating runtime against makespans that were computed by hand.
#include "runtime/sim/sim_load.hpp"

#include <msstream/msstream.hpp>
#include <msstream/runtime/sim.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::testing {
namespace {

/// Returns costs in round numbers of nanoseconds: a launch takes 100, a record 10, a wait 5, a
/// query 1, a copy of 100 bytes 200. The device has 100 multiprocessors.
SimCost round_costs(SimCost::Kernel kernel) {
  SimCost cost;
  cost.launch_call_ns = 100;
  cost.copy_call_ns = 100;
  cost.record_call_ns = 10;
  cost.wait_call_ns = 5;
  cost.query_call_ns = 1;
  cost.h2d_bytes_per_ns = 1;
  cost.d2h_bytes_per_ns = 1;
  cost.d2d_bytes_per_ns = 1;
  cost.copy_latency_ns = 100;
  cost.sm_count = 100;
  cost.kernel = [kernel](auto, auto) { return kernel; };
  return cost;
}

class SimTime : public ::testing::Test {
 protected:
  /// Starts a new simulation, at time 0. A kernel that is issued first starts at 100 ns.
  void use(SimCost::Kernel kernel) { use_costs(round_costs(kernel)); }
  void use_costs(SimCost const& cost) {
    runtime = std::make_unique<Sim>(Sim::Options{.schedule = sim::by_time(), .cost = cost});
    for (auto& s : streams) {
      s = runtime->create_stream(StreamPriority::normal);
    }
  }
  void TearDown() override {
    for (auto* const event : events) {
      runtime->destroy_event(event);
    }
  }
  void kernel(std::size_t s) {
    runtime->ref(streams[s], nullptr).run([] {});
  }
  Sim::native_event record(std::size_t s, EventTiming timing = EventTiming::untimed) {
    events.push_back(runtime->create_event(timing));
    runtime->record(events.back(), streams[s]);
    return events.back();
  }
  /// Waits for all streams and returns the virtual time at which all are complete.
  double makespan() {
    for (auto* const s : streams) {
      runtime->synchronize_stream(s);
    }
    return runtime->host_time_ns();
  }

  std::unique_ptr<Sim> runtime;
  std::vector<Sim::native_stream> streams = std::vector<Sim::native_stream>(3);
  std::vector<Sim::native_event> events;
};

TEST_F(SimTime, launch_bound_work_takes_the_launches_on_any_number_of_streams) {
  // Issues ten kernels of 40 ns, one every 100 ns, the last one at 1000 ns.
  use({40, 1});
  for (int i = 0; i < 10; ++i) {
    kernel(0);
  }
  EXPECT_DOUBLE_EQ(makespan(), 1040);
  use({40, 1});
  for (std::size_t i = 0; i < 10; ++i) {
    kernel(i % 2);
  }
  EXPECT_DOUBLE_EQ(makespan(), 1040);
}

TEST_F(SimTime, long_kernels_overlap_on_two_streams_and_not_on_one) {
  use({1000, 10});
  for (int i = 0; i < 4; ++i) {
    kernel(0);
  }
  EXPECT_DOUBLE_EQ(makespan(), 100 + 4 * 1000);
  // With two streams, the kernels of stream 1 start at 200 ns and are the last to end.
  use({1000, 10});
  for (std::size_t i = 0; i < 4; ++i) {
    kernel(i % 2);
  }
  EXPECT_DOUBLE_EQ(makespan(), 200 + 2 * 1000);
}

TEST_F(SimTime, kernels_that_fill_the_device_share_it) {
  // Kernel A runs alone from 100 to 200 ns and has 900 ns left. Then both kernels run at half
  // speed: A is complete at 2000 ns, and B has 100 ns left, which it runs alone until 2100 ns. The
  // makespan is that of one kernel after the other.
  use({1000, 100});
  kernel(0);
  kernel(1);
  EXPECT_DOUBLE_EQ(makespan(), 2100);
  // Two kernels of 75 multiprocessors each want 150 of the 100, and run at two thirds of the speed.
  // Kernel A is complete at 100 + 100 + 900 * 1.5 = 1550 ns, when kernel B has 100 ns left.
  use({1000, 75});
  kernel(0);
  kernel(1);
  EXPECT_DOUBLE_EQ(makespan(), 1650);
  // Two kernels that each use half of the device do not slow each other down.
  use({1000, 50});
  kernel(0);
  kernel(1);
  EXPECT_DOUBLE_EQ(makespan(), 1200);
}

TEST_F(SimTime, kernels_fill_as_large_a_device_as_there_is) {
  constexpr std::size_t kBytes = std::size_t{200} * (64U << 10U);
  std::vector<MemoryUse> const uses{{nullptr, kBytes, AccessMode::write}};
  // Returns the makespan of two kernels that are issued at 100 and 200 ns, each of which can fill
  // 201 multiprocessors.
  auto const of_two = [&](int sm_count) {
    auto cost = round_costs({});
    cost.sm_count = sm_count;
    cost.kernel = [&uses](auto name, auto) { return SimCost::by_bytes(name, uses); };
    use_costs(cost);
    kernel(0);
    kernel(1);
    return makespan();
  };
  double const alone = SimCost::by_bytes({}, uses).device_ns;
  EXPECT_NEAR(of_two(402), 200 + alone, 1e-6) << "beside each other";
  EXPECT_NEAR(of_two(201), 100 + 2 * alone, 1e-6) << "each has half";
  EXPECT_NEAR(of_two(132), 100 + 2 * alone, 1e-6) << "a kernel has no more than there are";
}

TEST_F(SimTime, collectives_share_the_link) {
  // The first one has the link to itself from 150 to 250 ns, until the second one needs it, too.
  // They share it until 850 ns, when the second one has 100 ns left.
  use({.device_ns = 50, .sms = 10, .link_ns = 400});
  kernel(0);
  kernel(1);
  EXPECT_DOUBLE_EQ(makespan(), 950);
}

TEST_F(SimTime, collectives_keep_multiprocessors_from_kernels) {
  auto cost = round_costs({});
  bool is_first = true;
  cost.kernel = [&](auto, auto) {
    return std::exchange(is_first, false)
               ? SimCost::Kernel{.device_ns = 50, .sms = 25, .link_ns = 750}
               : SimCost::Kernel{.device_ns = 1000, .sms = 100};
  };
  use_costs(cost);
  // The collective runs from 100 to 900 ns whatever there is beside it. The kernel runs from 200 ns
  // on at three quarters of its speed, and then has 475 ns left.
  kernel(0);
  kernel(1);
  EXPECT_DOUBLE_EQ(makespan(), 900 + 475);
}

TEST_F(SimTime, a_fork_and_join_takes_its_longest_path) {
  use({1000, 10});
  // The queue of stream 0 is [fork, left, wait for right, join]; that of stream 1 is [wait for
  // fork, right].
  kernel(0);  // issued at 100 ns, complete at 1100 ns
  runtime->wait(streams[1], record(0));
  kernel(0);  // runs from 1100 to 2100 ns
  kernel(1);  // runs from 1100 to 2100 ns, after e
  runtime->wait(streams[0], record(1));
  kernel(0);  // runs from 2100 to 3100 ns
  EXPECT_DOUBLE_EQ(makespan(), 3100);
}

TEST_F(SimTime, copies_overlap_kernels_and_each_other_by_direction) {
  std::vector<std::byte> a(100);
  std::vector<std::byte> b(100);
  use({1000, 10});
  // Each copy takes 200 ns, and copies in one direction run one after the other: those issued at
  // 100 and 200 ns are complete at 300 and 500 ns.
  runtime->copy(a.data(), b.data(), 100, CopyKind::h2d, streams[0]);
  runtime->copy(a.data(), b.data(), 100, CopyKind::h2d, streams[1]);
  EXPECT_DOUBLE_EQ(makespan(), 500);
  use({1000, 10});
  runtime->copy(a.data(), b.data(), 100, CopyKind::h2d, streams[0]);
  runtime->copy(a.data(), b.data(), 100, CopyKind::d2h, streams[1]);
  EXPECT_DOUBLE_EQ(makespan(), 400) << "the other direction has an engine of its own";
  use({1000, 10});
  kernel(0);  // runs from 100 to 1100 ns
  runtime->copy(a.data(), b.data(), 100, CopyKind::h2d, streams[1]);
  EXPECT_DOUBLE_EQ(makespan(), 1100) << "beside the kernel";
  use({1000, 10});
  runtime->copy(a.data(), b.data(), 100, CopyKind::d2d, streams[0]);  // 100 bytes read and written
  runtime->fill(a.data(), 0, 100, streams[0]);                        // 100 bytes written
  EXPECT_DOUBLE_EQ(makespan(), 100 + 200 + 100);
}

TEST_F(SimTime, the_hosts_time_is_that_of_its_calls_and_of_what_it_waited_for) {
  use({1000, 10});
  kernel(0);
  auto* const e = record(0);
  EXPECT_DOUBLE_EQ(runtime->host_time_ns(), 110);
  EXPECT_FALSE(runtime->query(e)) << "it is done at 1100";
  EXPECT_DOUBLE_EQ(runtime->host_time_ns(), 111);
  int polls = 1;
  while (!runtime->query(e)) {
    ++polls;
  }
  EXPECT_EQ(polls, 1100 - 110 - 1);
  EXPECT_DOUBLE_EQ(runtime->host_time_ns(), 1100);
  runtime->synchronize(e);
  EXPECT_DOUBLE_EQ(runtime->host_time_ns(), 1100);
}

TEST_F(SimTime, timed_events_say_when_their_stream_got_there) {
  use({1000, 10});
  auto* const begin = record(0, EventTiming::timed);  // recorded at 10 ns
  kernel(0);                                          // runs from 110 to 1110 ns
  auto* const end = record(0, EventTiming::timed);
  auto* const beside = record(1, EventTiming::timed);  // recorded at 130 ns
  EXPECT_DOUBLE_EQ(runtime->elapsed_ns(begin, end), 1100);
  EXPECT_DOUBLE_EQ(runtime->elapsed_ns(begin, beside), 120);
  EXPECT_DOUBLE_EQ(runtime->elapsed_ns(end, beside), -980);
}

TEST_F(SimTime, measuring_waits_for_both_events) {
  use({1000, 10});
  kernel(0);
  auto* const late = record(0, EventTiming::timed);
  auto* const early = record(1, EventTiming::timed);
  EXPECT_DOUBLE_EQ(runtime->elapsed_ns(late, early), -980);
  EXPECT_DOUBLE_EQ(runtime->host_time_ns(), 1100);
}

TEST_F(SimTime, goes_on_however_late_it_is) {
  // At 1e12 ns adjacent doubles are 1.2e-4 ns apart, so the expected sums are not exact.
  constexpr double kLongNs = 1e12;
  constexpr double kShortNs = 1000.1;
  constexpr int kShortKernels = 5000;
  auto cost = round_costs({});
  cost.kernel = [first = true](auto, auto) mutable {
    return SimCost::Kernel{std::exchange(first, false) ? kLongNs : kShortNs, 75};
  };
  use_costs(cost);
  for (int i = 0; i < 1 + kShortKernels; ++i) {
    kernel(0);  // the first one starts at 100 ns
  }
  double const late = makespan();
  EXPECT_NEAR(late, 100 + kLongNs + kShortKernels * kShortNs, 1);
  // The kernels of two streams share the device and run at two thirds of the full speed. The first
  // kernel of stream 1 begins 100 ns later than that of stream 0.
  for (int i = 0; i < kShortKernels; ++i) {
    kernel(0);
    kernel(1);
  }
  EXPECT_NEAR(makespan() - late, kShortKernels * kShortNs * 1.5, 2 * kShortNs);
}

TEST_F(SimTime, held_streams_do_not_hold_the_others) {
  use({1000, 10});
  auto const open = std::make_shared<std::atomic<bool>>(false);
  runtime->hold(streams[0], open);
  kernel(0);
  kernel(1);  // issued at 300 ns
  runtime->synchronize_stream(streams[1]);
  EXPECT_DOUBLE_EQ(runtime->host_time_ns(), 1300);
  EXPECT_THROW(runtime->synchronize_stream(streams[0]), std::logic_error);
  open->store(true);
  EXPECT_DOUBLE_EQ(makespan(), 2300);
}

/// Issues the operations "long" and "short" and one that joins them, on `groups` groups, and
/// returns the timeline. The kernel of "long" takes 3000 ns, the other two 1000 ns each.
trace::Timeline branches(int groups) {
  auto cost = round_costs({0, 10});
  cost.kernel = [](std::string_view name, auto) {
    return SimCost::Kernel{name == "long" ? 3000.0 : 1000.0, 10};
  };
  Device<Sim> const device({.runtime = {.schedule = sim::by_time(), .cost = cost}});
  StreamPool<Sim> pool(device, {.groups = groups, .launch_threads = LaunchThreads::none});
  Tensor<float, Sim> const left(device, {1});
  Tensor<float, Sim> const right(device, {1});
  auto const empty = [](auto stream) { stream.run([] {}); };
  device.start_spans();
  {
    StreamScope<Sim> const scope(pool[0]);
    issue("long", writes(left), empty);
  }
  {
    StreamScope<Sim> const scope(pool[groups - 1]);
    issue("short", writes(right), empty);
  }
  {
    StreamScope<Sim> const scope(pool[0]);
    issue("meet", reads(left, right), writes(left), empty);
  }
  return device.stop_spans();
}

TEST(SimTimeline, prices_an_assignment_of_operations_to_groups) {
  auto const one = branches(1);
  ASSERT_EQ(one.spans().size(), 3U);
  EXPECT_DOUBLE_EQ(one.overlapped_ns(), 0);
  // Time zero is at 10 ns. The host then takes 10 ns to record the begin of "long" and 100 ns to
  // launch it, so "long" runs from 110 to 3110 after zero. The other operations follow it.
  EXPECT_DOUBLE_EQ(one.length_ns(), 110 + 3000 + 1000 + 1000);
  auto const two = branches(2);
  EXPECT_DOUBLE_EQ(two.length_ns(), 110 + 3000 + 1000) << two.draw();
  // The span of "short" begins when its begin is recorded: after the 10 + 100 + 10 ns of "long" and
  // 10 ns of its own.
  EXPECT_DOUBLE_EQ(two.spans()[1].begin_ns, 130);
  EXPECT_DOUBLE_EQ(two.spans()[1].end_ns, 130 + 100 + 1000);
  EXPECT_DOUBLE_EQ(two.overlapped_ns(), 1100);
}

/// The simulated cost of a program in which two groups multiply and add tensors, with copies in
/// both directions and a host function.
struct Price {
  double makespan_ns = 0;
  double busy_ns = 0;
  int kernels = 0;
  int host_functions = 0;
};
Price price_of_a_plan(bool runs_work, std::int64_t rows) {
  Price price;
  Device<Sim> const device({.runtime = {.schedule = sim::by_time(), .runs_work = runs_work},
                            .memory = {.limit_bytes = std::size_t{8} << 30U}});
  StreamPool<Sim> pool(device, {.groups = 2, .launch_threads = LaunchThreads::none});
  device.start_spans();
  auto total = zeros<float, Sim>(device, {rows, rows});
  auto const ones =
      to_device(device, std::vector<float>(static_cast<std::size_t>(rows), 1), {rows});
  for (int i = 0; i < 8; ++i) {
    StreamScope<Sim> const scope(pool[i % 2]);
    auto const layer = ops::dense(total, total, ones, ops::Activation::none);
    total = ops::add<Sim>({total, layer});
  }
  issue("count", writes(total), [&price](auto s) { s.run([&price] { ++price.kernels; }); });
  auto const stream = device.default_group().compute();
  device.runtime().call_host(stream.native(), [&price] { ++price.host_functions; });
  static_cast<void>(to_host(total.rows(0, 1)));
  price.makespan_ns = device.runtime().host_time_ns();
  price.busy_ns = device.stop_spans().length_ns();
  return price;
}

TEST(SimTimeline, prices_a_plan_without_its_work) {
  auto const worked = price_of_a_plan(true, 16);
  auto const priced = price_of_a_plan(false, 16);
  EXPECT_EQ(worked.makespan_ns, priced.makespan_ns);
  EXPECT_EQ(worked.busy_ns, priced.busy_ns);
  EXPECT_EQ(worked.host_functions, 1);
  EXPECT_EQ(priced.host_functions, 1);
  EXPECT_EQ(worked.kernels, 1);
  EXPECT_EQ(priced.kernels, 0);
}

/// Simulates matrix products of 9e12 floating-point operations each, for which the CPU versions of
/// the kernels would need hours.
TEST(SimTimeline, prices_a_plan_that_no_host_could_run) {
  constexpr std::int64_t kRows = 16384;
  auto const priced = price_of_a_plan(false, kRows);
  auto const bytes = static_cast<double>(kRows * kRows * 4);
  EXPECT_GT(priced.makespan_ns, 8 * (2 + 3) * bytes / 4280) << "eight products and sums";
}

TEST(SimTimeline, the_same_seed_draws_the_same_picture) {
  EXPECT_EQ(branches(2).draw(), branches(2).draw());
}

}  // namespace
}  // namespace msstream::testing
