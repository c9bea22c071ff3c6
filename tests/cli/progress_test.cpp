// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace msstream::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Kind = ProgressStyle::Kind;

class ProgressTest : public ::testing::Test {
 protected:
  Progress progress(Kind kind, std::size_t width = 80, bool colour = false) {
    return {
        {.kind = kind, .colour = colour, .width = width, .out = &out_}, "epoch 1/2", 1000, [this] {
          return now_;
        }};
  }
  void pass(int milliseconds) { now_ += std::chrono::milliseconds(milliseconds); }
  [[nodiscard]] auto frames() const { return std::ranges::count(out_.str(), '\r'); }

  std::ostringstream out_;
  Progress::Clock::time_point now_{};
};

TEST_F(ProgressTest, lines_come_once_a_tenth) {
  auto shown = progress(Kind::lines);
  for (int rows = 1; rows <= 1000; ++rows) {
    pass(1);
    shown.update(rows, 0.25);
  }
  shown.finish();
  EXPECT_EQ(std::ranges::count(out_.str(), '\n'), 10);
  EXPECT_THAT(out_.str(), HasSubstr("epoch 1/2  10%  1,000 rows/s  loss 0.2500  left 0:01\n"));
  EXPECT_THAT(out_.str(), HasSubstr("epoch 1/2  100%  1,000 rows/s  loss 0.2500  took 0:01\n"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("\x1b")));
}

TEST_F(ProgressTest, a_bar_is_drawn_at_most_ten_times_a_second) {
  auto shown = progress(Kind::bar);
  for (int step = 0; step <= 1000; ++step) {
    shown.update(step);
    pass(1);
  }
  EXPECT_EQ(frames(), 11) << "at 0, 100, … 1,000 ms";
}

TEST_F(ProgressTest, a_bar_fits_the_terminal_whatever_its_width) {
  for (std::size_t width = 1; width <= 120; ++width) {
    out_.str("");
    auto shown = progress(Kind::bar, width);
    pass(500);
    shown.update(500, 0.5);
    auto const frame = out_.str();
    auto const visible = frame.size() - std::string("\r\x1b[K").size();
    EXPECT_LE(visible, std::max<std::size_t>(width - 1, 1)) << width;
  }
}

TEST_F(ProgressTest, a_bar_shows_how_far_it_is) {
  auto shown = progress(Kind::bar, 120);
  pass(500);
  shown.update(500);
  auto const frame = out_.str();
  EXPECT_THAT(frame, HasSubstr(std::string(20, '#') + std::string(20, '.')));
  EXPECT_THAT(frame, HasSubstr("50%  1,000 rows/s  left 0:01"));
}

TEST_F(ProgressTest, colour_only_when_asked) {
  auto plain = progress(Kind::bar);
  plain.update(1);
  EXPECT_THAT(out_.str(), Not(HasSubstr("\x1b[32m")));
  auto coloured = progress(Kind::bar, 80, true);
  coloured.update(1);
  EXPECT_THAT(out_.str(), HasSubstr("\x1b[32m"));
}

TEST_F(ProgressTest, leaves_the_cursor_on_its_own_line) {
  {
    auto abandoned = progress(Kind::bar);
    abandoned.update(10);
  }
  EXPECT_TRUE(out_.str().ends_with('\n'));
  out_.str("");
  {
    auto finished = progress(Kind::bar);
    finished.finish();
  }
  EXPECT_EQ(std::ranges::count(out_.str(), '\n'), 1);
}

TEST_F(ProgressTest, quiet_is_silent) {
  auto shown = progress(Kind::quiet);
  shown.update(500, 1.0);
  shown.finish();
  EXPECT_EQ(out_.str(), "");
}

TEST_F(ProgressTest, no_rows_and_no_time_divide_nothing) {
  Progress shown({.kind = Kind::lines, .out = &out_}, "none", 0, [this] { return now_; });
  shown.finish();
  EXPECT_EQ(out_.str(), "none  100%  0 rows/s  took 0:00\n");
}

TEST(ProgressTexts, group_thousands_and_spell_times) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(clock_text(std::chrono::seconds(7)), "0:07");
  EXPECT_EQ(clock_text(std::chrono::seconds(754)), "12:34");
  EXPECT_EQ(clock_text(std::chrono::seconds(3723)), "1:02:03");
}

TEST(ProgressStyleTest, quiet_wins) {
  EXPECT_EQ(ProgressStyle::of_stderr(true).kind, Kind::quiet);
}

TEST(ProgressStyleTest, a_style_that_shows_something_needs_a_stream) {
  EXPECT_THROW(Progress({.kind = Kind::lines}, "x", 1), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::cli
