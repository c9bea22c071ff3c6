// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/operation_rate.hpp"

#include <msstream/runtime/host.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <vector>

namespace msstream::doctor {
namespace {

TEST(DoctorOperationRate, groups_end_if_the_caller_fails) {
  auto const rate = [](std::function<bool()> const& begin) {
    return operation_rate(
        Device<Host>(), {.groups = 2, .length = std::chrono::milliseconds(5)}, [](auto) {}, begin);
  };
  auto const run = rate([] { return true; });
  EXPECT_GT(run.per_second, 0);
  EXPECT_GT(run.p50_us, 0);
  EXPECT_GE(run.p99_us, run.p50_us);
  EXPECT_EQ(rate([] { return false; }).per_second, 0);
  EXPECT_THROW(static_cast<void>(rate([]() -> bool { throw std::runtime_error("lost"); })),
               std::runtime_error);
}

TEST(DoctorOperationRate, a_batch_takes_at_least_the_time_of_its_operations) {
  using namespace std::chrono_literals;
  auto const run = operation_rate(
      Device<Host>(),
      {.groups = 1, .operations_of_batch = 2, .length = 20ms},
      [](HostStream stream) {
        stream.run([] {
          for (auto const until = std::chrono::steady_clock::now() + 500us;
               std::chrono::steady_clock::now() < until;) {
          }
        });
      },
      [] { return true; });
  EXPECT_GE(run.p50_us, 1000);
  EXPECT_LE(run.per_second, 2000);
}

TEST(DoctorOperationRate, quantiles_are_values_that_were_measured) {
  std::vector<double> values;
  for (int i = 100; i > 0; --i) {
    values.push_back(i);
  }
  EXPECT_EQ(quantile_of(values, 0.5), 50);
  EXPECT_EQ(quantile_of(values, 0.99), 99);
  EXPECT_EQ(quantile_of({3}, 0.99), 3);
  EXPECT_EQ(quantile_of({}, 0.5), 0);
}

}  // namespace
}  // namespace msstream::doctor
