// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/page.hpp"

#include "overlap/show/example.hpp"
#include "overlap/show/page_columns.hpp"
#include "overlap/show/page_data.hpp"
#include "overlap/show/page_rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace msstream::overlap {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

TEST(OverlapPage, base64_is_padded) {
  for (auto const& [bytes, text] : {std::pair("", ""),
                                    std::pair("f", "Zg=="),
                                    std::pair("fo", "Zm8="),
                                    std::pair("foobar", "Zm9vYmFy")}) {
    std::string out;
    append_base64(out, bytes);
    EXPECT_EQ(out, text);
  }
}

TEST(OverlapPage, columns_have_their_lengths) {
  PageColumns columns;
  columns.begin("a");
  columns.put(300);
  columns.begin("b");
  columns.put_signed(-1);
  EXPECT_EQ(columns.columns().size(), 2U);
  EXPECT_EQ(columns.columns()[0].second, 2U);
  EXPECT_EQ(columns.bytes(), "\xAC\x02\x01");
}

TEST(OverlapPage, the_page_needs_no_network) {
  auto const page = html_text(Example().all());
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("<noscript>"));
  for (auto const* outside : {"http://", "https://", "src=\"", "@import", "fetch("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
}

TEST(OverlapPage, texts_without_a_script_keep_their_lines) {
  EXPECT_THAT(html_text(Example().all()), HasSubstr("\n2 findings, the largest loss first\n"));
  auto const summary = summary_of(Example().explained());
  auto const comparison = html_text(compare({&summary, 1}, {&summary, 1}));
  EXPECT_THAT(comparison, HasSubstr("\nwork:   Equal: 2 kernels, and as many bytes copied.\n"));
}

TEST(OverlapPage, names_cannot_leave_their_place) {
  auto const harmless = html_text(Example().all());
  auto const hostile = html_text(Example(hostile_name(), hostile_name()).all());
  for (auto const* tag : {"<script", "</script", "<img", "<pre", "</pre"}) {
    EXPECT_EQ(count_of(hostile, tag), count_of(harmless, tag)) << tag;
  }
  EXPECT_THAT(hostile, Not(HasSubstr("\xE2\x80\xAE")));
}

TEST(OverlapPage, equal_reports_give_equal_bytes) {
  EXPECT_EQ(html_text(Example().all()), html_text(Example().all()));
}

TEST(OverlapPage, the_description_names_what_the_columns_have) {
  Example const example;
  auto const data = page_data(example.explained(), {});
  auto const description = nlohmann::json::parse(data.description);
  EXPECT_EQ(description["rows"], 3);
  EXPECT_EQ(description["lanes"].size(), 2U);
  EXPECT_EQ(description["lanes"][0]["title"], "stream 7 (legacy default)");
  EXPECT_EQ(description["lanes"][1]["title"], "stream 20 (copies)");
  EXPECT_EQ(description["callLanes"][0]["title"], "main (42)");
  EXPECT_EQ(description["findings"][0]["evidence"][0]["row"], 1);
}

TEST(OverlapPage, a_latency_does_not_hide_what_held_an_activity) {
  Example example;
  using enum TimeClass;
  auto& spans = example.report.devices[0].spans;
  spans[4] = {{60'000, 76'000}, lost, Cause::false_dependency};
  spans.insert(spans.begin() + 5, ClassSpan{{76'000, 80'000}, idle, Cause::true_dependency});
  auto const late = starts_of(example.explained()).at(2);
  EXPECT_EQ(late.cause, Cause::false_dependency);
  EXPECT_EQ(late.charged, 16'000);
}

TEST(OverlapPage, rows_are_those_of_the_window) {
  Example example;
  auto& activities = example.recording.activities;
  example.report.window = {30'000, 80'000};  // the copy has ended, and "late" begins
  example.report.findings.clear();
  auto const rows = [&] {
    return nlohmann::json::parse(page_data(example.explained(), {}).description)["rows"];
  };
  EXPECT_EQ(rows(), 1);
  activities[0].time = {0, 90'000};  // spans the window
  EXPECT_EQ(rows(), 2);
  activities[2].time = {80'000, 80'000};
  EXPECT_EQ(rows(), 3);
  EXPECT_EQ(counts_of(example.explained(), 0).activities, 3U);
}

TEST(OverlapPage, a_prediction_has_its_range_and_the_reason) {
  Example example;
  example.report.findings[0].prediction = Prediction{
      100, 60, PredictedRange{.least = 40, .most = 90, .why = "It depends on the weather."}};
  auto const data = page_data(example.explained(), {});
  auto const finding = nlohmann::json::parse(data.description)["findings"][0];
  EXPECT_EQ(finding["prediction"],
            nlohmann::json({"40 ns (100 ns → 60 ns, 1.67x)",
                            "gain between 10 ns and 60 ns: It depends on the weather."}));
}

TEST(OverlapPage, an_activity_is_charged_with_the_time_before_it) {
  Example const example;
  auto const starts = starts_of(example.explained());
  EXPECT_EQ(starts[0].cause, Cause::launch_bound);
  EXPECT_EQ(starts[0].charged, 10'000);
  EXPECT_EQ(starts[2].cause, Cause::host_busy);
  EXPECT_EQ(starts[2].charged, 20'000);
}

TEST(OverlapPage, a_call_belongs_to_its_innermost_range) {
  auto recording = std::move(Example().recording);
  recording.ranges.push_back({.time = {5'000, 20'000},
                              .name = recording.names.id_of("inner"),
                              .thread = 0,
                              .kind = RangeKind::operation});
  recording.sort();
  auto const operations = operations_of(recording);
  auto const name = [&](std::size_t call) {
    return operations[call] == kNone ? std::string_view("none")
                                     : recording.names[recording.ranges[operations[call]].name];
  };
  EXPECT_EQ(name(0), "step");
  EXPECT_EQ(name(1), "inner");
  EXPECT_EQ(name(4), "step");
  auto const named = named_ranges_of(recording);
  EXPECT_EQ(named[1], 0U) << "the annotation around the operation";
  recording.ranges.erase(recording.ranges.begin());
  EXPECT_EQ(recording.names[recording.ranges.at(named_ranges_of(recording)[1]).name], "inner");
}

TEST(OverlapPage, a_line_of_python_is_in_the_page) {
  Example example;
  auto const has_line = [&] {
    auto const names =
        nlohmann::json::parse(page_data(example.explained(), {}).description)["names"];
    return std::find(names.begin(), names.end(), "train.py(42): step") != names.end();
  };
  EXPECT_FALSE(has_line());
  example.recording.calls[4].code = example.recording.names.id_of("train.py(42): step");
  EXPECT_TRUE(has_line());
}

TEST(OverlapPage, of_too_many_rows_the_longest_and_those_of_evidence_stay) {
  Example example;
  example.recording.activities[1].time.end += 5'000;
  PageRows const rows(example.explained(), 2);
  EXPECT_EQ(rows.row_count(), 2U);
  EXPECT_EQ(rows.place_of_activity(0), kNone);
  EXPECT_NE(rows.place_of_activity(1), kNone);  // of evidence, and long
  EXPECT_NE(rows.place_of_activity(2), kNone);  // of evidence
  EXPECT_EQ(rows.left_out(), 1U + 3U);          // an activity and three calls
}

TEST(OverlapPage, a_page_of_a_hostile_recording_is_written_for_a_browser) {
  auto const* folder = std::getenv("MSSTREAM_TEST_PAGES");
  if (folder == nullptr) {
    GTEST_SKIP() << "MSSTREAM_TEST_PAGES names no folder for the page";
  }
  std::ofstream(std::string(folder) + "/hostile.html")
      << html_text(Example(hostile_name(), hostile_name()).all());
  Example deep;
  for (std::int64_t depth = 0; depth < 40; ++depth) {
    // Ranges that are nested, and two beside each other in the innermost.
    for (std::int64_t const begin : {4'000 + 10 * depth, 8'000 - 10 * depth}) {
      deep.recording.ranges.push_back({.time = {begin, begin + (depth < 39 ? 10'000 : 100)},
                                       .name = deep.recording.names.id_of("nested"),
                                       .thread = 0,
                                       .kind = RangeKind::operation});
    }
  }
  deep.recording.sort();
  std::ofstream(std::string(folder) + "/nested.html") << html_text(deep.all());
}

}  // namespace
}  // namespace msstream::overlap
