// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/work.hpp"

#include "overlap/show/example.hpp"
#include "overlap/show/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace msstream::overlap {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Verdict = WorkComparison::Verdict;

/// The work of ten steps: 20 kernels, 5,000 bytes up.
WorkDone ten_steps() {
  return {.kernels = {{"add", 15}, {"gemm", 5}},
          .copied = {{"h2d", 5'000}},
          .ranges = {{"step *", {10, 1'000'000}}, {"setup", {1, 10}}}};
}

TEST(OverlapWork, a_report_counts_what_is_in_its_window) {
  Example example;
  auto& recording = example.recording;
  recording.activities.push_back({.time = {90'000, 95'000}, .kind = ActivityKind::graph});
  recording.activities.push_back(
      {.time = {100'000, 110'000}, .name = recording.activities[1].name});
  auto const work = work_of(example.explained());
  EXPECT_EQ(work.kernels, (WorkDone::Counts{{"kernel", 1}, {"late", 1}}));
  EXPECT_EQ(work.copied, (WorkDone::Counts{{"h2d", 4096}}));
  EXPECT_EQ(work.graphs, 1);
  ASSERT_TRUE(work.ranges.contains("step"));
  EXPECT_EQ(work.ranges.at("step").count, 2U);
  EXPECT_EQ(work.ranges.at("step").time, 80'000);
}

TEST(OverlapWork, ranges_that_are_numbered_have_one_name) {
  Example example;
  auto& recording = example.recording;
  for (auto& range : recording.ranges) {
    range.name = recording.names.id_of("ProfilerStep#" + std::to_string(range.time.begin));
  }
  EXPECT_EQ(work_of(example.explained()).ranges.at("ProfilerStep#*").count, 2U);
}

TEST(OverlapWork, equal_work_is_equal) {
  auto const work = compare_work(ten_steps(), ten_steps());
  EXPECT_EQ(work.verdict, Verdict::equal);
  EXPECT_EQ(work.text, "Equal: 20 kernels, and as many bytes copied.");
  EXPECT_TRUE(work.differences.empty());
}

TEST(OverlapWork, half_of_the_work_is_said_plainly) {
  auto after = ten_steps();
  after.kernels = {{"add", 5}, {"gemm", 5}};
  after.copied["h2d"] = 2'500;
  after.ranges["step *"].count = 5;
  auto const work = compare_work(ten_steps(), after);
  EXPECT_EQ(work.verdict, Verdict::different);
  EXPECT_THAT(work.text,
              HasSubstr("Not equal: 20 → 10 kernels, 0.50x; 5,000 → 2,500 bytes h2d, 0.50x; 10 → 5 "
                        "ranges step *, 0.50x. The times are not comparable."));
  EXPECT_THAT(work.text, HasSubstr("--window"));
  ASSERT_EQ(work.differences.size(), 3U);
  EXPECT_EQ(text_of(work.differences.back()), "kernel add: 15 → 5");
}

TEST(OverlapWork, other_kernels_in_as_many_steps_may_be_the_change_itself) {
  auto after = ten_steps();
  after.kernels = {{"fused", 10}};
  auto const work = compare_work(ten_steps(), after);
  EXPECT_EQ(work.verdict, Verdict::different);
  EXPECT_THAT(work.text, HasSubstr("Both have 10 ranges step *: compare the times only if"));
  after.kernels = {{"sub", 15}, {"gemm", 5}};
  EXPECT_THAT(compare_work(ten_steps(), after).text, HasSubstr("as many kernels, of other names"));
}

TEST(OverlapWork, one_range_around_all_is_no_step) {
  auto before = ten_steps();
  before.ranges = {{"measured", {1, 1'000}}};
  auto after = before;
  after.kernels["add"] = 1;
  EXPECT_THAT(compare_work(before, after).text, HasSubstr("put an NVTX range around each step"));
}

TEST(OverlapWork, one_percent_is_similar) {
  WorkDone const before{.kernels = {{"add", 1'000}}};
  EXPECT_EQ(compare_work(before, WorkDone{.kernels = {{"add", 1'010}}}).verdict, Verdict::similar);
  EXPECT_EQ(compare_work(before, WorkDone{.kernels = {{"add", 1'011}}}).verdict,
            Verdict::different);
}

TEST(OverlapWork, whole_graphs_hide_their_kernels) {
  auto after = ten_steps();
  after.kernels.clear();
  after.graphs = 10;
  auto const work = compare_work(ten_steps(), after);
  EXPECT_EQ(work.verdict, Verdict::unknown);
  EXPECT_THAT(work.text, HasSubstr("As many bytes copied, 10 ranges step *. Kernels cannot be"));
  EXPECT_THAT(work.text, HasSubstr("20 → 0 kernels outside of graphs, 0 → 10 launches of whole"));
  EXPECT_THAT(work.text, HasSubstr("--graph-nodes"));
  EXPECT_TRUE(work.differences.empty());
}

TEST(OverlapWork, whole_graphs_that_copy_nearly_as_much_are_unknown_work) {
  auto after = ten_steps();
  after.kernels.clear();
  after.graphs = 10;
  after.copied["h2d"] = 5'010;
  auto const work = compare_work(ten_steps(), after);
  EXPECT_EQ(work.verdict, Verdict::unknown);
  EXPECT_THAT(work.text, HasSubstr("Nearly as much copied: 5,000 → 5,010 bytes h2d, 1.00x, 10 "));
  EXPECT_THAT(work.text, HasSubstr("Kernels cannot be compared"));
}

TEST(OverlapWork, whole_graphs_that_copy_other_bytes_are_other_work) {
  auto after = ten_steps();
  after.kernels.clear();
  after.graphs = 10;
  after.copied["h2d"] = 2'500;
  auto const work = compare_work(ten_steps(), after);
  EXPECT_EQ(work.verdict, Verdict::different);
  EXPECT_THAT(work.text, HasSubstr("Not equal: 5,000 → 2,500 bytes h2d, 0.50x. The times are not"));
  EXPECT_THAT(work.text, HasSubstr("Kernels cannot be compared"));
  ASSERT_EQ(work.differences.size(), 1U);
}

TEST(OverlapWork, names_of_causes_are_whole_in_any_width) {
  Example const example;
  auto before = summary_of(example.explained());
  before.devices[0].times.push_back({TimeClass::lost, Cause::host_synchronization, 1'000});
  auto const comparison = compare({&before, 1}, {&before, 1});
  for (std::size_t const width : {50U, 80U, 100U}) {
    EXPECT_THAT(terminal_text(comparison, {.width = width}),
                HasSubstr("one alone, others waited: host-synchronization"))
        << width;
  }
}

TEST(OverlapWork, reports_of_older_versions_have_no_counts) {
  auto const work = compare_work(std::nullopt, ten_steps());
  EXPECT_EQ(work.verdict, Verdict::unknown);
  EXPECT_THAT(work.text, HasSubstr("older version"));
}

TEST(OverlapWork, bytes_that_are_too_many_to_count_are_the_most_that_can_be) {
  Example example;
  std::size_t copies = 0;
  for (auto& activity : example.recording.activities) {
    if (activity.kind == ActivityKind::copy) {
      activity.bytes = std::numeric_limits<std::int64_t>::max() - 1;
      ++copies;
    }
  }
  ASSERT_GT(copies, 0U);
  auto const more = example.recording.activities;
  for (auto const& activity : more) {
    if (activity.kind == ActivityKind::copy) {
      example.recording.activities.push_back(activity);
    }
  }
  auto const work = work_of(example.explained());
  for (auto const& [direction, bytes] : work.copied) {
    EXPECT_EQ(bytes, std::numeric_limits<std::int64_t>::max()) << direction;
  }
}

TEST(OverlapWork, comparisons_say_it_in_both_forms) {
  Example const example;
  auto const before = summary_of(example.explained());
  auto after = before;
  after.work->kernels.erase("late");
  after.work->ranges["step"].count = 1;
  auto const half = compare({&before, 1}, {&after, 1});
  auto const text = terminal_text(half, {});
  EXPECT_THAT(text, HasSubstr("work:   Not equal: 2 → 1 kernels, 0.50x"));
  EXPECT_THAT(text, HasSubstr("window per range step: 50.0 µs → 100 µs, 2.00x as slow"));
  EXPECT_THAT(text, HasSubstr("        kernel late: 1 → 0\n"));
  auto const json = nlohmann::json::parse(json_text(half))["comparisons"][0]["work"];
  EXPECT_EQ(json["verdict"], "different");
  EXPECT_EQ(json["kernels_after"], 1);
  EXPECT_EQ(json["differences"].size(), 2U);
  after.work->graphs = before.work->graphs + 3;
  auto const graphs = nlohmann::json::parse(json_text(compare({&before, 1}, {&after, 1})));
  EXPECT_EQ(graphs["comparisons"][0]["work"]["graphs_before"], before.work->graphs);
  EXPECT_EQ(graphs["comparisons"][0]["work"]["graphs_after"], after.work->graphs);
  EXPECT_THAT(terminal_text(compare({&before, 1}, {&before, 1}), {}), Not(HasSubstr("Not equal")));
}

}  // namespace
}  // namespace msstream::overlap
