// SPDX-License-Identifier: Apache-2.0
#include "training/dashboard_option.hpp"

#include "training/diverged.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <limits>
#include <stdexcept>

namespace msstream::training {
namespace {

using dashboard::EndStatus;

TEST(EndOf, says_how_a_program_ends) {
  auto const finished = end_of(nullptr);
  EXPECT_EQ(finished.status, EndStatus::finished);
  EXPECT_EQ(finished.text, "finished");
  auto const failed = end_of(std::make_exception_ptr(std::runtime_error("out of paper")));
  EXPECT_EQ(failed.status, EndStatus::failed);
  EXPECT_EQ(failed.text, "failed: out of paper");
  Diverged const error(17, std::numeric_limits<float>::infinity(), 0.5F);
  EXPECT_THAT(error.what(),
              ::testing::HasSubstr("the loss of step 17 is inf; try a smaller --lr than 0.5"));
  auto const diverged = end_of(std::make_exception_ptr(error));
  EXPECT_EQ(diverged.status, EndStatus::diverged);
  EXPECT_EQ(diverged.text, "diverged at step 17");
}

}  // namespace
}  // namespace msstream::training
