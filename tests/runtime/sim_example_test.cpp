// SPDX-License-Identifier: Apache-2.0
// The programs of docs/testing.md and docs/testing-reference.md on the simulating runtime.
#include <msstream/msstream.hpp>
#include <msstream/runtime/sim.hpp>
#include <msstream/runtime/sim_explore.hpp>

#include <gtest/gtest.h>

#include <map>
#include <string_view>
#include <vector>

namespace ms = msstream;

namespace msstream::testing {
namespace {

TEST(SimExample, tries_a_program_in_many_orders) {
  auto const program = [](ms::Sim::Options const& simulation) {
    ms::Device<ms::Sim> const device({.runtime = simulation});
    ms::StreamPool<ms::Sim> pool(device, {.groups = 2, .launch_threads = ms::LaunchThreads::none});
    auto const x = ms::zeros<float>(device, {2});
    std::vector<ms::Tensor<float, ms::Sim>> parts;
    for (int i = 0; i < 2; ++i) {
      ms::StreamScope const scope(pool[i]);
      parts.push_back(ms::ops::add_scalar(x, static_cast<float>(i)));
    }
    return ms::to_host(ms::ops::add(parts));  // or throw, or return false: the order went wrong
  };

  auto const found = ms::sim::explore(program, {.random_schedules = 1000});
  EXPECT_TRUE(found.agrees()) << to_string(found);
}

TEST(SimExample, predicts_the_time_of_kernels_whose_costs_it_knows) {
  std::map<std::string_view, double> const table{{"scale", 2'000}, {"add", 3'000}};

  ms::SimCost cost;  // one H200; launches, records, waits and queries as measured
  // Measured durations. The default computes them from the bytes used.
  cost.kernel = [&](std::string_view name, auto) {
    return ms::SimCost::Kernel{.device_ns = table.at(name), .sms = 20};
  };
  ms::Device<ms::Sim> const device({.runtime = {.schedule = ms::sim::by_time(), .cost = cost}});

  ms::Tensor<float, ms::Sim> const x(device, {4});
  device.start_spans();
  auto const scaled = ms::ops::scale(x, 2.0F);
  auto const sum = ms::ops::add(std::vector{x, scaled});
  EXPECT_GE(device.stop_spans().length_ns(), 5'000);
}

}  // namespace
}  // namespace msstream::testing
