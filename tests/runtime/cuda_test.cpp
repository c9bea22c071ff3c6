// SPDX-License-Identifier: Apache-2.0
#include <msstream/runtime/cuda.hpp>

#include <fmt/core.h>

#if MSSTREAM_CUDA

#include <msstream/base/error.hpp>

#include <gtest/gtest.h>

#include <string>

namespace msstream {
namespace {

TEST(CudaRuntime, refuses_a_device_that_is_not_there) {
  for (int const ordinal : {-1, Cuda::device_count()}) {
    try {
      Cuda const cuda({.ordinal = ordinal});
      FAIL() << "did not throw";
    } catch (CudaError const& error) {
      EXPECT_NE(std::string(error.what()).find(fmt::format("device {} asked", ordinal)),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace msstream

#endif
