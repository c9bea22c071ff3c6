// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/architectures.hpp"

#include "doctor/facts/device.hpp"
#include "doctor/facts/driver.hpp"
#include "find_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace msstream::doctor {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Returns the line about a device with a compute capability such as 90, for kernels that were
/// compiled by CUDA 13.0 for `list`.
Line kind_line(int capability, std::string_view list, int supports = 13'000, int toolkit = 13'000) {
  DriverFacts driver;
  driver.is_cuda_build = true;
  driver.toolkit = toolkit;
  driver.supports = supports;
  driver.kernels = built_kernels(list, {75, 80, 90, 100, 120, 121});
  DeviceFacts device;
  device.capability = capability;
  return the_line(device_lines(device, driver), "device");
}

Level level_for(int capability, std::string_view list) {
  return kind_line(capability, list).level;
}

TEST(DoctorArchitectures, machine_code_runs_on_later_devices_of_its_major_version) {
  EXPECT_EQ(level_for(90, "80-real;90-real"), Level::ok);
  EXPECT_EQ(level_for(86, "80-real"), Level::ok);
  EXPECT_EQ(level_for(80, "86-real"), Level::bad);
  EXPECT_EQ(level_for(90, "80-real"), Level::bad);
  EXPECT_EQ(level_for(90, ""), Level::ok);  // unknown
}

TEST(DoctorArchitectures, ptx_is_compiled_for_newer_devices_only) {
  EXPECT_EQ(level_for(90, "80"), Level::slow);
  EXPECT_EQ(level_for(120, "75-real,90"), Level::slow);
  // The only PTX is for 9.0, and the machine code for 7.5.
  EXPECT_EQ(level_for(80, "75-real;90"), Level::bad);
  EXPECT_EQ(level_for(90, "100"), Level::bad);
}

TEST(DoctorArchitectures, a_virtual_architecture_is_no_machine_code) {
  EXPECT_EQ(level_for(90, "90-virtual"), Level::slow);
  EXPECT_EQ(level_for(90, "90-real;90-virtual"), Level::ok);
  EXPECT_EQ(level_for(80, "90-virtual"), Level::bad);
}

TEST(DoctorArchitectures, an_older_driver_compiles_no_ptx) {
  auto const line = kind_line(120, "90", 13'000, 13'050);
  EXPECT_EQ(line.level, Level::bad);
  EXPECT_THAT(
      line.advice,
      AllOf(HasSubstr("CUDA 13.0 cannot compile PTX of CUDA 13.5"), HasSubstr("CUDAARCHS=120")));
  EXPECT_EQ(kind_line(90, "90", 13'000, 13'050).level, Level::ok);
  EXPECT_EQ(kind_line(90, "90-virtual", 13'000, 13'050).level, Level::bad);
  EXPECT_EQ(kind_line(120, "90", 13'050, 13'050).level, Level::slow);
  EXPECT_EQ(kind_line(120, "90", 0, 13'050).level, Level::slow);  // an unknown driver
}

TEST(DoctorArchitectures, code_of_one_device_runs_on_no_other) {
  EXPECT_EQ(level_for(90, "90a"), Level::ok);
  EXPECT_EQ(level_for(100, "90a"), Level::bad);  // its PTX is no plain PTX
  EXPECT_EQ(level_for(103, "100a-real"), Level::bad);
  EXPECT_EQ(level_for(90, "90a-virtual"), Level::slow);
}

TEST(DoctorArchitectures, code_of_a_family_runs_in_it) {
  EXPECT_EQ(level_for(103, "100f"), Level::ok);
  EXPECT_EQ(level_for(103, "100f-virtual"), Level::slow);
  EXPECT_EQ(level_for(120, "100f"), Level::bad);
  EXPECT_EQ(level_for(101, "100f"), Level::bad);
  EXPECT_EQ(level_for(103, "101f"), Level::bad);
  EXPECT_EQ(level_for(100, "103f"), Level::bad);
}

TEST(DoctorArchitectures, names_for_many_stand_for_what_nvcc_compiled) {
  EXPECT_EQ(level_for(90, "native"), Level::ok);
  EXPECT_EQ(built_kernels("native", {90}).ptx.size(), 0U);  // nvcc makes none
  EXPECT_EQ(text_of(built_kernels("all", {75, 90, 120, 121})),
            "sm_75, sm_90, sm_120, sm_121 and PTX of compute_120");
  EXPECT_EQ(text_of(built_kernels("all-major", {75, 80, 120})),
            "sm_75, sm_80, sm_120 and PTX of compute_120");
  EXPECT_EQ(text_of(built_kernels("all", {})), "");
}

TEST(DoctorArchitectures, entries_are_read_once_and_unknown_ones_left_out) {
  EXPECT_EQ(text_of(built_kernels("90-real;90,OFF;;90x;-real;a", {})),
            "sm_90 and PTX of compute_90");
  EXPECT_EQ(text_of(built_kernels("90a-real,100f-virtual", {})), "sm_90a and PTX of compute_100f");
  EXPECT_EQ(text_of(built_kernels("80-virtual", {})), "PTX of compute_80");
}

TEST(DoctorArchitectures, a_device_without_kernels_is_told_what_the_build_has) {
  EXPECT_THAT(
      kind_line(80, "75-real;90").advice,
      AllOf(HasSubstr("sm_75, sm_90 and PTX of compute_90"), Not(HasSubstr("cannot compile"))));
}

}  // namespace
}  // namespace msstream::doctor
