// SPDX-License-Identifier: Apache-2.0
// Tests what of a recording is replayed, and how predictions follow from it.
#include "overlap/find/find.hpp"
#include "overlap/find/hand_made.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace msstream::overlap {
namespace {

Report replayed_report(HandMade& program, FindOptions const& options = {}) {
  program.recording.sort();
  return find(program.recording, options);
}

Finding const* replayed_finding(Report const& report, Cause cause) {
  auto const found = std::ranges::find(report.findings, cause, &Finding::cause);
  return found == report.findings.end() ? nullptr : &*found;
}

/// Appends short kernels, each right after its launch, and returns the time after the last one.
double add_short_kernels(HandMade& program, double at, int count) {
  for (int i = 0; i < count; ++i, at += 7) {
    program.kernel(0, at, at + 6, at + 8);
  }
  return at;
}

/// Appends kernels that were launched far ahead, and returns the end of the last one.
double add_long_kernels(HandMade& program, double at, int count) {
  for (int i = 0; i < count; ++i) {
    program.kernel(0, at + 2.5 * i, at + 10 + 300.0 * i, at + 10 + 300.0 * (i + 1));
  }
  return at + 10 + 300.0 * count;
}

/// A quarter of the time is 101,000 short kernels, and the rest is busy: the gain is what the
/// device idled.
TEST(ReplayedTest, all_of_a_long_recording_is_replayed) {
  HandMade program(1);
  add_long_kernels(program, add_short_kernels(program, 0, 101'000), 7'000);
  auto const report = replayed_report(program);
  auto const* const finding = replayed_finding(report, Cause::launch_bound);
  ASSERT_NE(finding, nullptr);
  ASSERT_TRUE(finding->prediction);
  auto const gain = static_cast<double>(finding->prediction->before - finding->prediction->after);
  EXPECT_NEAR(gain, static_cast<double>(finding->lost), 0.2 * static_cast<double>(finding->lost));
  EXPECT_LE(report.replay->error(), 0.01);
}

}  // namespace
}  // namespace msstream::overlap
