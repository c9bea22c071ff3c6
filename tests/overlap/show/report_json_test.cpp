// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/report_json.hpp"

#include "base/json_schema.hpp"
#include "overlap/find/find.hpp"
#include "overlap/read/read.hpp"
#include "overlap/show/example.hpp"
#include "overlap/show/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::overlap {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// Returns the schema in docs/.
json schema(std::string const& name = "overlap-report") {
  std::ifstream file(MSSTREAM_SOURCE_FOLDER "/docs/" + name + ".schema.json");
  return json::parse(file);
}

std::vector<std::string> wrong_in(std::string const& text,
                                  std::string const& name = "overlap-report") {
  return msstream::testing::schema_mistakes(json::parse(text), schema(name));
}

TEST(OverlapJson, reports_obey_the_schema) {
  Example example;
  EXPECT_THAT(wrong_in(json_text(example.all())), ::testing::IsEmpty());
  example.recording.rank = 1;
  example.recording.ranks = 2;
  example.report.findings.front().prediction.reset();
  example.report.findings.front().evidence.front() = {"nothing", {0, 1}};
  EXPECT_THAT(wrong_in(json_text(example.all())), ::testing::IsEmpty());
}

TEST(OverlapJson, the_call_of_evidence_has_its_place) {
  Example example;
  auto const call = [&] {
    auto const report = json::parse(json_text(example.all()));
    EXPECT_THAT(wrong_in(report.dump()), ::testing::IsEmpty());
    return report["reports"][0]["findings"][0]["evidence"][0]["call"];
  };
  EXPECT_EQ(call()["range"], "step");
  EXPECT_EQ(call()["range_source"], nullptr);
  EXPECT_EQ(call()["python"], nullptr);
  example.recording.calls[4].code = example.recording.names.id_of("train.py(42): step");
  EXPECT_EQ(call()["python"], "train.py(42): step");
  EXPECT_EQ(call()["function"], nullptr);
  example.recording.calls[4].code = example.recording.names.id_of("Trainer::step() in train");
  EXPECT_EQ(call()["python"], nullptr);
  EXPECT_EQ(call()["function"], "Trainer::step() in train");
  example.recording.ranges[1].source = example.recording.names.id_of("train.cu:42");
  EXPECT_EQ(call()["range_source"], "train.cu:42");
  example.recording.ranges.pop_back();
  EXPECT_EQ(call()["range"], nullptr);
}

TEST(OverlapJson, reports_of_the_first_version_obey_the_schema) {
  auto report = json::parse(json_text(Example().all()));
  for (auto const* added : {"together", "recording_cost", "work_done", "replay"}) {
    report["reports"][0].erase(added);
  }
  for (auto const* added : {"work", "copies", "by_stream"}) {
    report["reports"][0]["devices"][0].erase(added);
  }
  for (auto const* added : {"range", "range_source", "python", "function"}) {
    report["reports"][0]["findings"][0]["evidence"][0]["call"].erase(added);
  }
  EXPECT_THAT(wrong_in(report.dump()), ::testing::IsEmpty());
}

TEST(OverlapJson, reports_of_recorded_programs_obey_the_schema) {
  std::vector<Summary> summaries;
  for (auto const& file :
       std::filesystem::directory_iterator(MSSTREAM_SOURCE_FOLDER "/tests/overlap/recorded")) {
    auto const recordings = read(file.path());
    auto const report = find(recordings.at(0));
    Explained const explained{recordings.at(0), report};
    EXPECT_THAT(wrong_in(json_text({&explained, 1})), ::testing::IsEmpty()) << file.path();
    summaries.push_back(summary_of(explained));
  }
  ASSERT_GT(summaries.size(), 1U);
  std::span<Summary const> const all(summaries);
  auto const comparison = json_text(compare(all.first(all.size() - 1), all.subspan(1)));
  EXPECT_THAT(wrong_in(comparison, "overlap-comparison"), ::testing::IsEmpty());
}

TEST(OverlapJson, the_check_of_the_schema_finds_mistakes) {
  auto report = json::parse(json_text(Example().all()));
  report["reports"][0]["findings"][0]["cause"] = "no-such-cause";
  report["reports"][0]["devices"][0].erase("busy_ns");
  report["reports"][0]["more"] = 1;
  EXPECT_EQ(wrong_in(report.dump()).size(), 3U);
}

TEST(OverlapJson, the_schema_has_every_cause) {
  auto const rules = schema();
  auto const of_comparisons = schema("overlap-comparison");
  auto const& device = of_comparisons["$defs"]["device"]["properties"];
  for (auto const& causes : {rules["$defs"]["cause"]["enum"],
                             rules["$defs"]["optional_cause"]["enum"],
                             device["times"]["items"]["properties"]["cause"]["enum"],
                             device["findings"]["items"]["properties"]["cause"]["enum"]}) {
    for (auto const& text : cause_texts()) {
      EXPECT_NE(std::ranges::find(causes, json(text.id)), causes.end()) << text.id;
    }
  }
}

TEST(OverlapJson, times_add_up_to_the_window) {
  auto const report = json::parse(json_text(Example().all()))["reports"][0];
  Ns sum = 0;
  for (auto const& time : report["devices"][0]["times"]) {
    sum += time["time_ns"].get<Ns>();
  }
  EXPECT_EQ(sum, report["window"]["length_ns"].get<Ns>());
}

TEST(OverlapJson, equal_reports_give_equal_bytes) {
  EXPECT_EQ(json_text(Example().all()), json_text(Example().all()));
}

TEST(OverlapJson, any_bytes_in_names_give_valid_json) {
  auto const text = json_text(Example(hostile_name(), hostile_name()).all());
  EXPECT_TRUE(json::accept(text));
}

TEST(OverlapJson, the_longest_intervals_are_listed) {
  Example example;
  auto& intervals = example.report.findings.front().intervals;
  intervals.clear();
  for (Ns i = 0; i < 300; ++i) {
    intervals.push_back({i * 100, i * 100 + (i == 150 ? 90 : i % 10 + 1)});
  }
  auto const finding = json::parse(json_text(example.all()))["reports"][0]["findings"][0];
  EXPECT_EQ(finding["intervals_in_all"], 300);
  EXPECT_EQ(finding["intervals"].size(), kMostIntervals);
  EXPECT_TRUE(std::ranges::is_sorted(finding["intervals"]));
  EXPECT_NE(std::ranges::find(finding["intervals"], json({15'000, 15'090})),
            finding["intervals"].end());
}

TEST(OverlapJson, a_report_is_read_again) {
  Example const example;
  auto const text = json_text(example.all());
  std::istringstream stream(text);
  ASSERT_TRUE(is_report_json(stream));
  auto const read = read_summaries(text, "a.json");
  auto const made = summary_of(example.explained());
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].title, made.title);
  EXPECT_EQ(read[0].window, made.window);
  EXPECT_EQ(read[0].devices[0].times.size(), 3U);
  EXPECT_EQ(read[0].findings[0].lost, 30'000);
}

TEST(OverlapJson, files_that_are_no_reports_are_refused_by_name) {
  auto const refusal = [](std::string const& text) {
    try {
      (void)read_summaries(text, "a.json");
    } catch (std::runtime_error const& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal("{"), HasSubstr("a.json: "));
  EXPECT_THAT(refusal(R"({"schema": "other", "version": 1})"), HasSubstr("schema 'other'"));
  EXPECT_THAT(refusal(R"({"schema": "msstream-overlap-report", "version": 9})"),
              HasSubstr("version 9"));
  std::istringstream trace(R"({"traceEvents": []})");
  EXPECT_FALSE(is_report_json(trace));
}

}  // namespace
}  // namespace msstream::overlap
