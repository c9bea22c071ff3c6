// SPDX-License-Identifier: Apache-2.0
// Compares predictions for planted programs with the simulated times of their fixed twins.
#include "overlap/cases/case.hpp"
#include "overlap/find/find.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap::cases {
namespace {

struct Gains {
  double predicted = 0;  ///< parts of the window
  double true_gain = 0;

  /// Within 25% of the true gain, or 5% of the window.
  [[nodiscard]] bool is_near() const {
    return std::abs(predicted - true_gain) <= std::max(0.25 * std::abs(true_gain), 0.05);
  }
};

/// Returns the gains of the first finding, or of all if there are two causes; nothing without a
/// prediction for the planted cause.
std::optional<Gains> gains_of(Case const& one) {
  auto const ranks = one.build(false);
  auto const report = ranks.size() == 1 ? find(ranks.front()) : find(ranks).front();
  if (report.findings.empty() || report.findings.front().cause != one.expected) {
    return std::nullopt;
  }
  auto const& prediction = one.second ? report.together : report.findings.front().prediction;
  if (!prediction) {
    return std::nullopt;
  }
  auto const before = static_cast<double>(ranks.front().extent()->length());
  auto const after = static_cast<double>(one.build(true).front().extent()->length());
  return Gains{1 - static_cast<double>(prediction->after) / static_cast<double>(prediction->before),
               1 - after / before};
}

/// Most fixes of planted programs gain what was predicted. Those that do not are printed: a twin
/// may change more than a fix does.
TEST(PredictedCases, gains_are_those_of_the_fixed_twins) {
  int tried = 0;
  int near = 0;
  for (auto const& one : all_cases()) {
    auto const gains = gains_of(one);
    if (!gains) {
      continue;
    }
    ++tried;
    near += gains->is_near() ? 1 : 0;
    if (!gains->is_near()) {
      std::printf("off: %-24s predicted %5.1f%%, true %5.1f%%\n",
                  std::string(one.name).c_str(),
                  100 * gains->predicted,
                  100 * gains->true_gain);
    }
  }
  std::printf("%d of %d predictions are near\n", near, tried);
  EXPECT_GE(4 * near, 3 * tried);
}

/// Pauses of the tool that recorded lie between calls, and other threads wait while one loads.
TEST(PredictedCases, overheads_take_no_time_once_they_are_fixed) {
  auto const all = host_cases();
  for (std::string_view const name : {"recording_pauses", "first_launches", "lazy_kernels"}) {
    auto const found = std::ranges::find(all, name, &Case::name);
    ASSERT_NE(found, all.end());
    auto const gains = gains_of(*found);
    ASSERT_TRUE(gains) << name;
    EXPECT_TRUE(gains->is_near()) << name << " " << gains->predicted << " " << gains->true_gain;
  }
}

/// The last blocks of a kernel that fills the device wait for a kernel that ran before it, and take
/// as long as the others: the replay repeats that.
TEST(PredictedCases, blocks_that_wait_begin_when_the_others_end) {
  auto const all = wait_cases();
  auto const found = std::ranges::find(all, "urgent_behind_wide", &Case::name);
  ASSERT_NE(found, all.end());
  auto const report = find(found->build(false).front());
  ASSERT_TRUE(report.replay);
  EXPECT_LT(report.replay->error(), 0.01);
  auto const gains = gains_of(*found);
  ASSERT_TRUE(gains);
  EXPECT_TRUE(gains->is_near()) << gains->predicted << " " << gains->true_gain;
}

/// Of two requests in one stream, each may run beside the other: declared dependencies order them.
TEST(PredictedCases, moved_kernels_follow_what_they_need_alone) {
  auto const all = order_cases();
  auto const found = std::ranges::find(all, "one_session_stream", &Case::name);
  ASSERT_NE(found, all.end());
  auto const gains = gains_of(*found);
  ASSERT_TRUE(gains);
  EXPECT_TRUE(gains->is_near()) << gains->predicted << " " << gains->true_gain;
}

}  // namespace
}  // namespace msstream::overlap::cases
