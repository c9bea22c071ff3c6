// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda_fixture.hpp"

#include <msstream/memory/device.hpp>

#include <cuda_runtime_api.h>

#include <fmt/core.h>

#include <exception>
#include <string>

namespace fake_cuda {
namespace {

using ::testing::HasSubstr;

std::string refusal() {
  try {
    Device const device;
  } catch (std::exception const& error) {
    return error.what();
  }
  return {};
}

class DriverVersionTest : public FakeCudaTest {};

TEST_F(DriverVersionTest, a_driver_that_is_too_old_is_told_with_both_versions) {
  EXPECT_EQ(ms::Cuda::why_no_device(), "");
  DriverVersion const old(12'020);
  EXPECT_EQ(ms::Cuda::device_count(), 0);
  for (auto const& text : {ms::Cuda::why_no_device(), refusal()}) {
    EXPECT_THAT(text, HasSubstr("the driver supports CUDA 12.2"));
    EXPECT_THAT(text, HasSubstr(fmt::format("needs {}.0 or newer", CUDART_VERSION / 1000)));
    EXPECT_THAT(text, HasSubstr("msstream-doctor"));
  }
}

TEST_F(DriverVersionTest, a_missing_driver_is_told) {
  DriverVersion const none(0);
  EXPECT_THAT(ms::Cuda::why_no_device(), HasSubstr("there is no driver"));
  EXPECT_THAT(refusal(), HasSubstr("0 visible (there is no driver of NVIDIA"));
}

}  // namespace
}  // namespace fake_cuda
