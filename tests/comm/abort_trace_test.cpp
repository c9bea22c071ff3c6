// SPDX-License-Identifier: Apache-2.0
#include "comm/abort_trace.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace msstream::testing {
namespace {

TEST(AbortTraceDeathTest, has_the_addresses_of_the_calls) {
  EXPECT_DEATH(std::abort(), "test_comm\\(.*\\[0x[0-9a-f]+\\]");
}

}  // namespace
}  // namespace msstream::testing
