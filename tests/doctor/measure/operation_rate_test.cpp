// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/operation_rate.hpp"

#include <msstream/runtime/host.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

namespace msstream::doctor {
namespace {

TEST(DoctorOperationRate, groups_end_if_the_caller_fails) {
  auto const rate = [](std::function<bool()> const& begin) {
    return operation_rate(
        Device<Host>(), 2, std::chrono::milliseconds(5), [](auto) {}, begin);
  };
  EXPECT_GT(rate([] { return true; }), 0);
  EXPECT_EQ(rate([] { return false; }), 0);
  EXPECT_THROW(static_cast<void>(rate([]() -> bool { throw std::runtime_error("lost"); })),
               std::runtime_error);
}

}  // namespace
}  // namespace msstream::doctor
