// SPDX-License-Identifier: Apache-2.0
#include "doctor/time_limit.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>

namespace msstream::doctor {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(DoctorTimeLimit, a_check_that_hangs_is_named) {
  std::promise<std::string> expired;
  TimeLimit limit(milliseconds(1), [&](std::string const& check) { expired.set_value(check); });
  limit.begin("the driver");
  EXPECT_EQ(expired.get_future().get(), "the driver");
}

TEST(DoctorTimeLimit, checks_that_end_are_not) {
  int expired = 0;
  {
    TimeLimit limit(hours(1), [&](std::string const&) { ++expired; });
    limit.begin("one");
    limit.begin("two");
    limit.end();
  }
  {
    TimeLimit const unused(milliseconds(0), [&](std::string const&) { ++expired; });
  }
  EXPECT_EQ(expired, 0);
}

}  // namespace
}  // namespace msstream::doctor
