// SPDX-License-Identifier: Apache-2.0
// Recordings of the programs in examples/teach/overlap/ on an H200, cut to a few steps, and how
// much faster their fixed twins were.
#include "overlap/find/find.hpp"
#include "overlap/read/read.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::overlap {
namespace {

struct Recorded {
  std::string_view name;
  Cause expected;
  double gain;  ///< measured: the step of the program, divided by that of its fixed twin
};

std::ostream& operator<<(std::ostream& out, Recorded const& one) {
  return out << one.name;
}

constexpr Recorded kRecorded[] = {
    {"allocation_and_full_planted", Cause::driver_allocation, 2.72},
    {"both_directions_planted", Cause::one_stream_two_roles, 1.79},
    {"copy_engine_planted", Cause::copy_engine, 1.13},
    {"driver_allocation_planted", Cause::driver_allocation, 3.49},
    {"event_synchronize_planted", Cause::host_synchronization, 2.07},
    {"false_dependency_planted", Cause::false_dependency, 1.76},
    {"hardware_queue_planted", Cause::hardware_queue, 3.28},
    {"host_synchronization_planted", Cause::host_synchronization, 2.07},
    {"legacy_stream_planted", Cause::legacy_stream, 2.00},
    {"multiprocessors_full_planted", Cause::multiprocessors_full, 1.99},
    {"one_stream_two_roles_planted", Cause::one_stream_two_roles, 1.89},
    {"pageable_copy_planted", Cause::pageable_copy, 3.00},
    {"queue_is_full_planted", Cause::queue_is_full, 1.11},
};

Recording recorded(std::string_view name) {
  auto recordings = read(std::filesystem::path(MSSTREAM_SOURCE_FOLDER) / "tests/overlap/recorded" /
                         (std::string(name) + ".json.gz"));
  return std::move(recordings.at(0));
}

bool has_cause(Report const& report, Cause cause) {
  return std::ranges::any_of(report.findings,
                             [&](Finding const& finding) { return finding.cause == cause; });
}

class RecordedProgram : public testing::TestWithParam<Recorded> {};

/// Returns the idle and lost time of a finding's cause in the accounting.
Ns charged_to(Report const& report, Finding const& finding) {
  Ns sum = 0;
  for (auto const& device : report.devices) {
    for (auto const& time : device.times) {
      bool const is_cause = device.device == finding.device && time.cause == finding.cause;
      sum += is_cause ? time.time : 0;
    }
  }
  return sum;
}

/// Findings lost what the accounting charges to their cause, or say in which class the rest is.
TEST_P(RecordedProgram, findings_and_the_accounting_have_one_time) {
  auto const report = find(recorded(GetParam().name));
  for (auto const& finding : report.findings) {
    bool const is_alone = finding.summary.find("counts as time alone") != std::string::npos;
    bool const is_beside =
        finding.summary.find("as time with two or more activities") != std::string::npos;
    bool const is_charged = charged_to(report, finding) == finding.lost;
    EXPECT_EQ(is_charged, !is_alone && !is_beside) << finding.summary;
  }
}

/// A replay without a fix takes as long as recorded.
TEST_P(RecordedProgram, is_replayed_as_recorded) {
  auto const report = find(recorded(GetParam().name));
  ASSERT_TRUE(report.replay);
  EXPECT_LT(report.replay->error(), 0.015);
}

TEST_P(RecordedProgram, has_its_cause_and_the_measured_gain) {
  auto const report = find(recorded(GetParam().name));
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, GetParam().expected);
  // The fixed twin of a pair has both fixes.
  auto const& prediction = report.together ? report.together : report.findings.front().prediction;
  ASSERT_TRUE(prediction);
  double const predicted = 1 - static_cast<double>(prediction->after) / prediction->before;
  double const measured = 1 - 1 / GetParam().gain;
  EXPECT_NEAR(predicted, measured, std::max(0.25 * measured, 0.05));
}

INSTANTIATE_TEST_SUITE_P(OnH200,
                         RecordedProgram,
                         testing::ValuesIn(kRecorded),
                         [](auto const& tested) { return std::string(tested.param.name); });

TEST(RecordedPrograms, fixed_twins_lack_the_cause) {
  EXPECT_FALSE(has_cause(find(recorded("false_dependency_fixed")), Cause::false_dependency));
  EXPECT_FALSE(has_cause(find(recorded("pageable_copy_fixed")), Cause::pageable_copy));
}

/// Kernels of one name take times that their arguments say: none of them is slow for the others.
TEST(RecordedPrograms, other_arguments_are_no_shared_bandwidth) {
  EXPECT_FALSE(has_cause(find(recorded("false_dependency_fixed")), Cause::bandwidth_shared));
}

/// The range from a graph to fused kernels, which the fixed twin has, and that from kernels which
/// need the whole device to kernels which do not.
TEST(RecordedPrograms, ranges_contain_the_measured_gain) {
  for (auto const& [name, gain] :
       {std::pair("launch_two_streams_planted", 7.94), {"multiprocessors_full_planted", 1.99}}) {
    auto const report = find(recorded(name));
    ASSERT_FALSE(report.findings.empty()) << name;
    auto const& prediction = report.findings.front().prediction;
    ASSERT_TRUE(prediction && prediction->range) << name;
    auto const measured = static_cast<double>(report.window.length()) / gain;
    EXPECT_LE(static_cast<double>(prediction->range->least), 1.05 * measured) << name;
    EXPECT_GE(static_cast<double>(prediction->range->most), measured) << name;
    EXPECT_LT(prediction->range->least, prediction->range->most) << name;
  }
}

/// Two streams take turns, one equal kernel each: nobody can tell whether they need each other, and
/// streams with equal work are branches more often than a producer and its consumer.
TEST(RecordedPrograms, turns_of_single_kernels_have_a_range) {
  auto const report = find(recorded("redundant_wait_planted"));
  ASSERT_EQ(report.findings.size(), 1U);
  auto const& finding = report.findings.front();
  EXPECT_EQ(finding.cause, Cause::false_dependency);
  ASSERT_TRUE(finding.prediction && finding.prediction->range);
  auto const& range = *finding.prediction->range;
  EXPECT_EQ(range.most, report.window.length());
  EXPECT_LT(range.least, 0.6 * static_cast<double>(report.window.length()));  // measured: 0.5
  EXPECT_FALSE(range.why.empty());
}

}  // namespace
}  // namespace msstream::overlap
