// SPDX-License-Identifier: Apache-2.0
// Mixtures of causes: what the tool says first, and what it predicts, against what the simulator
// says of the same program without the cause.
#include "overlap/cases/mixtures.hpp"

#include "overlap/find/find.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace msstream::overlap::cases {
namespace {

double length_in_ns(Recording const& recording) {
  return static_cast<double>(recording.extent()->length());
}

/// The first finding of a program should be a cause without which the program gains about as much
/// as without any other one, and as much as is predicted.
TEST(MixturesTest, the_first_finding_brings_the_most) {
  constexpr std::uint32_t kPrograms = 80;
  constexpr double kLeastGain = 0.08;  // of the window: with less, nothing is worth finding
  constexpr double kAlmost = 0.7;      // of the largest gain
  int tried = 0;
  int right = 0;
  int near = 0;
  for (std::uint32_t number = 1; number <= kPrograms; ++number) {
    Mixture const mixture(number);
    auto const recording = mixture.run();
    auto const before = length_in_ns(recording);
    auto const findings = find(recording).findings;
    double most = 0;
    double of_first = -1;
    std::string text;
    for (auto const cause : mixture.causes()) {
      auto const gain = 1 - length_in_ns(mixture.run_without(cause)) / before;
      text += " " + std::string(text_of(cause).id) + " " + std::to_string(gain);
      most = std::max(most, gain);
      if (!findings.empty() && findings.front().cause == cause) {
        of_first = gain;
      }
    }
    if (most < kLeastGain) {
      continue;
    }
    ++tried;
    bool const is_right = of_first >= kAlmost * most;
    right += is_right ? 1 : 0;
    auto const predicted = is_right && findings.front().prediction
                               ? 1 - static_cast<double>(findings.front().prediction->after) /
                                         static_cast<double>(findings.front().prediction->before)
                               : -1;
    bool const is_near = std::abs(predicted - of_first) <= std::max(0.25 * of_first, 0.05);
    near += is_right && is_near ? 1 : 0;
    if (!is_right || !is_near) {
      std::printf(
          "%s %u: found %s, predicted %.2f; true:%s\n",
          is_right ? "off  " : "WRONG",
          number,
          findings.empty() ? "none" : std::string(text_of(findings.front().cause).id).c_str(),
          predicted,
          text.c_str());
    }
  }
  std::printf("%d of %d right, %d of %d predicted\n", right, tried, near, right);
  EXPECT_GE(tried, 70);
  EXPECT_GE(10 * right, 9 * tried);
  EXPECT_GE(10 * near, 9 * right);
}

}  // namespace
}  // namespace msstream::overlap::cases
