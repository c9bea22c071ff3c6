// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/figures.hpp"

#include "overlap/read/read.hpp"
#include "overlap/show/choices.hpp"
#include "overlap/show/example.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <string_view>

namespace msstream::overlap {
namespace {

Activity work_at(Ns begin, Ns end, Index stream, ActivityKind kind = ActivityKind::kernel) {
  return {.time = {begin, end}, .stream = stream, .kind = kind};
}

Activity copy_at(Ns begin, Ns end, Index stream, CopyDirection direction) {
  auto copy = work_at(begin, end, stream, ActivityKind::copy);
  copy.direction = direction;
  return copy;
}

/// A recording of two devices: the first has streams 0, 1 and 2, the second has stream 3.
Recording four_streams(std::vector<Activity> activities) {
  Recording recording;
  recording.devices.resize(2);
  recording.streams.resize(4);
  recording.streams[3].device = 1;
  recording.collectives.resize(1);
  recording.activities = std::move(activities);
  recording.sort();
  return recording;
}

TEST(OverlapFigures, the_edges_of_the_window_belong_to_it) {
  // The window is [10, 60). Of stream 0, only the last one has no part in it.
  auto const recording = four_streams({work_at(0, 100, 1),
                                       work_at(10, 10, 0),
                                       work_at(20, 30, 0),
                                       work_at(20, 30, 0),
                                       work_at(60, 60, 0),
                                       work_at(60, 70, 0),
                                       work_at(0, 10, 2)});
  auto const figures = figures_of(recording, {10, 60}, 0);
  EXPECT_EQ(figures.of(WorkKind::kernels).activities, 5U);
  EXPECT_EQ(figures.of(WorkKind::kernels).busy, 50);
  ASSERT_EQ(figures.streams.size(), 2U);
  EXPECT_EQ(figures.streams[0].activities, 4U);
  EXPECT_EQ(figures.streams[0].busy, 10);
  EXPECT_EQ(figures.streams[0].alone, 0);
  EXPECT_EQ(figures.streams[1].busy, 50);
  EXPECT_EQ(figures.streams[1].alone, 40);
}

TEST(OverlapFigures, each_kind_hides_those_after_it) {
  // Time in ns:  0    10   20   30   40   50   60   70
  // stream 0          [ kernel  ]              [k ]
  // stream 1     [fill]    [ collective  ]
  // stream 2               [  copy h2d        ][d2h]
  auto collective = work_at(20, 50, 1);
  collective.collective = 0;
  auto const recording = four_streams({work_at(10, 30, 0),
                                       work_at(60, 65, 0),
                                       work_at(0, 10, 1, ActivityKind::fill),
                                       collective,
                                       copy_at(20, 60, 2, CopyDirection::h2d),
                                       copy_at(60, 70, 2, CopyDirection::d2h),
                                       work_at(0, 100, 3)});
  auto const figures = figures_of(recording, {0, 70}, 0);
  EXPECT_EQ(figures.of(WorkKind::kernels).busy, 25);
  EXPECT_EQ(figures.of(WorkKind::kernels).exposed, 25);
  EXPECT_EQ(figures.of(WorkKind::kernels).beside_kernels, 0);
  EXPECT_EQ(figures.of(WorkKind::fills).exposed, 10);
  EXPECT_EQ(figures.of(WorkKind::collectives).busy, 30);
  EXPECT_EQ(figures.of(WorkKind::collectives).exposed, 20);
  EXPECT_EQ(figures.of(WorkKind::collectives).beside_kernels, 10);
  EXPECT_EQ(figures.of(WorkKind::copies).activities, 2U);
  EXPECT_EQ(figures.of(WorkKind::copies).busy, 50);
  EXPECT_EQ(figures.of(WorkKind::copies).exposed, 15);
  EXPECT_EQ(figures.of(WorkKind::copies).beside_kernels, 15);
  ASSERT_EQ(figures.copies.size(), 2U);
  EXPECT_EQ(figures.copies[0].direction, CopyDirection::h2d);
  EXPECT_EQ(figures.copies[0].time.exposed, 10);
  EXPECT_EQ(figures.copies[1].time.exposed, 5);
  ASSERT_EQ(figures.streams.size(), 3U) << "stream 3 is of another device";
  EXPECT_EQ(figures.streams[0].busy, 25);
  EXPECT_EQ(figures.streams[0].alone, 10);
  EXPECT_EQ(figures.streams[1].alone, 10);
  EXPECT_EQ(figures.streams[2].alone, 15);
}

TEST(OverlapFigures, the_window_cuts_activities) {
  auto const recording = four_streams({work_at(0, 30, 0), work_at(40, 90, 0), work_at(95, 99, 1)});
  auto const figures = figures_of(recording, {10, 50}, 0);
  EXPECT_EQ(figures.of(WorkKind::kernels).busy, 30);
  EXPECT_EQ(figures.of(WorkKind::kernels).activities, 2U);
  ASSERT_EQ(figures.streams.size(), 1U);
  EXPECT_EQ(figures.streams[0].busy, 30);
  EXPECT_EQ(figures.streams[0].alone, 30);
}

TEST(OverlapFigures, copies_have_the_rate_of_their_bytes_while_any_runs) {
  auto first = copy_at(0, 10'000, 0, CopyDirection::h2d);
  auto second = copy_at(5'000, 15'000, 1, CopyDirection::h2d);
  first.bytes = 200'000;
  second.bytes = 400'000;
  auto recording = four_streams({first, second});
  auto const copies = figures_of(recording, {0, 20'000}, 0).copies;
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].bytes, 600'000);
  EXPECT_EQ(copies_text(copies[0]), "h2d at 40.0 GB/s");
  // Half of the first one and a quarter of the second one.
  auto const part = figures_of(recording, {2'500, 7'500}, 0).copies;
  EXPECT_EQ(part.at(0).bytes, 200'000);
  recording.activities[0].bytes = 20'000;
  recording.activities[1].bytes = 20'000;
  EXPECT_EQ(copies_text(figures_of(recording, {0, 20'000}, 0).copies.at(0)), "h2d");
  recording.activities[1].bytes = kUnknown;
  auto const unknown = figures_of(recording, {0, 20'000}, 0).copies;
  EXPECT_EQ(unknown.at(0).bytes, kUnknown);
  EXPECT_EQ(copies_text(unknown[0]), "h2d");
}

TEST(OverlapFigures, they_are_those_of_a_count_of_each_ns) {
  constexpr Ns kEnd = 200;
  auto const seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  auto const number = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  for (int round = 0; round < 20; ++round) {
    std::vector<Activity> activities;
    for (int i = number(30); i >= 0; --i) {
      auto const begin = Ns{number(static_cast<int>(kEnd))};
      auto& activity = activities.emplace_back(
          work_at(begin, begin + number(40), static_cast<Index>(number(3))));
      activity.kind = static_cast<ActivityKind>(number(3));
      activity.direction = static_cast<CopyDirection>(number(2));
      activity.collective = number(3) == 0 ? 0 : kNone;
    }
    auto const recording = four_streams(activities);
    Interval const window{number(50), 60 + number(200)};
    auto const figures = figures_of(recording, window, 0);
    Ns busy = 0;
    std::map<Index, Ns> busy_of_stream;
    std::map<Index, Ns> alone;
    std::array<Ns, kWorkKinds> exposed{};
    for (Ns now = window.begin; now < window.end; ++now) {
      std::map<Index, int> streams;
      std::size_t first = kWorkKinds;
      for (auto const& activity : recording.activities) {
        if (activity.stream == 3 || now < activity.time.begin || now >= activity.time.end) {
          continue;
        }
        ++streams[activity.stream];
        auto const kind = activity.kind == ActivityKind::copy   ? WorkKind::copies
                          : activity.kind == ActivityKind::fill ? WorkKind::fills
                          : activity.collective != kNone        ? WorkKind::collectives
                                                                : WorkKind::kernels;
        first = std::min(first, static_cast<std::size_t>(kind));
      }
      busy += streams.empty() ? 0 : 1;
      if (first < kWorkKinds) {
        ++exposed[first];
      }
      for (auto const& [stream, count] : streams) {
        ++busy_of_stream[stream];
        alone[stream] += streams.size() == 1 ? 1 : 0;
      }
    }
    Ns sum = 0;
    for (std::size_t kind = 0; kind < kWorkKinds; ++kind) {
      EXPECT_EQ(figures.work[kind].exposed, exposed[kind]);
      sum += figures.work[kind].exposed;
    }
    EXPECT_EQ(sum, busy);
    for (auto const& stream : figures.streams) {
      EXPECT_EQ(stream.busy, busy_of_stream[stream.stream]);
      EXPECT_EQ(stream.alone, alone[stream.stream]);
    }
  }
}

/// Returns the times in ms that another tool computed, by name.
std::map<std::string, double> timeline_in(std::filesystem::path const& file) {
  std::map<std::string, double> times;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    auto const comma = line.find(',');
    if (comma != std::string::npos && !line.starts_with("type,")) {
      times[line.substr(0, comma)] = std::stod(line.substr(comma + 1));
    }
  }
  return times;
}

TEST(OverlapFigures, they_are_those_of_another_tool_on_recorded_traces) {
  char const* data = std::getenv("MSSTREAM_TEST_DATA");
  auto const folder =
      std::filesystem::path(data != nullptr ? data : MSSTREAM_DATA_FOLDER) / "traces" / "kineto";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "no " << folder.string() << ": set MSSTREAM_TEST_DATA";
  }
  int files = 0;
  for (auto const& entry : std::filesystem::directory_iterator(folder)) {
    constexpr std::string_view kEnd = ".gpu_timeline.csv";
    auto name = entry.path().string();
    if (!name.ends_with(kEnd)) {
      continue;
    }
    ++files;
    SCOPED_TRACE(name);
    auto const expected = timeline_in(entry.path());
    name.replace(name.size() - kEnd.size(), kEnd.size(), ".json.gz");
    auto const recordings = read(name);
    ASSERT_EQ(recordings.size(), 1U);
    auto const window = window_of(recordings[0], "ProfilerStep*");
    auto const figures = figures_of(recordings[0], window, 0);
    auto const& kernels = figures.of(WorkKind::kernels);
    auto const& fills = figures.of(WorkKind::fills);
    auto const& collectives = figures.of(WorkKind::collectives);
    auto const& copies = figures.of(WorkKind::copies);
    auto const computation = kernels.exposed + fills.exposed;
    auto const busy = computation + collectives.exposed + copies.exposed;
    for (auto const& [kind, ns] : {std::pair("computation_time", computation),
                                   std::pair("exposed_comm_time", collectives.exposed),
                                   std::pair("exposed_memcpy_time", copies.exposed),
                                   std::pair("busy_time", busy),
                                   std::pair("idle_time", window.length() - busy),
                                   std::pair("total_time", window.length()),
                                   std::pair("total_comm_time", collectives.busy),
                                   std::pair("total_memcpy_time", copies.busy)}) {
      auto const ms = expected.at(kind);
      EXPECT_NEAR(static_cast<double>(ns) / 1e6, ms, ms * 0.001) << kind;
    }
    ASSERT_EQ(figures.streams.size(), 1U);
    EXPECT_EQ(figures.streams[0].busy, busy);
    EXPECT_EQ(figures.streams[0].alone, busy);
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace msstream::overlap
