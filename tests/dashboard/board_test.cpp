// SPDX-License-Identifier: Apache-2.0
#include "dashboard/board.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace msstream::dashboard {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

constexpr Board::Time kBegin{1h};

Json state_of(Board& board) {
  return Json::parse(board.state_json(kBegin));
}

TEST(Board, is_empty_before_the_first_step) {
  Board board({.program = "p", .what = "w", .unit = "lists", .ranks = 4});
  auto const state = state_of(board);
  EXPECT_EQ(state["program"], "p");
  EXPECT_EQ(state["what"], "w");
  EXPECT_EQ(state["unit"], "lists");
  EXPECT_EQ(state["ranks"], 4);
  EXPECT_EQ(state["step"], 0);
  for (auto const* const key : {"loss", "rate", "step_ms", "memory"}) {
    EXPECT_TRUE(state[key].is_null()) << key;
  }
}

TEST(Board, counts_steps_and_times_them) {
  Board board({});
  board.note_steps_before(100);
  board.note_part("epoch 2/3");
  for (int i = 0; i < 201; ++i) {
    board.note_step(2.F, 64, kBegin + i * 10ms);
  }
  auto const state = state_of(board);
  EXPECT_EQ(state["part"], "epoch 2/3");
  EXPECT_EQ(state["step"], 301);
  EXPECT_EQ(state["rows"], 201 * 64);
  EXPECT_EQ(state["loss"], 2.0);
  EXPECT_EQ(state["step_ms"]["count"], 200);  // the first step of a part has no time
  EXPECT_NEAR(state["step_ms"]["p50"].get<double>(), 10, 1e-3);
  EXPECT_NEAR(state["rate"].get<double>(), 6400, 1);
  EXPECT_EQ(state["losses"]["x"].front(), 101);
  EXPECT_EQ(state["losses"]["x"].back(), 301);
}

TEST(Board, does_not_time_what_is_between_parts_and_pauses) {
  Board board({});
  board.note_step(1, 1, kBegin);
  board.note_step(1, 1, kBegin + 10ms);
  board.note_part("epoch 2");
  board.note_step(1, 1, kBegin + 10s);  // after a test of the model
  board.note_step(1, 1, kBegin + 10s + 10ms);
  board.note_pause(2);
  board.note_step(1, 1, kBegin + 20s);
  board.note_step(1, 1, kBegin + 30s);
  board.note_step(1, 1, kBegin + 30s + 10ms);
  auto const times = state_of(board)["step_ms"];
  EXPECT_EQ(times["count"], 3);
  EXPECT_NEAR(times["most"].get<double>(), 10, 1e-2);
}

TEST(Board, percentiles_are_of_the_last_steps) {
  Board board({});
  auto now = kBegin;
  for (int i = 0; i < 3000; ++i) {
    board.note_step(1, 1, now);
    now += i < 1500 ? 50ms : 1ms;
  }
  auto const times = state_of(board)["step_ms"];
  EXPECT_EQ(times["count"], Curves::kMaxStepTimes);
  EXPECT_NEAR(times["most"].get<double>(), 1, 1e-2);
}

TEST(Board, memory_is_summed_by_group) {
  Board board({});
  MemoryStatistics statistics;
  statistics.live_bytes = 70;
  statistics.reserved_bytes = 100;
  std::vector<StreamMemory> streams(3);
  streams[0].stream = "group 0 compute";
  streams[0].live_bytes = 10;
  streams[1].stream = "group 0 h2d";
  streams[1].live_bytes = 20;
  streams[2].stream = "group 1 compute";
  streams[2].live_bytes = 40;
  board.note_memory(statistics, streams);
  auto const memory = state_of(board)["memory"];
  EXPECT_EQ(memory["live_bytes"], 70);
  ASSERT_EQ(memory["groups"].size(), 2U);
  EXPECT_EQ(memory["groups"][0], (Json{{"name", "group 0"}, {"bytes", 30}}));
  EXPECT_EQ(memory["groups"][1], (Json{{"name", "group 1"}, {"bytes", 40}}));
}

TEST(Board, a_timeline_has_lanes_and_names_once) {
  Board board({});
  board.note_timeline(
      17,
      trace::Timeline({{"a", "s1", 1000, 3000}, {"b", "s0", 2000, 2500}, {"a", "s1", 3000, 4000}}));
  EXPECT_EQ(state_of(board)["timeline_step"], 17);
  auto const timeline = Json::parse(board.timeline_json());
  EXPECT_EQ(timeline["step"], 17);
  EXPECT_EQ(timeline["lanes"], (Json{"s0", "s1"}));
  EXPECT_EQ(timeline["names"], (Json{"a", "b"}));
  EXPECT_EQ(timeline["spans"], (Json{{1, 0, 1.0, 2.0}, {0, 1, 2.0, 0.5}, {1, 0, 3.0, 1.0}}));
  EXPECT_EQ(timeline["length_us"], 4.0);
}

TEST(Board, what_it_keeps_is_bounded) {
  Board board({.program = std::string(1 << 20, 'p')});
  for (std::size_t i = 0; i < Board::kMaxFresh + 10; ++i) {
    board.note_step(1, 1, kBegin);
  }
  for (int i = 0; i < 10'000; ++i) {
    board.note_metric(std::to_string(i) + std::string(10'000, 'm'), 1);
  }
  std::vector<trace::Timeline::Span> spans(100'000, {std::string(1000, 's'), "lane", 0, 1});
  board.note_timeline(1, trace::Timeline(std::move(spans)));
  auto const state = board.state_json();
  EXPECT_LT(state.size(), 200'000U);
  auto const parsed = Json::parse(state);
  EXPECT_EQ(parsed["step"], Board::kMaxFresh + 10);
  EXPECT_EQ(parsed["steps_left_out"], 10);
  EXPECT_EQ(parsed["metrics"].size(), Curves::kMaxMetrics);
  auto const timeline = board.timeline_json();
  EXPECT_LT(timeline.size(), 200'000U);
  EXPECT_EQ(Json::parse(timeline)["left_out"], 100'000 - RecordedStep::kMaxSpans);
}

TEST(Board, a_timeline_keeps_the_length_of_all_spans_and_has_an_age) {
  Board board({});
  EXPECT_TRUE(state_of(board)["timeline_age_s"].is_null());
  std::vector<trace::Timeline::Span> spans(RecordedStep::kMaxSpans + 7, {"s", "lane", 0, 1000});
  spans.back().end_ns = 9000;
  RecordedStep const recorded(5, trace::Timeline(spans), kBegin);
  EXPECT_EQ(recorded.spans.size(), RecordedStep::kMaxSpans);
  board.note_timeline(5, trace::Timeline(std::move(spans)), kBegin - 12s);
  auto const timeline = Json::parse(board.timeline_json(kBegin));
  EXPECT_EQ(timeline["left_out"], 7);
  EXPECT_EQ(timeline["length_us"], 9.0);
  auto const state = Json::parse(board.state_json(kBegin + 1s));
  EXPECT_EQ(state["timeline_age_s"], 13.0);
}

TEST(Board, the_groups_with_the_most_memory_have_entries) {
  Board board({});
  std::vector<StreamMemory> streams(Curves::kMaxGroups + 3);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    streams[i].stream = "group " + std::to_string(i) + " compute";
    streams[i].live_bytes = 100 + i;
  }
  board.note_memory({}, streams);
  auto const groups = state_of(board)["memory"]["groups"];
  ASSERT_EQ(groups.size(), Curves::kMaxGroups + 1);
  EXPECT_EQ(groups.front()["bytes"], 100 + streams.size() - 1);
  EXPECT_EQ(groups.back(), (Json{{"name", "others"}, {"bytes", 100 + 101 + 102}}));
}

TEST(Board, names_may_be_any_bytes) {
  std::string const hostile = "</script><script>alert(1)</script>\xff\"\n";
  Board board({.program = hostile, .what = hostile});
  board.note_part(hostile);
  board.note_metric(hostile, std::nan(""));
  board.note_timeline(1, trace::Timeline({{hostile, hostile, 0, 1}}));
  auto const state = state_of(board);  // is JSON of UTF-8
  EXPECT_EQ(state["program"], "</script><script>alert(1)</script>\uFFFD\"\n");
  EXPECT_TRUE(state["metrics"][0]["curve"]["y"][0].is_null());
  EXPECT_EQ(Json::parse(board.timeline_json())["names"][0], state["program"]);
}

TEST(Board, many_readers_get_one_text) {
  Board board({});
  board.note_step(1, 1, kBegin);
  EXPECT_EQ(Json::parse(board.state_json(kBegin))["step"], 1);
  board.note_step(1, 1, kBegin);
  EXPECT_EQ(Json::parse(board.state_json(kBegin + Board::kJsonAge / 2))["step"], 1);
  EXPECT_EQ(Json::parse(board.state_json(kBegin + Board::kJsonAge))["step"], 2);
}

TEST(Board, is_watched_while_a_reader_asks) {
  Board board({});
  EXPECT_FALSE(board.is_watched(kBegin));
  static_cast<void>(board.state_json(kBegin));
  EXPECT_TRUE(board.is_watched(kBegin + 4s));
  EXPECT_FALSE(board.is_watched(kBegin + 6s));
}

// A reader and the training at once: no step is lost.
TEST(Board, readers_and_the_training_run_at_once) {
  Board board({});
  std::atomic<bool> over = false;
  std::thread reader([&] {
    while (!over) {
      static_cast<void>(board.state_json());
    }
  });
  for (int i = 0; i < 20'000; ++i) {
    board.note_step(1, 1);
    if (i % 100 == 0) {
      board.note_metric("m", i);
    }
  }
  over = true;
  reader.join();
  EXPECT_EQ(Json::parse(board.state_json(Board::Clock::now() + 1h))["step"], 20'000);
}

}  // namespace
}  // namespace msstream::dashboard
