// SPDX-License-Identifier: Apache-2.0
// Tests that times which are hardly right are noted with their event.
#include "overlap/recording/doubts.hpp"

#include "overlap/find/hand_made.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace msstream::overlap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Ten kernels of 10 us, each 6 us after its call.
HandMade ten_kernels() {
  HandMade program(1);
  for (int i = 0; i < 10; ++i) {
    program.kernel(0, 20.0 * i, 20.0 * i + 6, 20.0 * i + 16);
  }
  return program;
}

std::vector<std::string> doubts_of(HandMade& program) {
  program.recording.sort();
  note_doubtful_times(program.recording);
  return program.recording.notes;
}

TEST(DoubtsTest, usual_times_are_not_doubted) {
  auto program = ten_kernels();
  program.call(CallKind::synchronize, 190, 1'000);
  program.recording.ranges.push_back({.time = {0, 5'000'000}});
  EXPECT_THAT(doubts_of(program), IsEmpty());
}

TEST(DoubtsTest, kernels_without_a_length_are_named) {
  auto program = ten_kernels();
  program.recording.activities[4].time.end = program.recording.activities[4].time.begin;
  EXPECT_THAT(doubts_of(program),
              ElementsAre(HasSubstr("1 kernel has no length, and counts as no time: kernel 4 on "
                                    "stream 0 at 0.086 ms")));
}

TEST(DoubtsTest, work_far_from_all_other_work_is_named_with_a_window_without_it) {
  for (bool const is_early : {false, true}) {
    auto program = ten_kernels();
    auto& time = program.recording.activities[is_early ? 0 : 9].time;
    time.begin += is_early ? -5'000'000'000 : 5'000'000'000;
    time.end += is_early ? -5'000'000'000 : 5'000'000'000;
    EXPECT_THAT(doubts_of(program),
                ElementsAre(HasSubstr(is_early ? "--window 0.026ms:0.196ms leaves it out"
                                               : "--window 0.006ms:0.176ms leaves it out")));
  }
}

TEST(DoubtsTest, work_that_is_far_longer_than_all_other_work_is_named) {
  auto program = ten_kernels();
  program.recording.activities[3].time.end += 900'000'000;
  EXPECT_THAT(doubts_of(program),
              ElementsAre(HasSubstr("kernel 3 on stream 0 at 0.066 ms takes 900 ms, and all other "
                                    "work is within 190 µs")));
}

TEST(DoubtsTest, a_call_that_goes_on_beside_others_of_its_thread_ends_with_the_next_one) {
  auto program = ten_kernels();
  program.recording.calls[2].time.end += 700'000'000;
  EXPECT_THAT(doubts_of(program), ElementsAre(HasSubstr("call() at 0.04 ms takes 700 ms")));
  EXPECT_EQ(program.recording.calls[2].time.end, program.recording.calls[3].time.begin);
}

TEST(DoubtsTest, a_range_that_ends_long_after_all_else_ends_with_it) {
  auto program = ten_kernels();
  program.recording.ranges.push_back(
      {.time = {100'000, 900'000'000}, .name = program.recording.names.id_of("step")});
  EXPECT_THAT(doubts_of(program),
              ElementsAre(HasSubstr("1 range ends long after all else, and counts until that: "
                                    "step at 0.1 ms ends 900 ms later")));
  EXPECT_EQ(program.recording.ranges[0].time.end, 196'000);
}

}  // namespace
}  // namespace msstream::overlap
