// SPDX-License-Identifier: Apache-2.0
// Tests that clocks of devices which are apart from the host's are moved or named.
#include "overlap/recording/clocks.hpp"

#include "overlap/find/find.hpp"
#include "overlap/find/hand_made.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msstream::overlap {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Kernels that begin 6 us after their calls began, on a clock that is `later` by some us; the host
/// waits for each if `waits`.
HandMade kernels_on_another_clock(double later, bool waits) {
  HandMade program(1);
  for (int i = 0; i < 20; ++i) {
    double const at = 1'000 + 30.0 * i;
    program.kernel(0, at, at + 6 + later, at + 16 + later);
    if (waits) {
      auto const call = program.call(CallKind::synchronize, at + 3, at + 18);
      program.recording.syncs.push_back(
          {program.recording.calls[call].time, SyncKind::device, call, kNone, kNone, kNone});
    }
  }
  program.recording.sort();
  align_devices(program.recording);
  return program;
}

TEST(ClocksTest, work_before_its_call_is_moved_behind_it) {
  for (bool const waits : {false, true}) {
    auto const program = kernels_on_another_clock(-500, waits);
    EXPECT_EQ(program.recording.activities.front().time.begin, 1'000'000);
    EXPECT_THAT(program.recording.notes, Contains(HasSubstr("was moved by 494 µs")));
    EXPECT_FALSE(find(program.recording).findings.empty());
  }
}

TEST(ClocksTest, work_after_the_host_waited_for_it_is_moved_before_the_end_of_the_wait) {
  auto const program = kernels_on_another_clock(200, true);
  EXPECT_EQ(program.recording.activities.front().time.end, 1'018'000);
  EXPECT_THAT(program.recording.notes, Contains(HasSubstr("was moved by -198 µs")));
}

TEST(ClocksTest, work_long_after_its_call_is_named) {
  auto const program = kernels_on_another_clock(200, false);
  EXPECT_EQ(program.recording.activities.front().time.begin, 1'206'000);
  EXPECT_THAT(program.recording.notes, Contains(HasSubstr("begins 206 µs or more after its call")));
}

TEST(ClocksTest, clocks_that_agree_are_left) {
  for (double const later : {-8.0, 0.0, 8.0}) {
    for (bool const waits : {false, true}) {
      EXPECT_THAT(kernels_on_another_clock(later, waits).recording.notes, IsEmpty());
    }
  }
}

/// One correlation is wrong: the kernel seems to begin 20 ms before its call.
TEST(ClocksTest, one_wrong_call_moves_no_clock) {
  HandMade program(1);
  for (int i = 0; i < 20; ++i) {
    program.kernel(0, i == 7 ? 20'000 : 30.0 * i, 30.0 * i + 6, 30.0 * i + 16);
  }
  program.recording.sort();
  align_devices(program.recording);
  EXPECT_EQ(program.recording.activities.front().time.begin, 6'000);
  EXPECT_THAT(program.recording.notes, Not(Contains(HasSubstr("was moved"))));
  EXPECT_THAT(
      program.recording.notes,
      Contains(HasSubstr("kernel 7 on stream 0 at 0.216 ms begins 19.8 ms before its call")));
}

/// One kernel has a time long before all that the host did.
TEST(ClocksTest, one_wrong_time_before_the_first_call_is_left_out) {
  HandMade program(1);
  for (int i = 0; i < 20; ++i) {
    double const wrong = i == 7 ? -20'000 : 0;
    program.kernel(0, 30.0 * i, 30.0 * i + 6 + wrong, 30.0 * i + 16 + wrong);
  }
  program.recording.sort();
  align_devices(program.recording);
  EXPECT_EQ(program.recording.activities.size(), 19U);
  EXPECT_THAT(program.recording.notes,
              ::testing::ElementsAre(HasSubstr("kernel 7 on stream 0 at -19.784 ms")));
  EXPECT_THAT(program.recording.notes,
              Contains(HasSubstr("left out 1 activity long before the first call of the host")));
}

/// A kernel seems to begin 2 ms before its call: its time is wrong, and not the clock of all.
TEST(ClocksTest, one_wrong_time_moves_no_clock) {
  HandMade program(1);
  for (int i = 0; i < 100; ++i) {
    double const wrong = i == 90 ? -2'000 : 0;
    program.kernel(0, 30.0 * i, 30.0 * i + 6 + wrong, 30.0 * i + 16 + wrong);
  }
  program.recording.sort();
  align_devices(program.recording);
  EXPECT_EQ(program.recording.activities.front().time.begin, 6'000);
  EXPECT_THAT(
      program.recording.notes,
      ::testing::ElementsAre(HasSubstr("1 activity begins before the call that issued it")));
}

}  // namespace
}  // namespace msstream::overlap
