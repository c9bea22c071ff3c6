// SPDX-License-Identifier: Apache-2.0
#include "doctor/report.hpp"

#include "base/json_schema.hpp"
#include "base/temporary_folder.hpp"
#include "overlap/show/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>
#include <vector>

namespace msstream::doctor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

json schema_of_reports() {
  return json::parse(
      msstream::testing::read_all(MSSTREAM_SOURCE_FOLDER "/docs/doctor.schema.json"));
}

Report example_report() {
  Report report;
  report.is_cuda_build = true;
  report.device = 1;
  report.lines = {{Section::host, "processors", "processors", Level::ok, "2 of 2"},
                  {Section::host, "numa", "nodes", Level::ok, "1"},
                  {Section::device_measured,
                   "launch",
                   "launch of a kernel",
                   Level::slow,
                   "20 µs",
                   "It takes long, and here is a sentence that says what to do about it at length.",
                   Quantity{20, "µs"},
                   1},
                  {Section::limits, "threads", "threads", Level::bad, "\x1b[31mred"}};
  return report;
}

TEST(DoctorReport, json_obeys_its_schema) {
  auto const schema = schema_of_reports();
  auto const text = json_text(example_report());
  EXPECT_THAT(msstream::testing::schema_mistakes(json::parse(text), schema), IsEmpty());
  EXPECT_THAT(msstream::testing::schema_mistakes(json::parse(json_text({})), schema), IsEmpty());
  auto wrong = json::parse(text);
  wrong["lines"][0].erase("level");
  wrong["lines"][2]["section"] = "elsewhere";
  wrong["quick"] = 1;
  EXPECT_EQ(msstream::testing::schema_mistakes(wrong, schema).size(), 3U);
}

TEST(DoctorReport, json_has_what_the_text_has) {
  auto const report = json::parse(json_text(example_report()));
  EXPECT_EQ(report["summary"], json::parse(R"({"ok": 2, "note": 0, "slow": 1, "bad": 1})"));
  EXPECT_EQ(report["lines"][2]["number"], 20);
  EXPECT_EQ(report["lines"][2]["unit"], "µs");
  EXPECT_EQ(report["lines"][2]["device"], 1);
  EXPECT_FALSE(report["lines"][0].contains("number"));
}

TEST(DoctorReport, lines_are_aligned_under_their_headings_and_fit) {
  auto const text = terminal_text(example_report(), {60, false, true});
  EXPECT_THAT(text, HasSubstr("\nHost\n  ok    processors  2 of 2\n  ok    nodes       1\n\n"));
  EXPECT_THAT(text, HasSubstr("\n  slow  launch of a kernel  20 µs\n        It takes long"));
  EXPECT_THAT(text, HasSubstr("\n\n2 ok, 0 notes, 1 slow, 1 bad\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(overlap::width_of(line), 60U) << line;
  }
}

TEST(DoctorReport, colours_and_unicode_are_for_terminals_that_have_them) {
  auto const plain = terminal_text(example_report(), {80, false, false});
  EXPECT_THAT(plain, Not(HasSubstr("\x1b")));
  EXPECT_THAT(plain, HasSubstr("20 us"));
  auto const coloured = terminal_text(example_report(), {80, true, true});
  EXPECT_THAT(coloured, HasSubstr("\x1b[33mslow  \x1b[0mlaunch"));
  EXPECT_THAT(coloured, Not(HasSubstr("\x1b[31mred")));  // a value is no escape sequence
}

TEST(DoctorReport, numbers_have_three_digits) {
  EXPECT_EQ(text_of({54.13, "GB/s"}), "54.1 GB/s");
  EXPECT_EQ(text_of({2.5, "µs"}), "2.50 µs");
  EXPECT_EQ(text_of({12'345.6, ""}), "12,346");
  EXPECT_EQ(text_of({3, "nodes"}), "3 nodes");
  EXPECT_EQ(text_of({0.0724, "µs"}), "0.0724 µs");
  EXPECT_EQ(bytes_text(64 * 1024 * 1024), "64.0 MiB");
  EXPECT_EQ(bytes_text(12), "12 bytes");
}

}  // namespace
}  // namespace msstream::doctor
