// SPDX-License-Identifier: Apache-2.0
// Tests of a finding's text and JSON, and of a checker that two devices share.
#include "stream/stream_context.hpp"
#include "trace/json_check.hpp"
#include "trust/checked_fixture.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/runtime/checker.hpp>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace msstream::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

CheckReport::Access access(std::string operation, AccessMode mode) {
  return {std::move(operation), "group 1 d2h", mode, 0x7f00, 96, {}, {}};
}

TEST(CheckReportText, says_what_is_known_and_no_more) {
  CheckReport const whole{CheckKind::race,
                          "two things at once",
                          access("early", AccessMode::write),
                          access("late", AccessMode::read),
                          "a wait"};
  EXPECT_EQ(whole.text(),
            "race: two things at once\n"
            "  first:   'early' writes 96 bytes at 0x7f00 on group 1 d2h\n"
            "  second:  'late' reads 96 bytes at 0x7f00 on group 1 d2h\n"
            "  missing: a wait");
  CheckReport const bare{CheckKind::leak, "64 bytes", {}, {}, ""};
  EXPECT_EQ(bare.text(), "leak: 64 bytes");
}

TEST(CheckReportText, has_lines_where_they_are_known) {
  auto late = access("late", AccessMode::read);
  late.issued_at = std::source_location::current();
  auto const line = std::to_string(late.issued_at.line());
  EXPECT_THAT(late.text(), HasSubstr("check_report_test.cpp:" + line));
  EXPECT_THAT(late.text(), Not(HasSubstr("scope")));
  late.scope_opened_at = late.issued_at;
  EXPECT_THAT(late.text(), HasSubstr("scope opened at"));
}

/// The names of operations come from the user, so they may contain any characters.
TEST(CheckReportJson, is_json_whatever_is_in_the_names) {
  std::vector<CheckReport> reports;
  for (auto const kind : kCheckKinds) {
    reports.push_back({kind,
                       "a \"quoted\" message\nof two lines",
                       access("back\\slash", AccessMode::write),
                       access("tab\t bell\a", AccessMode::read),
                       ""});
  }
  auto const json = json_of(reports);
  EXPECT_NO_THROW(trace::JsonReader(json).read_all()) << json;
  EXPECT_NO_THROW(trace::JsonReader(json_of({})).read_all());
  for (auto const kind : kCheckKinds) {
    EXPECT_THAT(json, HasSubstr(std::string("\"kind\": \"") + std::string(name_of(kind)) + '"'));
  }
}

TEST(CheckReportKind, has_a_name_of_its_own) {
  for (auto const one : kCheckKinds) {
    EXPECT_FALSE(name_of(one).empty());
    for (auto const other : kCheckKinds) {
      EXPECT_EQ(name_of(one) == name_of(other), one == other);
    }
  }
}

TEST(CheckReportFile, is_written_whole_when_the_checker_goes) {
  auto const path = std::filesystem::path(::testing::TempDir()) / "found.json";
  std::filesystem::remove(path);
  std::string expected;
  {
    Checker checker({.mode = CheckMode::count, .report_path = path.string()});
    checker.event_created(1);
    static_cast<void>(checker.waitable_moment_of(1, 1));
    checker.event_destroyed(1);
    expected = checker.json();
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  std::ostringstream found;
  found << std::ifstream(path).rdbuf();
  // The file has what all checkers of the process have found, and the test may run twice in one.
  auto const found_reports = nlohmann::json::parse(found.str()).at("reports");
  auto const expected_reports = nlohmann::json::parse(expected).at("reports");
  ASSERT_EQ(expected_reports.size(), 1U);
  EXPECT_THAT(found_reports, Contains(expected_reports[0]));
  EXPECT_THAT(expected, HasSubstr("unrecorded wait"));
  std::filesystem::remove(path);
}

TEST(CheckReportFile, has_the_findings_of_all_checkers_that_write_there) {
  auto const path = std::filesystem::path(::testing::TempDir()) / "found_by_three.json";
  std::filesystem::remove(path);
  for (int i = 0; i < 3; ++i) {
    Checker checker({.mode = CheckMode::count, .report_path = path.string()});
    if (i != 1) {  // checker 1 finds nothing
      checker.event_created(1);
      static_cast<void>(checker.waitable_moment_of(1, static_cast<Checker::Handle>(i + 1)));
      checker.event_destroyed(1);
    }
    checker.write_report();
  }
  std::ostringstream found;
  found << std::ifstream(path).rdbuf();
  EXPECT_NO_THROW(trace::JsonReader(found.str()).read_all());
  EXPECT_THAT(found.str(), HasSubstr("stream 0x1"));
  EXPECT_THAT(found.str(), HasSubstr("stream 0x3"));
  std::filesystem::remove(path);
}

/// Makes a checker find something and write its report file.
void report_to(std::string const& path, Checker::Handle stream) {
  Checker checker({.mode = CheckMode::count, .report_path = path});
  checker.event_created(1);
  static_cast<void>(checker.waitable_moment_of(1, stream));
  checker.event_destroyed(1);
}

TEST(CheckReportFile, has_the_findings_of_all_whose_spellings_mean_it) {
  auto const folder = std::filesystem::path(::testing::TempDir());
  auto const path = folder / "found_by_spelling.json";
  auto const link = folder / "found_by_spelling_link.json";
  std::filesystem::remove(path);
  std::filesystem::remove(link);
  std::filesystem::create_symlink(path.filename(), link);
  report_to(link.string(), 1);
  report_to(path.string(), 2);
  report_to((folder / "." / path.filename()).string(), 3);
  std::ostringstream found;
  found << std::ifstream(path).rdbuf();
  for (char const* stream : {"stream 0x1", "stream 0x2", "stream 0x3"}) {
    EXPECT_THAT(found.str(), HasSubstr(stream));
  }
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  std::filesystem::remove(path);
  std::filesystem::remove(link);
}

TEST(CheckReportFile, devices_and_fifos_are_written_to_and_stay) {
  auto const fifo = std::filesystem::path(::testing::TempDir()) / "found.fifo";
  std::filesystem::remove(fifo);
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  ::testing::internal::CaptureStderr();
  report_to("/dev/full", 1);
  report_to(fifo.string(), 2);  // the write must not wait for a reader
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              ::testing::AllOf(HasSubstr("cannot write /dev/full: No space left on device"),
                               HasSubstr("nobody reads the FIFO")));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
  int const reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  report_to(fifo.string(), 3);
  std::string found(4096, '\0');
  found.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(reader, found.data(), 4096), 0)));
  ::close(reader);
  EXPECT_THAT(found, HasSubstr("stream 0x3"));
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  std::filesystem::remove(fifo);
}

TEST(CheckReportFile, that_cannot_be_written_is_told_and_nothing_else) {
  ::testing::internal::CaptureStderr();
  { Checker const checker({.mode = CheckMode::count, .report_path = "/nowhere/at/all.json"}); }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("/nowhere/at/all.json"));
}

/// Two devices that share one tracker, like two GPUs of one program.
class TwoDevices : public ::testing::Test {
 protected:
  using R = Checked<Sim>;

  [[nodiscard]] Device<R> second_device() const {
    return Device<R>(
        {.runtime = {.check = {.mode = CheckMode::count, .report_path = {}}, .checker = checker},
         .tracker = first.context()->tracker});
  }
  Device<R> first = checked_device<Sim>({.mode = CheckMode::count});
  std::shared_ptr<Checker> checker = first.runtime().checker();
};

TEST_F(TwoDevices, that_share_a_checker_are_ordered_by_each_others_events) {
  auto const second = second_device();
  auto const tensor = zeros<float, R>(first, {16});
  auto const memory = raw(first, tensor);
  auto const here = first.default_group().compute();
  auto const there = second.default_group().compute();
  issue("first", writes(memory), kNoWork);
  there.wait(here.record());
  issue("second", writes(raw(second, tensor)), kNoWork);
  EXPECT_EQ(checker->count(), 0U) << checker->json();
  issue("third", writes(memory), kNoWork);
  auto const report = only_report(*checker, CheckKind::race);
  EXPECT_EQ(report.first->operation, "second");
  EXPECT_EQ(report.second->operation, "third");
}

}  // namespace
}  // namespace msstream::testing
