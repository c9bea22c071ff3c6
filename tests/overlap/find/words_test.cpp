// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/words.hpp"

#include "overlap/find/find.hpp"
#include "overlap/find/hand_made.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <string>

namespace msstream::overlap {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(OverlapWords, nothing_runs_beside_the_end_of_the_window) {
  HandMade made;
  auto const first = made.kernel(0, 0, 10, 40);
  Program const program(made.recording);
  Charge charge;
  charge.time = {10'000, 40'000};
  charge.kind = TimeClass::lost;
  charge.holder = first;
  auto const text = [&] { return evidence_text(program, Cause::one_stream_two_roles, charge); };
  EXPECT_EQ(text(), "30.0 µs: kernel 0 on stream 0 ran alone until the window ended");
  charge.held = first;
  EXPECT_EQ(text(), "30.0 µs: kernel 0 on stream 0 ran alone");
  charge.held = kNone;
  CauseSum sum;
  sum.largest = {charge};
  sum.lost = 30'000;
  sum.occurrences = 1;
  EXPECT_THAT(
      summary(program, Cause::one_stream_two_roles, sum, {0, 60'000}),
      HasSubstr("1 time, longest 30.0 µs: kernel 0 on stream 0 ran until the window ended."));
}

TEST(OverlapWords, a_wait_says_where_and_when_its_event_was_recorded) {
  HandMade made;
  auto const first = made.kernel(0, 0, 10, 40);
  made.wait(1, 0, 3, 4);
  auto const second = made.kernel(1, 5, 40, 60);
  made.recording.sort();
  Charge charge;
  charge.time = {10'000, 40'000};
  charge.kind = TimeClass::lost;
  charge.held = second;
  charge.holder = first;
  charge.wait = 0;
  auto const text = [&] {
    return evidence_text(Program(made.recording), Cause::false_dependency, charge);
  };
  EXPECT_THAT(text(),
              HasSubstr(", by a wait at 0.004 ms for an event recorded on stream 0 at 0.003 ms"));
  made.recording.syncs[0].record_call = kNone;
  EXPECT_TRUE(text().ends_with(", by a wait at 0.004 ms for an event")) << text();
}

/// A kernel is launched in the range `forward`; before, the host waits in an operation in the range
/// `log_loss`, on the line of which the source tells.
TEST(OverlapWords, the_host_call_has_its_own_place) {
  HandMade made(1);
  auto& recording = made.recording;
  auto const call = made.call(CallKind::synchronize, 10, 100, "cudaStreamSynchronize");
  auto const held = made.kernel(0, 105, 110, 140);
  auto const add_range = [&](char const* name, Ns begin, Ns end, RangeKind kind) {
    recording.ranges.push_back({.time = {begin * 1'000, end * 1'000},
                                .name = recording.names.id_of(name),
                                .thread = 0,
                                .kind = kind});
  };
  add_range("log_loss", 0, 102, RangeKind::nvtx);
  recording.ranges.back().source = recording.names.id_of("train.cu:42");
  add_range("aten::item", 5, 101, RangeKind::operation);
  add_range("forward", 103, 150, RangeKind::annotation);
  Charge charge;
  charge.time = {10'000, 100'000};
  charge.held = held;
  charge.call = call;
  auto const text = [&](TimeClass kind) {
    charge.kind = kind;
    return evidence_text(Program(recording), Cause::host_synchronization, charge);
  };
  EXPECT_EQ(text(TimeClass::idle),
            "90.0 µs idle before kernel 0 on stream 0 (in range forward); the host was in "
            "cudaStreamSynchronize() of 90.0 µs (in range log_loss, train.cu:42)");
  EXPECT_TRUE(text(TimeClass::lost).ends_with("(in range log_loss, train.cu:42)"));
  recording.ranges.erase(recording.ranges.begin());
  EXPECT_TRUE(text(TimeClass::idle).ends_with("of 90.0 µs (in range aten::item)"));
  recording.calls[call].code = recording.names.id_of("train.py(42): log_loss");
  EXPECT_TRUE(text(TimeClass::idle)
                  .ends_with("of 90.0 µs (in range aten::item, at train.py(42): log_loss)"));
  recording.ranges.clear();
  recording.calls[call].code =
      recording.names.id_of("/" + std::string(100, 'a') + "/train.py(42): log_loss");
  EXPECT_TRUE(text(TimeClass::idle)
                  .ends_with("(at ..." + std::string(46, 'a') + "/train.py(42): log_loss)"))
      << text(TimeClass::idle);
  recording.calls[call].code = recording.names.id_of("Trainer::step() in train");
  EXPECT_TRUE(text(TimeClass::idle).ends_with("of 90.0 µs (at Trainer::step() in train)"));
}

TEST(OverlapWords, an_unknown_cause_says_what_to_record) {
  HandMade made;
  made.kernel(0, 0, 10, 40);
  made.kernel(0, 2, 240, 300);
  made.recording.has_syncs = false;
  made.recording.calls.clear();
  for (auto& activity : made.recording.activities) {
    activity.call = kNone;
  }
  made.recording.has_calls = false;
  auto const advice = [&](char const* source) {
    made.recording.source = source;
    auto const report = find(made.recording);
    EXPECT_EQ(report.findings.at(0).cause, Cause::unknown);
    return report.findings.at(0).advice;
  };
  EXPECT_THAT(advice("Kineto"), HasSubstr("Record the calls of the CUDA runtime as well"));
  EXPECT_THAT(advice(kRecorderSource), Not(HasSubstr("msstream-overlap run")));
}

TEST(OverlapWords, counts_have_their_nouns) {
  EXPECT_EQ(count_text(1, "activity", "activities"), "1 activity");
  EXPECT_EQ(count_text(0, "activity", "activities"), "0 activities");
  EXPECT_EQ(count_text(1'234, "step", "steps"), "1,234 steps");
}

/// 50 launches of 10 us, each of a kernel of 4 us that begins as its launch ends.
HandMade launches_of_10_us() {
  HandMade made(1);
  for (int i = 0; i < 50; ++i) {
    auto const at = 10.0 * i;
    auto const kernel = made.kernel(0, at, at + 10, at + 14);
    made.recording.calls[made.recording.activities[kernel].call].time.end =
        static_cast<Ns>((at + 10) * 1'000);
  }
  made.recording.source = kRecorderSource;
  made.recording.sort();
  return made;
}

TEST(OverlapRecordingCost, launches_would_be_shorter_without_recording) {
  auto const made = launches_of_10_us();
  auto const report = find(made.recording);
  ASSERT_TRUE(report.recording_cost);
  // The window is [10, 504). All but the first launch are in it, and each idle time of 6 us is that
  // of one launch: 49 launches save 1.4 us each, and of 7 us no more than the idle time.
  EXPECT_EQ(report.recording_cost->launches, 49U);
  EXPECT_EQ(report.recording_cost->most_window, 494'000 - 49 * 1'400);
  EXPECT_EQ(report.recording_cost->least_window, 494'000 - 49 * 6'000);
  EXPECT_THAT(report.notes, Contains(HasSubstr("an estimated 200 µs to 425 µs")));
}

std::string text_of_file(std::string const& path) {
  std::ifstream file(std::string(MSSTREAM_SOURCE_FOLDER) + "/" + path);
  std::string const text{std::istreambuf_iterator<char>(file), {}};
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

/// The estimate's figures are the measured ones that the documents state.
TEST(OverlapRecordingCost, figures_are_those_that_were_measured) {
  auto made = launches_of_10_us();
  auto const cost = find(made.recording).recording_cost;
  made.recording.activities.front().name = made.recording.names.id_of("at::native::add");
  made.recording.ranges.push_back({.time = {0, 1},
                                   .name = made.recording.names.id_of("aten::add"),
                                   .thread = 0,
                                   .kind = RangeKind::operation});
  auto const of_pytorch = find(made.recording).recording_cost;
  ASSERT_TRUE(cost && of_pytorch);
  auto const measured = text_of_file("docs/overlap-recordings.md");
  auto const us_text = [](Ns time) { return fmt::format("{:g}", static_cast<double>(time) / 1e3); };
  EXPECT_THAT(measured, HasSubstr(fmt::format("gave + {}", us_text(cost->least_per_launch))));
  EXPECT_THAT(measured,
              HasSubstr(fmt::format("NVTX ranges, took {} µs", us_text(cost->most_per_launch))));
  EXPECT_THAT(measured,
              HasSubstr(fmt::format("PyTorch's step {} µs", us_text(of_pytorch->most_per_launch))));
  // The row of PyTorch's step says as much for each of its kernels.
  std::smatch row;
  ASSERT_TRUE(std::regex_search(
      measured, row, std::regex("eager step, (\\d+) kernels .*? \\+ ([\\d.]+) ms")));
  EXPECT_NEAR(std::stod(row[2]) * 1e6 / std::stod(row[1]),
              static_cast<double>(of_pytorch->most_per_launch),
              500);
  EXPECT_THAT(text_of_file("docs/overlap.md"),
              HasSubstr(fmt::format("shorter by {} to {} µs (PyTorch's: to {} µs)",
                                    us_text(cost->least_per_launch),
                                    us_text(cost->most_per_launch),
                                    us_text(of_pytorch->most_per_launch))));
}

/// The cost of recorded nodes of graphs is said, and not estimated.
TEST(OverlapRecordingCost, nodes_of_graphs_are_noted) {
  auto made = launches_of_10_us();
  EXPECT_THAT(find(made.recording).notes, Not(Contains(HasSubstr("of graphs, recorded each"))));
  for (Index i = 10; i < 20; ++i) {
    made.recording.activities[i].is_graph_node = true;
  }
  EXPECT_THAT(find(made.recording).notes, Contains(HasSubstr("10 nodes of graphs, recorded each")));
}

TEST(OverlapRecordingCost, a_busy_device_gains_nothing_and_other_tools_are_not_judged) {
  auto made = launches_of_10_us();
  for (auto& activity : made.recording.activities) {
    activity.time.end = activity.time.begin + 10'000;
  }
  auto const busy = find(made.recording);
  ASSERT_TRUE(busy.recording_cost);
  EXPECT_EQ(busy.recording_cost->least_window, busy.window.length());
  made.recording.source = "Kineto";
  EXPECT_FALSE(find(made.recording).recording_cost);
}

TEST(OverlapRecordingCost, a_wait_for_the_device_spends_what_the_host_was_ahead) {
  // 20 launches while the device runs one long kernel, a wait for it, and one launch after that.
  HandMade made(1);
  made.kernel(0, 0, 10, 1'000);
  for (int i = 0; i < 20; ++i) {
    made.kernel(0, 20 + 10 * i, 1'000 + i, 1'001 + i);
  }
  made.call(CallKind::synchronize, 300, 1'030);
  made.kernel(0, 1'050, 1'060, 1'100);
  made.recording.source = kRecorderSource;
  made.recording.sort();
  auto const report = find(made.recording);
  ASSERT_TRUE(report.recording_cost);
  EXPECT_EQ(report.window.length() - report.recording_cost->least_window, 7'000);
}

}  // namespace
}  // namespace msstream::overlap
