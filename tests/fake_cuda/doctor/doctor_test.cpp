// SPDX-License-Identifier: Apache-2.0
// Tests of msstream-doctor on the fake CUDA runtime: its readings and measurements free what they
// take, and a call that fails becomes a line.
#include "doctor/facts/cuda_facts_cuda.hpp"
#include "doctor/measure/measure_device_cuda.hpp"
#include "fake_cuda_fixture.hpp"
#include "fake_queues.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace fake_cuda {
namespace {

using namespace msstream::doctor;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

DeviceMeasures measure(std::vector<std::string>* begun = nullptr) {
  MeasurePlan plan;
  plan.bytes = 1 << 16;
  return measure_device(plan, [&](std::string_view check) {
    if (begun != nullptr) {
      begun->emplace_back(check);
    }
  });
}

Line line_with(Lines const& lines, std::string_view id) {
  return *std::ranges::find(lines, id, &Line::id);
}

class FakeDoctor : public FakeCudaTest {};

TEST_F(FakeDoctor, all_is_measured_and_nothing_stays) {
  std::vector<std::string> begun;
  auto const measures = measure(&begun);
  EXPECT_THAT(measures.failures, IsEmpty());
  EXPECT_EQ(begun.size(), 10U);
  auto const lines = device_measure_lines(measures);
  EXPECT_EQ(lines.size(), 12U);  // without other GPUs
  EXPECT_EQ(measures.captured_operations, 32);
}

TEST_F(FakeDoctor, hardware_queues_are_counted) {
  for (int const count : {1, 8, 32, 128}) {
    set_hardware_queues(count);
    EXPECT_EQ(measure().streams_at_once, count);
  }
}

TEST_F(FakeDoctor, a_call_that_fails_is_a_bad_line_and_leaks_nothing) {
  for (auto const* const name : {"cudaMalloc",
                                 "cudaHostAlloc",
                                 "cudaMemcpy",
                                 "cudaMemcpyAsync",
                                 "cudaMemsetAsync",
                                 "cudaLaunchKernel",
                                 "cudaStreamCreateWithPriority",
                                 "cudaEventSynchronize",
                                 "cudaEventElapsedTime",
                                 "cudaGraphInstantiate"}) {
    DeviceMeasures measures;
    {
      FailingCall const failing(name, 1);
      measures = measure();
    }
    ASSERT_EQ(measures.failures.size(), 1U) << name;
    EXPECT_EQ(worst_of(device_measure_lines(measures)), Level::bad) << name;
    EXPECT_EQ(live(), Live{}) << name;
    static_cast<void>(take_misuses());
  }
}

TEST_F(FakeDoctor, a_driver_that_is_too_old_is_told_with_both_versions) {
  DriverVersion const old(12'020);
  DriverFacts facts;
  add_cuda(facts);
  EXPECT_EQ(facts.devices, 0);
  auto const lines = driver_lines(facts);
  auto const line = line_with(lines, "driver");
  EXPECT_EQ(line.level, Level::bad);
  EXPECT_THAT(line.advice, HasSubstr("supports CUDA 12.2"));
  EXPECT_THAT(line.advice, HasSubstr("needs CUDA 13.0"));
  EXPECT_EQ(line_with(lines, "devices").level, Level::bad);
}

TEST_F(FakeDoctor, without_a_driver_nothing_is_found) {
  DriverVersion const none(0);
  DriverFacts facts;
  add_cuda(facts);
  EXPECT_EQ(line_with(driver_lines(facts), "driver").value, "none found");
}

TEST_F(FakeDoctor, devices_and_features_are_read) {
  DriverFacts driver;
  add_cuda(driver);
  EXPECT_EQ(worst_of(driver_lines(driver)), Level::ok);
  NvmlFacts nvml;
  nvml.devices.resize(2);
  nvml.devices[1].bus_id = "0000:1b:00.0";
  nvml.devices[1].persistence = false;
  auto const devices = read_devices(driver.devices, nvml);
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0].name, "Fake H100");
  EXPECT_EQ(devices[0].capability, 90);
  EXPECT_EQ(devices[0].nvml.persistence, false);
  auto const features = read_features(0);
  EXPECT_EQ(features.concurrent_kernels, Available::yes);
  EXPECT_EQ(features.priority_levels, 6);
  EXPECT_EQ(features.pages, Available::yes);
  EXPECT_EQ(features.memory_pools, Available::not_by_device);
  EXPECT_EQ(features.multicast, Available::not_by_driver);
  EXPECT_EQ(features.fp8_products, Available::yes);
  EXPECT_EQ(features.green_streams, Available::yes);
  EXPECT_EQ(features.most_sm_parts, 16);
}

}  // namespace
}  // namespace fake_cuda
