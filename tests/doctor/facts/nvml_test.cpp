// SPDX-License-Identifier: Apache-2.0
// Reads a made-up management library.
#include "doctor/facts/nvml.hpp"

#include "base/temporary_folder.hpp"
#include "doctor/facts/device.hpp"
#include "find_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

namespace msstream::doctor {
namespace {

using ::testing::HasSubstr;

using Code = int;
int running = 0;  // calls of nvmlInit_v2 without nvmlShutdown

Code init() {
  ++running;
  return 0;
}
Code shut_down() {
  --running;
  return 0;
}
Code count_of(unsigned* count) {
  *count = 1;
  return 0;
}
Code handle_of(unsigned, void** handle) {
  static int device = 0;
  *handle = &device;
  return 0;
}
Code name_of_device(void*, char* name, unsigned) {
  std::strcpy(name, "NVIDIA H200");
  return 0;
}
Code driver_of(char* version, unsigned) {
  std::strcpy(version, "580.65.06");
  return 0;
}
Code persistence_of(void*, unsigned* on) {
  *on = 0;
  return 0;
}
Code mig_of(void*, unsigned* now, unsigned* pending) {
  *now = 1;
  *pending = 1;
  return 0;
}
Code not_supported(void*, unsigned*, unsigned*) {
  return 3;
}
Code processes_of_device(void*, unsigned* count, void*) {
  *count = 2;
  return 7;  // there is no room for them
}
Code failing_init() {
  return 9;
}
char const* text_of_error(Code) {
  return "Driver Not Loaded";
}

template <class Function>
void* address(Function* function) {
  return reinterpret_cast<void*>(function);
}

std::map<std::string, void*> whole_library() {
  return {{"nvmlInit_v2", address(init)},
          {"nvmlShutdown", address(shut_down)},
          {"nvmlErrorString", address(text_of_error)},
          {"nvmlSystemGetDriverVersion", address(driver_of)},
          {"nvmlDeviceGetCount_v2", address(count_of)},
          {"nvmlDeviceGetHandleByIndex_v2", address(handle_of)},
          {"nvmlDeviceGetName", address(name_of_device)},
          {"nvmlDeviceGetPersistenceMode", address(persistence_of)},
          {"nvmlDeviceGetMigMode", address(mig_of)},
          {"nvmlDeviceGetEccMode", address(not_supported)},
          {"nvmlDeviceGetComputeRunningProcesses_v3", address(processes_of_device)}};
}

NvmlFacts read_from(std::map<std::string, void*> const& functions) {
  return read_nvml([&](char const* name) -> void* {
    auto const found = functions.find(name);
    return found == functions.end() ? nullptr : found->second;
  });
}

TEST(DoctorNvml, what_the_library_says_is_read_and_the_rest_stays_unknown) {
  auto const facts = read_from(whole_library());
  EXPECT_EQ(facts.problem, "");
  EXPECT_EQ(facts.driver, "580.65.06");
  ASSERT_EQ(facts.devices.size(), 1U);
  auto const& device = facts.devices.front();
  EXPECT_EQ(device.name, "NVIDIA H200");
  EXPECT_EQ(device.persistence, false);
  EXPECT_EQ(device.mig, true);
  EXPECT_EQ(device.processes, 2);
  EXPECT_FALSE(device.ecc.has_value());
  EXPECT_FALSE(device.compute_mode.has_value());
  EXPECT_EQ(running, 0);
  auto const lines = device_lines(devices_of(facts).front(), {});
  EXPECT_EQ(level_of(lines, "persistence"), Level::note);
  EXPECT_EQ(level_of(lines, "mig"), Level::note);
  EXPECT_EQ(level_of(lines, "other-processes"), Level::note);
  EXPECT_EQ(level_of(lines, "ecc"), Level::ok);
}

TEST(DoctorNvml, a_library_that_does_not_start_is_a_problem) {
  auto functions = whole_library();
  functions["nvmlInit_v2"] = address(failing_init);
  EXPECT_EQ(read_from(functions).problem, "Driver Not Loaded");
  EXPECT_NE(read_from({}).problem, "");
}

DeviceFacts h200() {
  DeviceFacts facts;
  facts.name = "NVIDIA H200";
  facts.capability = 90;
  facts.multiprocessors = 132;
  facts.memory_bytes = 1.5e11;
  facts.nvml.persistence = true;
  facts.nvml.link_generation = 5;
  facts.nvml.link_width = facts.nvml.most_link_width = 16;
  facts.nvml.processes = 0;
  facts.nvml.slowdown_reasons = 1;  // idle
  facts.nvml.free_bytes = 1.4e11;
  return facts;
}

TEST(DoctorDevice, a_good_device_has_no_advice) {
  DriverFacts driver;
  driver.kernels = built_kernels("90", {});
  EXPECT_EQ(worst_of(device_lines(h200(), driver)), Level::ok);
  EXPECT_NEAR(link_gb_per_s(h200().nvml), 63, 0.1);
  EXPECT_THAT(summary_of(h200()), HasSubstr("NVIDIA H200"));
}

TEST(DoctorDevice, what_stops_or_slows_a_device_is_told) {
  auto facts = h200();
  facts.compute_mode = 2;
  EXPECT_EQ(level_of(device_lines(facts, {}), "compute-mode"), Level::bad);
  facts.compute_mode = 3;
  EXPECT_EQ(level_of(device_lines(facts, {}), "compute-mode"), Level::note);
  facts.nvml.link_width = 8;
  EXPECT_EQ(level_of(device_lines(facts, {}), "link"), Level::slow);
  facts.nvml.slowdown_reasons = 0x40;
  auto const line = the_line(device_lines(facts, {}), "clocks");
  EXPECT_EQ(line.level, Level::slow);
  EXPECT_EQ(line.value, "temperature, by hardware");
  facts.nvml.free_bytes = 1e10;
  EXPECT_EQ(level_of(device_lines(facts, {}), "device-memory"), Level::note);
}

TEST(DoctorDevice, the_free_memory_of_a_whole_gpu_is_not_that_of_its_instances) {
  auto facts = h200();
  facts.memory_bytes = 2e10;
  facts.nvml.mig = false;
  EXPECT_THAT(the_line(device_lines(facts, {}), "device-memory").value, HasSubstr("free"));
  facts.nvml.mig = true;
  EXPECT_THAT(the_line(device_lines(facts, {}), "device-memory").value,
              ::testing::Not(HasSubstr("free")));
}

TEST(DoctorDevice, a_process_on_another_node_is_slow) {
  msstream::testing::TemporaryFolder const folder;
  auto const device = folder / "sys/bus/pci/devices/0000:1b:00.0";
  std::filesystem::create_directories(device);
  std::filesystem::create_directories(folder / "proc/self");
  std::ofstream(device / "local_cpulist") << "8-15\n";
  std::ofstream(folder / "proc/self/status") << "Cpus_allowed_list:\t0-9\n";
  auto facts = h200();
  add_nearness(facts, folder.path());
  EXPECT_EQ(the_line(device_lines(facts, {}), "near-processors").value, "unknown");
  facts.bus_id = "0000:1b:00.0";
  add_nearness(facts, folder.path());
  EXPECT_EQ(facts.near_processors, 8);
  EXPECT_EQ(facts.near_allowed, 2);
  EXPECT_EQ(level_of(device_lines(facts, {}), "near-processors"), Level::ok);
  std::ofstream(folder / "proc/self/status") << "Cpus_allowed_list:\t0-3\n";
  add_nearness(facts, folder.path());
  EXPECT_EQ(level_of(device_lines(facts, {}), "near-processors"), Level::slow);
}

TEST(DoctorDevice, mps_is_told) {
  EXPECT_EQ(mps_line({"/tmp/nvidia-mps", false}).level, Level::ok);
  auto const line = mps_line({"/tmp/nvidia-mps", true});
  EXPECT_EQ(line.level, Level::note);
  EXPECT_THAT(line.value, HasSubstr("/tmp/nvidia-mps"));
}

}  // namespace
}  // namespace msstream::doctor
