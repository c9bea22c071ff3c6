// SPDX-License-Identifier: Apache-2.0
#include "dashboard/board.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
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
  for (auto const* const key : {"loss", "rate", "step_ms", "memory", "end", "step_age_s"}) {
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

TEST(Board, memory_has_a_curve_for_each_group) {
  Board board({});
  StreamMemory first;
  first.stream = "group 0 compute";
  StreamMemory second;
  second.stream = "group 1 compute";
  // group 1 comes later, and then goes.
  for (int step = 1; step <= 6; ++step) {
    board.note_step(1, 1, kBegin);
    first.live_bytes = 100 * static_cast<std::size_t>(step);
    second.live_bytes = 7;
    board.note_memory({}, step % 3 == 2 ? std::vector{first, second} : std::vector{first});
    board.fold();
  }
  auto const curves = state_of(board)["memory"]["group_curves"];
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_EQ(curves[0]["name"], "group 0");
  EXPECT_EQ(curves[0]["curve"]["x"], (Json{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(curves[0]["curve"]["y"], (Json{100, 200, 300, 400, 500, 600}));
  EXPECT_EQ(curves[1]["curve"]["x"], (Json{2, 3, 4, 5, 6}));
  EXPECT_EQ(curves[1]["curve"]["y"], (Json{7, 0, 0, 7, 0}));
}

TEST(Board, curves_of_the_memory_of_groups_are_bounded) {
  Board board({});
  std::vector<StreamMemory> streams(Curves::kMaxGroups + 3);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    streams[i].stream = "group " + std::to_string(i) + " compute";
  }
  for (int i = 0; i < 1000; ++i) {
    for (auto& stream : streams) {
      stream.live_bytes = i == 500 ? 123'456'789'012 : 123'456;
    }
    board.note_memory({}, streams);
    board.fold();
  }
  auto const text = board.state_json(kBegin);
  EXPECT_LT(text.size(), 400'000U);
  auto const curves = Json::parse(text)["memory"]["group_curves"];
  ASSERT_EQ(curves.size(), Curves::kMaxGroups);
  EXPECT_LE(curves[0]["curve"]["x"].size(), Curves::kMaxGroupPoints);
  double most = 0;
  for (auto const& high : curves[63]["curve"]["high"]) {
    most = std::max(most, high.get<double>());
  }
  EXPECT_EQ(most, 123'456'789'012);
}

TEST(Board, a_long_curve_keeps_its_extremes_and_says_how_many_steps_a_point_has) {
  Board board({});
  for (int step = 1; step <= 5000; ++step) {
    board.note_step(step == 700 ? 90.F : 2.F, 1, kBegin);
  }
  auto const losses = state_of(board)["losses"];
  EXPECT_EQ(losses["values"], 8);
  ASSERT_EQ(losses["high"].size(), losses["x"].size());
  EXPECT_EQ(losses["high"][700 / 8], 90);
  EXPECT_EQ(losses["low"][700 / 8], 2);
  EXPECT_EQ(losses["y"][700 / 8], (90 + 7 * 2) / 8.);
  Board young({});
  young.note_step(2, 1, kBegin);
  EXPECT_FALSE(state_of(young)["losses"].contains("high"));
}

TEST(Board, numbers_that_are_not_finite_are_texts) {
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  for (auto const& [loss, text] : {std::pair(std::nanf(""), "NaN"),
                                   std::pair(kInfinite, "infinity"),
                                   std::pair(-kInfinite, "-infinity")}) {
    Board board({});
    board.note_step(0.25F, 1, kBegin);
    board.note_step(loss, 1, kBegin);
    board.note_metric("AUC", loss);
    auto const state = state_of(board);
    EXPECT_EQ(state["loss"], text);
    EXPECT_EQ(state["losses"]["y"], (Json{0.25, nullptr}));
    EXPECT_EQ(state["metrics"][0]["value"], text);
  }
}

TEST(Board, the_newest_value_of_a_metric_is_no_mean) {
  Board board({});
  for (int i = 0; i <= 1000; ++i) {
    board.note_metric("AUC", i);
  }
  EXPECT_EQ(state_of(board)["metrics"][0]["value"], 1000);
}

TEST(Board, says_how_old_the_newest_step_is) {
  Board board({});
  board.note_step(1, 1, kBegin - 90s);
  board.note_step(1, 1, kBegin - 30s);
  board.note_part("epoch 2");
  EXPECT_EQ(state_of(board)["step_age_s"], 30);
}

TEST(Board, says_how_the_training_has_ended) {
  for (auto const& [status, name] : {std::pair(EndStatus::finished, "finished"),
                                     std::pair(EndStatus::failed, "failed"),
                                     std::pair(EndStatus::diverged, "diverged")}) {
    Board board({});
    board.note_metric("AUC", 0.75);
    EXPECT_TRUE(state_of(board)["end"].is_null());
    board.note_metric("AUC", 0.875);
    board.note_end({status, "at </script>\xff step 3"});
    // Not the text that was made before, which has the same age.
    auto const text = board.state(kBegin);
    EXPECT_TRUE(text.has_end);
    auto const state = Json::parse(text.json);
    EXPECT_EQ(state["end"]["status"], name);
    EXPECT_EQ(state["end"]["text"], "at </script>\uFFFD step 3");
    EXPECT_EQ(state["metrics"][0]["value"], 0.875);
  }
  Board board({});
  board.note_end({EndStatus::failed, std::string(1 << 20, 'f')});
  EXPECT_LT(board.state_json().size(), 10'000U);
}

TEST(Board, waits_for_a_reader_of_the_end_only_if_somebody_watches) {
  Board board({});
  board.note_end({EndStatus::finished, "finished"});
  EXPECT_FALSE(board.wait_until_end_is_seen(24h, kBegin));
  static_cast<void>(board.state(kBegin));
  EXPECT_FALSE(board.wait_until_end_is_seen(24h, kBegin + 6s));
  EXPECT_FALSE(board.wait_until_end_is_seen(1ms, kBegin));
  std::thread reader([&] { board.note_end_is_seen(); });
  EXPECT_TRUE(board.wait_until_end_is_seen(24h, kBegin));
  reader.join();
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
  EXPECT_EQ(timeline["spans"],
            (Json{{1, 0, 1.0, 2.0, 0, 0}, {0, 1, 2.0, 0.5, 0, 0}, {1, 0, 3.0, 1.0, 0, 0}}));
  EXPECT_EQ(timeline["length_us"], 4.0);
}

TEST(Board, a_timeline_has_a_lane_for_each_stream) {
  Board board({});
  board.note_timeline(1,
                      trace::Timeline({{"a", "group 10 compute", 0, 3000, 30, 1},
                                       {"b", "group 0 compute", 0, 3000, 0, 5},
                                       {"c", "group 0 compute", 0, 3000, 33, 7}}));
  auto const timeline = Json::parse(board.timeline_json());
  EXPECT_EQ(timeline["lanes"],
            (Json{"group 0 compute", "group 10 compute", "group 0 compute (2)"}));
  EXPECT_EQ(timeline["spans"][2], (Json{2, 2, 0.0, 3.0, 33, 7}));
}

TEST(Board, what_it_keeps_is_bounded) {
  Board board({.program = std::string(1 << 20, 'p')});
  for (std::size_t i = 0; i < Board::kMaxFresh + 10; ++i) {
    board.note_step(1, 1, kBegin);
  }
  for (int i = 0; i < 10'000; ++i) {
    board.note_metric(std::to_string(i) + std::string(10'000, 'm'), 1);
  }
  std::vector<trace::Timeline::Span> spans(
      100'000, {std::string(1000, 's'), "lane", 0, 1, 4095, 1'000'000'000});
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
  EXPECT_EQ(recorded.timeline.spans().size(), RecordedStep::kMaxSpans);
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
