// SPDX-License-Identifier: Apache-2.0
#include "training/dashboard_feed.hpp"

#include <msstream/msstream.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <memory>

namespace msstream::training {
namespace {

using namespace std::chrono_literals;
using dashboard::Board;
using Json = nlohmann::json;

TEST(TimeBetweenMeasurements, is_a_quarter_of_a_percent_or_up_to_one_percent_beyond_30_s) {
  EXPECT_EQ(time_between_measurements(0ms, 3s), 3s);
  EXPECT_EQ(time_between_measurements(5ms, 3s), 3s);
  EXPECT_EQ(time_between_measurements(50ms, 3s), 20s);
  EXPECT_EQ(time_between_measurements(75ms, 3s), 30s);
  EXPECT_EQ(time_between_measurements(200ms, 3s), 30s);
  EXPECT_EQ(time_between_measurements(300ms, 3s), 30s);
  EXPECT_EQ(time_between_measurements(2s, 3s), 200s);
}

/// A training whose steps take 100 ms, by a clock of its own.
class DashboardFeedTest : public ::testing::Test {
 protected:
  void step(Board::Clock::duration takes = 100ms) {
    now_ += takes;
    feed_.note_step(1.F, 8, device_);
  }
  void watch() { static_cast<void>(board_->state_json(now_)); }
  /// Records a step: the wait for those before, the step, and the reading of its spans.
  void record(Board::Clock::duration wait, Board::Clock::duration takes) {
    ASSERT_TRUE(feed_.wants_timeline());
    now_ += wait;
    feed_.begin_timeline();
    now_ += takes;
    feed_.note_timeline(++recorded_, trace::Timeline({{"a", "s", 0, 1}}), 2);
  }
  /// Returns the time until the feed wants a timeline, in steps of 100 ms.
  std::chrono::milliseconds time_until_due() {
    auto waited = 0ms;
    for (watch(); !feed_.wants_timeline(); waited += 100ms) {
      now_ += 100ms;
      watch();
    }
    return waited;
  }
  Json state() {
    now_ += Board::kJsonAge;
    return Json::parse(board_->state_json(now_));
  }

  Board::Time now_{1h};
  Device<Host> device_;
  std::shared_ptr<Board> board_ = std::make_shared<Board>(dashboard::Description{});
  DashboardFeed<Host> feed_{board_, [this] { return now_; }};
  std::int64_t recorded_ = 0;
};

TEST_F(DashboardFeedTest, measures_nothing_unless_it_is_watched) {
  step();
  EXPECT_FALSE(feed_.wants_timeline());
  EXPECT_TRUE(state()["memory"].is_null());  // the first reader
  step();
  EXPECT_TRUE(feed_.wants_timeline());
  EXPECT_FALSE(state()["memory"].is_null());
  now_ += 6s;
  EXPECT_FALSE(feed_.wants_timeline());
}

TEST_F(DashboardFeedTest, measures_memory_once_a_second) {
  watch();
  step();
  EXPECT_EQ(state()["memory"]["live"]["x"].size(), 1U);
  for (int i = 0; i < 9; ++i) {
    watch();
    step();
  }
  // The step after a second, of which 200 ms passed in state().
  EXPECT_EQ(state()["memory"]["live"]["x"].size(), 2U);
}

TEST_F(DashboardFeedTest, the_wait_for_steps_before_and_a_usual_step_are_no_cost) {
  for (int i = 0; i < 3; ++i) {
    step();
  }
  watch();
  record(10s, 105ms);  // 5 ms more than a step: 400 times as long is less than 3 s
  EXPECT_EQ(time_until_due(), 3s);
  record(0ms, 150ms);  // 50 ms more
  EXPECT_EQ(time_until_due(), 20s);
  record(0ms, 300ms);  // 200 ms more
  EXPECT_EQ(time_until_due(), 30s);
  record(0ms, 1100ms);  // 1 s more: one percent
  EXPECT_EQ(time_until_due(), 100s);
}

TEST_F(DashboardFeedTest, steps_after_a_recorded_one_have_no_times) {
  step();
  step();
  watch();
  record(0ms, 900ms);
  for (int i = 0; i < 3; ++i) {
    step(700ms);  // the recorded step, and two that were issued before its loss was read
  }
  auto const times = state()["step_ms"];
  EXPECT_EQ(times["count"], 1);
  EXPECT_NEAR(times["most"].get<double>(), 100, 1e-3);
  // Nor are they usual steps, of which the newest took 100 ms.
  static_cast<void>(time_until_due());
  record(0ms, 110ms);
  EXPECT_EQ(time_until_due(), 4s);
}

TEST_F(DashboardFeedTest, the_time_between_parts_is_none_of_a_step) {
  step();
  step();
  feed_.begin_part("epoch 2");
  step(60s);
  watch();
  record(0ms, 110ms);
  EXPECT_EQ(time_until_due(), 4s);
  EXPECT_EQ(state()["part"], "epoch 2");
}

TEST(DashboardFeed, without_a_board_does_nothing) {
  DashboardFeed<Host> feed(nullptr);
  Device<Host> const device;
  feed.begin_part("epoch 1");
  feed.note_step(1.F, 8, device);
  feed.note_metric("AUC", 0.5);
  EXPECT_FALSE(feed.wants_timeline());
}

}  // namespace
}  // namespace msstream::training
