// SPDX-License-Identifier: Apache-2.0
#include "doctor/report_writer.hpp"

#include "base/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <exception>
#include <stdexcept>
#include <string>

namespace msstream::doctor {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

/// Returns what a run writes as JSON, after `use` has used it, and its exit status.
template <class Use>
std::pair<json, int> report_of(Use const& use) {
  ::testing::internal::CaptureStdout();
  ReportWriter writer({.json = "-"}, {});
  try {
    use(writer);
  } catch (...) {
    static_cast<void>(::testing::internal::GetCapturedStdout());
    throw;
  }
  int const status = writer.finish();
  return {json::parse(::testing::internal::GetCapturedStdout()), status};
}

TEST(DoctorReportWriter, a_check_that_throws_is_a_bad_line_beside_the_others) {
  auto const [report, status] = report_of([](ReportWriter& writer) {
    auto const findings = writer.findings();
    findings.attempt(Section::limits, "limits", "limits", []() -> Lines {
      throw std::runtime_error("too few");
    });
    findings.attempt(Section::libraries, "mpi", "MPI", [] {
      return Lines{{Section::libraries, "mpi", "MPI", Level::ok, "there"}};
    });
    findings.begin(Section::driver, "the driver");
    writer.add_failure(std::make_exception_ptr(std::runtime_error("no answer")));
  });
  EXPECT_EQ(status, 1);
  auto const& lines = report["lines"];
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0]["id"], "limits");
  EXPECT_THAT(lines[0]["advice"].get<std::string>(), HasSubstr("too few"));
  EXPECT_EQ(lines[1]["section"], "driver");
  EXPECT_EQ(lines[1]["thing"], "the driver");
  EXPECT_EQ(lines[2]["id"], "mpi");
}

TEST(DoctorReportWriter, a_report_is_written_once) {
  // Parsing fails for two reports, one behind the other.
  auto const [hung, status] = report_of([](ReportWriter& writer) {
    writer.findings().begin(Section::features, "features of the device");
    EXPECT_TRUE(writer.give_up("features of the device"));
    EXPECT_FALSE(writer.give_up("features of the device"));
  });
  EXPECT_EQ(status, 1);
  ASSERT_EQ(hung["lines"].size(), 1U);
  EXPECT_EQ(hung["lines"][0]["section"], "features");
  ::testing::internal::CaptureStdout();
  ReportWriter writer({.json = "-"}, {});
  writer.findings().begin(Section::driver, "the driver");
  EXPECT_EQ(writer.finish(), 0);
  EXPECT_FALSE(writer.give_up("the driver"));
  EXPECT_EQ(json::parse(::testing::internal::GetCapturedStdout())["lines"].size(), 0U);
}

}  // namespace
}  // namespace msstream::doctor
