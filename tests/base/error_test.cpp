// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/require.hpp>
#include <msstream/base/error.hpp>
#include <msstream/base/shape.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace msstream {
namespace {

TEST(Require, formats_its_message_only_when_it_does_not_hold) {
  EXPECT_NO_THROW(require(true, "unused"));
  EXPECT_NO_THROW(require(true, "unused {}", 1));
  try {
    require(false, "rows {} of {}", 3, Shape{2});
    FAIL() << "did not throw";
  } catch (std::invalid_argument const& error) {
    EXPECT_STREQ(error.what(), "rows 3 of [2]");
  }
}

TEST(Errors, carry_code_call_and_place) {
  CudaError const error(700, "illegal address", "cudaEventQuery");
  std::string const message = error.what();
  EXPECT_EQ(error.code(), 700);
  EXPECT_NE(message.find("CUDA error 700 (illegal address) in cudaEventQuery at "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("error_test.cpp:"), std::string::npos) << message;

  OutOfMemory const exhausted(4096, "no room");
  EXPECT_EQ(exhausted.requested_bytes(), 4096U);
  EXPECT_STREQ(exhausted.what(), "no room");
}

}  // namespace
}  // namespace msstream
