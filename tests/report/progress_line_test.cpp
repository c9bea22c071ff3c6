// SPDX-License-Identifier: Apache-2.0
#include <msstream/report/progress_line.hpp>
#include <msstream/report/text.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <vector>

namespace msstream::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Kind = ProgressLine::Style::Kind;

class ProgressLineTest : public ::testing::Test {
 protected:
  ProgressLine progress(Kind kind,
                        std::size_t width = 80,
                        bool colour = false,
                        std::optional<std::int64_t> total = 1000) {
    return {
        "epoch 1/2", total, {.kind = kind, .colour = colour, .width = width, .out = &out_}, [this] {
          return now_;
        }};
  }
  void pass(int milliseconds) { now_ += std::chrono::milliseconds(milliseconds); }
  [[nodiscard]] auto frames() const { return std::ranges::count(out_.str(), '\r'); }

  std::ostringstream out_;
  ProgressLine::Clock::time_point now_{};
};

TEST_F(ProgressLineTest, lines_come_once_a_tenth) {
  auto shown = progress(Kind::lines);
  for (int rows = 1; rows <= 1000; ++rows) {
    pass(1);
    shown.update(rows, {{"loss", 0.25}});
  }
  shown.finish();
  EXPECT_EQ(std::ranges::count(out_.str(), '\n'), 10);
  EXPECT_THAT(out_.str(), HasSubstr("epoch 1/2  10%  1,000 rows/s  loss 0.2500  left 0:01\n"));
  EXPECT_THAT(out_.str(), HasSubstr("epoch 1/2  100%  1,000 rows/s  loss 0.2500  took 0:01\n"));
  EXPECT_THAT(out_.str(), Not(HasSubstr("\x1b")));
}

TEST_F(ProgressLineTest, the_end_has_one_line_however_few_updates_lead_there) {
  for (int const updates : {1, 2, 5}) {
    out_.str("");
    auto shown = progress(Kind::lines, 80, false, updates);
    for (int done = 1; done <= updates; ++done) {
      pass(1000);
      shown.update(done);
    }
    shown.finish();
    EXPECT_EQ(std::ranges::count(out_.str(), '\n'), updates) << out_.str();
    EXPECT_EQ(out_.str().find("100%"), out_.str().rfind("100%")) << out_.str();
  }
}

TEST_F(ProgressLineTest, a_bar_is_drawn_at_most_ten_times_a_second) {
  auto shown = progress(Kind::bar);
  for (int step = 0; step <= 1000; ++step) {
    shown.update(step);
    pass(1);
  }
  EXPECT_EQ(frames(), 11) << "at 0, 100, … 1,000 ms";
}

TEST_F(ProgressLineTest, a_bar_fits_the_terminal_whatever_its_width) {
  for (std::size_t width = 1; width <= 120; ++width) {
    out_.str("");
    auto shown = progress(Kind::bar, width);
    pass(500);
    shown.update(500, {{"loss", 0.5}});
    auto const frame = out_.str();
    auto const visible = frame.size() - std::string("\r\x1b[K").size();
    EXPECT_LE(visible, std::max<std::size_t>(width - 1, 1)) << width;
  }
}

TEST_F(ProgressLineTest, a_bar_shows_how_far_it_is) {
  auto shown = progress(Kind::bar, 120);
  pass(500);
  shown.update(500);
  auto const frame = out_.str();
  EXPECT_THAT(frame, HasSubstr(std::string(20, '#') + std::string(20, '.')));
  EXPECT_THAT(frame, HasSubstr("50%  1,000 rows/s  left 0:01"));
}

TEST_F(ProgressLineTest, colour_only_when_asked) {
  auto plain = progress(Kind::bar);
  plain.update(1);
  EXPECT_THAT(out_.str(), Not(HasSubstr("\x1b[32m")));
  auto coloured = progress(Kind::bar, 80, true);
  coloured.update(1);
  EXPECT_THAT(out_.str(), HasSubstr("\x1b[32m"));
}

TEST_F(ProgressLineTest, leaves_the_cursor_on_its_own_line) {
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

TEST_F(ProgressLineTest, quiet_is_silent) {
  auto shown = progress(Kind::quiet);
  shown.update(500, {{"loss", 1.0}});
  shown.finish();
  EXPECT_EQ(out_.str(), "");
}

TEST_F(ProgressLineTest, no_rows_and_no_time_divide_nothing) {
  ProgressLine shown("none", 0, {.kind = Kind::lines, .out = &out_}, [this] { return now_; });
  shown.finish();
  EXPECT_EQ(out_.str(), "none  100%  0 rows/s  took 0:00\n");
}

TEST_F(ProgressLineTest, the_end_is_what_was_done) {
  auto shown = progress(Kind::lines, 80, false, 10);
  pass(1000);
  shown.update(4);
  out_.str("");
  shown.finish();
  EXPECT_EQ(out_.str(), "epoch 1/2  40%  4 rows/s  took 0:01\n");
  out_.str("");
  auto nearly = progress(Kind::lines, 80, false, 1'000'000);
  nearly.update(999'999);
  out_.str("");
  nearly.finish();
  EXPECT_THAT(out_.str(), HasSubstr("99%"));
}

TEST_F(ProgressLineTest, numbers_out_of_range_count_as_the_nearest_in_it) {
  for (bool const known : {true, false}) {
    for (auto const kind : {Kind::bar, Kind::lines}) {
      auto shown =
          progress(kind, 120, false, known ? std::optional<std::int64_t>(10) : std::nullopt);
      shown.start_at(-5);
      out_.str("");
      pass(20'000);
      shown.update(-3);
      shown.finish();
      EXPECT_THAT(out_.str(), HasSubstr(known ? "  0%  0 rows/s" : "  0 rows  0 rows/s"));
      EXPECT_THAT(out_.str(), Not(HasSubstr("#")));
    }
  }
}

TEST_F(ProgressLineTest, totals_near_the_largest_number) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  for (auto const total : {std::optional(most), std::optional<std::int64_t>()}) {
    auto shown = progress(Kind::bar, 160, false, total);
    now_ += std::chrono::nanoseconds(1);
    shown.update(most / 2);
    shown.finish();
    EXPECT_THAT(out_.str(), Not(HasSubstr("-")));
    EXPECT_THAT(out_.str(), HasSubstr("1,000,000,000,000,000,000 rows/s"));
    EXPECT_THAT(out_.str(), HasSubstr(total ? "  50%  " : "4,611,686,018,427,387,903 rows"));
    pass(1000);
  }
}

TEST_F(ProgressLineTest, shows_every_metric_with_its_latest_value) {
  auto shown = progress(Kind::lines);
  pass(100);
  shown.update(100, {{"loss", 0.5}, {"AUC", std::nullopt}});
  EXPECT_THAT(out_.str(), HasSubstr("  loss 0.5000  left "));
  shown.set("rate", 1.25e-5);
  pass(100);
  shown.update(200, {{"AUC", 0.75}});
  EXPECT_THAT(out_.str(), HasSubstr("  loss 0.5000  rate 1.25e-05  AUC 0.7500  left "));
  shown.finish({{"loss", 0.25}});
  EXPECT_THAT(out_.str(), HasSubstr("  loss 0.2500  rate 1.25e-05  AUC 0.7500  took "));
}

TEST_F(ProgressLineTest, counts_if_the_end_is_not_known) {
  auto shown = progress(Kind::lines, 80, false, std::nullopt);
  for (int second = 1; second <= 25; ++second) {
    pass(1000);
    shown.update(100 * second);
  }
  shown.finish();
  EXPECT_EQ(out_.str(),
            "epoch 1/2  1,000 rows  100 rows/s\n"
            "epoch 1/2  2,000 rows  100 rows/s\n"
            "epoch 1/2  2,500 rows  100 rows/s  took 0:25\n");
  out_.str("");
  auto bar = progress(Kind::bar, 80, false, std::nullopt);
  pass(1000);
  bar.update(12);
  EXPECT_EQ(out_.str(), "\repoch 1/2  12 rows  12 rows/s\x1b[K");
}

TEST_F(ProgressLineTest, what_an_earlier_run_has_done_does_not_count_for_the_speed) {
  auto shown = progress(Kind::lines);
  shown.start_at(500);
  pass(1000);
  shown.update(501);
  EXPECT_EQ(out_.str(), "") << "no tenth is complete";
  pass(1000);
  shown.update(600);
  EXPECT_EQ(out_.str(), "epoch 1/2  60%  50 rows/s  left 0:08\n");
}

TEST_F(ProgressLineTest, takes_updates_of_several_threads) {
  auto shown = progress(Kind::bar);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 1000; ++i) {
        shown.update(i, {{"loss", i}});
        shown.set(thread % 2 == 0 ? "AUC" : "rate", i);
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  shown.finish();
  EXPECT_THAT(out_.str(), HasSubstr("AUC 999.0000"));
}

TEST(ReportTexts, group_thousands_and_spell_times) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(clock_text(std::chrono::seconds(7)), "0:07");
  EXPECT_EQ(clock_text(std::chrono::seconds(754)), "12:34");
  EXPECT_EQ(clock_text(std::chrono::seconds(3723)), "1:02:03");
}

TEST(ReportTexts, numbers_keep_digits_that_say_something) {
  EXPECT_EQ(short_number(0), "0.0000");
  EXPECT_EQ(short_number(0.25), "0.2500");
  EXPECT_EQ(short_number(-12.5), "-12.5000");
  EXPECT_EQ(short_number(0.00125), "0.0013");
  EXPECT_EQ(short_number(1.25e-5), "1.25e-05");
  EXPECT_EQ(short_number(2.5e9), "2.5e+09");
  EXPECT_EQ(short_number(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(short_number(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(ProgressStyleTest, quiet_wins) {
  EXPECT_EQ(ProgressLine::Style::of_stderr(true).kind, Kind::quiet);
}

TEST(ProgressStyleTest, a_style_that_shows_something_needs_a_stream) {
  EXPECT_THROW(ProgressLine("x", 1, {.kind = Kind::lines}), std::invalid_argument);
}

}  // namespace
}  // namespace msstream::report
