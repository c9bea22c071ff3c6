// SPDX-License-Identifier: Apache-2.0
#include "training/loss_watch.hpp"

#include "training/float16_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace msstream::training {
namespace {

using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string nothing() {
  return {};
}

/// Returns the message of the failure after this loss, or an empty text if there is none.
std::string failure_of(LossWatch& watch, std::int64_t step, float loss) {
  try {
    watch.note(step, loss, [] { return std::string("first overflow: here"); });
  } catch (Diverged const& error) {
    EXPECT_EQ(error.step(), step);
    return error.what();
  }
  return {};
}

TEST(LossWatchTest, without_a_scale_the_first_loss_that_is_not_finite_ends_the_training) {
  for (float const loss : {kNan, kInfinity, -kInfinity}) {
    LossWatch watch(false, 0.5F);
    EXPECT_NO_THROW(watch.note(1, 3e38F, nothing));
    auto const message = failure_of(watch, 2, loss);
    EXPECT_THAT(message, HasSubstr("training diverged: the loss of step 2 is "));
    EXPECT_THAT(message, HasSubstr("try a smaller --lr than 0.5"));
    EXPECT_THAT(message, HasSubstr("too large\nfirst overflow: here"));
  }
}

TEST(LossWatchTest, with_a_scale_many_in_a_row_end_it) {
  LossWatch watch(true, 0.5F);
  std::int64_t step = 0;
  auto const overflow = [&](std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_NO_THROW(watch.note(++step, i % 2 == 0 ? kNan : kInfinity, nothing)) << i;
    }
  };
  overflow(LossWatch::kMostOverflows - 1);
  EXPECT_NO_THROW(watch.note(++step, 0.5F, nothing));
  overflow(LossWatch::kMostOverflows - 1);
  auto const message = failure_of(watch, ++step, kNan);
  EXPECT_THAT(message, HasSubstr("training diverged: the losses of 16 steps in a row overflow"));
  EXPECT_THAT(message, HasSubstr("that of step 32 is nan"));
  EXPECT_THAT(message, HasSubstr("try --precision bf16, or a smaller --lr than 0.5\nfirst"));
}

TEST(SkippedWarning, is_for_runs_of_which_most_steps_were_skipped) {
  Float16Options options;
  EXPECT_EQ(skipped_warning(options, 0, 0), "");
  EXPECT_EQ(skipped_warning(options, 6, 12), "");
  EXPECT_EQ(skipped_warning(options, 7, 12),
            "warning: 7 of 12 steps were skipped, because float16 overflowed; try --precision "
            "bf16\n");
  options.loss_scale = "1e30";
  EXPECT_THAT(skipped_warning(options, 12, 12),
              HasSubstr("12 of 12 steps were skipped, because float16 overflowed; try a smaller "
                        "--loss-scale than 1e30, or --precision bf16"));
}

}  // namespace
}  // namespace msstream::training
