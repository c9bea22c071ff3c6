// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/driver.hpp"

#include "base/temporary_folder.hpp"
#include "find_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace msstream::doctor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

DriverFacts good_driver() {
  DriverFacts facts;
  facts.is_cuda_build = true;
  facts.toolkit = facts.runtime = facts.supports = 13'000;
  facts.kernels = built_kernels("80-real;90", {});
  facts.driver = "580.65.06";
  facts.has_kernel_module = facts.has_device_files = true;
  facts.devices = 2;
  return facts;
}

TEST(DoctorDriver, a_driver_that_fits_is_ok) {
  auto const lines = driver_lines(good_driver());
  EXPECT_EQ(worst_of(lines), Level::ok);
  EXPECT_EQ(the_line(lines, "driver").value, "580.65.06, supports CUDA 13.0");
  EXPECT_EQ(the_line(lines, "build").value, "CUDA 13.0, for sm_80, sm_90 and PTX of compute_90");
}

TEST(DoctorDriver, a_driver_that_is_too_old_is_told_with_both_versions) {
  auto facts = good_driver();
  facts.driver = "535.104.05";
  facts.supports = 12'020;
  facts.devices = 0;
  auto const lines = driver_lines(facts);
  auto const line = the_line(lines, "driver");
  EXPECT_EQ(line.level, Level::bad);
  EXPECT_EQ(line.value, "535.104.05, supports CUDA 12.2");
  EXPECT_THAT(line.advice,
              AllOf(HasSubstr("supports CUDA 12.2"),
                    HasSubstr("needs CUDA 13.0"),
                    HasSubstr("drivers from 580 on")));
  EXPECT_EQ(level_of(lines, "devices"), Level::bad);
}

TEST(DoctorDriver, a_driver_of_the_same_major_version_works) {
  auto facts = good_driver();
  facts.toolkit = facts.runtime = 13'010;
  EXPECT_EQ(level_of(driver_lines(facts), "driver"), Level::note);
  facts.supports = 14'000;
  EXPECT_EQ(level_of(driver_lines(facts), "driver"), Level::ok);
}

TEST(DoctorDriver, without_a_driver_the_reason_is_told) {
  auto facts = good_driver();
  facts.driver.clear();
  facts.supports = facts.devices = 0;
  facts.has_kernel_module = false;
  auto line = the_line(driver_lines(facts), "driver");
  EXPECT_EQ(line.level, Level::bad);
  EXPECT_EQ(line.value, "none found");
  EXPECT_THAT(line.advice, HasSubstr("Install NVIDIA's driver"));
  facts.has_kernel_module = true;
  EXPECT_THAT(the_line(driver_lines(facts), "driver").advice, HasSubstr("--gpus all"));
}

TEST(DoctorDriver, a_build_for_the_host_needs_none) {
  DriverFacts facts;
  EXPECT_EQ(worst_of(driver_lines(facts)), Level::ok);
  facts.supports = 12'020;
  facts.devices = 1;
  EXPECT_THAT(the_line(driver_lines(facts, "Ask."), "devices").advice, HasSubstr("them. Ask."));
  EXPECT_EQ(worst_of(driver_lines(facts)), Level::note);
}

TEST(DoctorDriver, hidden_and_unreadable_devices_are_told_apart) {
  auto facts = good_driver();
  facts.devices = 0;
  facts.problem = "no CUDA-capable device is detected";
  EXPECT_THAT(the_line(driver_lines(facts), "devices").advice, HasSubstr(facts.problem));
  facts.has_device_files = false;
  EXPECT_THAT(the_line(driver_lines(facts), "devices").advice, HasSubstr("/dev/nvidiactl"));
  facts.is_device_hidden = true;
  EXPECT_THAT(the_line(driver_lines(facts), "devices").advice,
              AllOf(HasSubstr("CUDA_VISIBLE_DEVICES"), HasSubstr(facts.problem)));
  EXPECT_EQ(level_of(driver_lines(facts), "devices"), Level::bad);
}

TEST(DoctorDriver, a_management_library_that_does_not_work_is_told) {
  auto facts = good_driver();
  facts.has_nvml = true;
  facts.nvml_problem = "Driver/library version mismatch";
  auto const line = the_line(driver_lines(facts), "nvml");
  EXPECT_EQ(line.level, Level::bad);
  EXPECT_THAT(line.value, HasSubstr(facts.nvml_problem));
  EXPECT_THAT(line.advice, HasSubstr("Restart"));
  facts.nvml_problem = "Insufficient Permissions";
  EXPECT_EQ(level_of(driver_lines(facts), "nvml"), Level::note);
  // It comes with the driver: without one, it is not missed.
  DriverFacts none;
  none.nvml_problem = "libnvidia-ml.so.1: cannot open shared object file";
  EXPECT_EQ(driver_lines(none).size(), driver_lines({}).size());
  none.has_kernel_module = true;
  EXPECT_EQ(level_of(driver_lines(none), "nvml"), Level::note);
}

TEST(DoctorDriver, what_nvml_says_of_itself_is_kept) {
  NvmlFacts nvml;
  nvml.is_loaded = true;
  nvml.problem = "Driver/library version mismatch";
  auto const facts = read_driver(nvml, "/no/such/root");
  EXPECT_TRUE(facts.has_nvml);
  EXPECT_EQ(facts.nvml_problem, nvml.problem);
}

TEST(DoctorDriver, another_runtime_than_that_of_the_build_is_bad) {
  auto facts = good_driver();
  facts.runtime = 12'040;
  EXPECT_EQ(level_of(driver_lines(facts), "build"), Level::bad);
}

TEST(DoctorDriver, the_version_comes_from_the_kernel_module_without_nvml) {
  msstream::testing::TemporaryFolder const folder;
  std::filesystem::create_directories(folder / "proc/driver/nvidia");
  std::ofstream(folder / "proc/driver/nvidia/version")
      << "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15\n";
  auto const facts = read_driver({}, folder.path());
  EXPECT_EQ(facts.driver, "535.104.05");
  EXPECT_TRUE(facts.has_kernel_module);
  EXPECT_FALSE(facts.has_device_files);
  EXPECT_EQ(facts.supports, 0);
}

}  // namespace
}  // namespace msstream::doctor
