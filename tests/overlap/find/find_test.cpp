// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/find.hpp"

#include "overlap/find/hand_made.hpp"
#include "overlap/find/program.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

namespace msstream::overlap {
namespace {

using ::testing::StrEq;
using ::testing::ThrowsMessage;

Ns time_of(Report const& report, TimeClass kind, std::optional<Cause> cause = {}) {
  for (auto const& time : report.devices.at(0).times) {
    if (time.kind == kind && time.cause == cause) {
      return time.time;
    }
  }
  return 0;
}

Finding const* finding_of(Report const& report, Cause cause) {
  auto const found = std::ranges::find(report.findings, cause, &Finding::cause);
  return found == report.findings.end() ? nullptr : &*found;
}

Report report_of(HandMade& program) {
  program.recording.sort();
  return find(program.recording);
}

void expect_adds_up(Report const& report) {
  for (auto const& device : report.devices) {
    Ns at = report.window.begin;
    Ns busy = 0;
    for (auto const& span : device.spans) {
      ASSERT_EQ(span.time.begin, at);
      ASSERT_GT(span.time.length(), 0);
      busy += span.kind == TimeClass::idle ? 0 : span.time.length();
      at = span.time.end;
    }
    EXPECT_EQ(at, report.window.end);
    EXPECT_EQ(busy, device.busy);
    EXPECT_EQ(std::accumulate(device.at_once.begin(), device.at_once.end(), Ns{0}),
              report.window.length());
    Ns sum = 0;
    for (auto const& time : device.times) {
      sum += time.time;
    }
    EXPECT_EQ(sum, report.window.length());
  }
}

/// NextActivities gives at most 64 of 100 streams: the ones whose kernels begin next.
TEST(NextActivitiesTest, of_many_streams_the_next_ones_are_given) {
  HandMade made(100);
  for (int i = 0; i < 300; ++i) {
    made.kernel(static_cast<Index>(i % 100), i, 10.0 * i + 1'000, 10.0 * i + 1'005);
  }
  made.recording.sort();
  Program const program(made.recording);
  NextActivities next(program, 0);
  EXPECT_EQ(next.from(0).size(), 64U);
  for (Ns const time : {1'000'000, 1'000'001, 2'495'000, 3'700'000, 3'989'000}) {
    auto const given = next.from(time);
    auto const left = static_cast<std::size_t>((3'990'000 - time) / 10'000 + 1);
    ASSERT_EQ(given.size(), std::min<std::size_t>(left, 64)) << time;
    for (auto const i : given) {
      auto const begin = program.activity(i).time.begin;
      EXPECT_GE(begin, time);
      EXPECT_LT(begin, time + 65 * 10'000);
    }
  }
}

TEST(FindTest, counts_activities_at_once) {
  HandMade program;
  program.kernel(0, 0, 10, 40);
  program.kernel(1, 2, 20, 60);
  auto const report = report_of(program);
  // stream 0 = [10, 40), stream 1 = [20, 60)
  EXPECT_EQ(report.devices.at(0).at_once, (std::vector<Ns>{0, 30'000, 20'000}));
  EXPECT_EQ(report.devices.at(0).busy, 50'000);
  EXPECT_EQ(time_of(report, TimeClass::overlapped), 20'000);
  expect_adds_up(report);
}

TEST(FindTest, counts_each_instant_once_at_the_edges_of_the_window) {
  HandMade program(3);
  program.kernel(0, 0, 10, 100);  // spans the window
  program.kernel(1, 2, 20, 20);   // at its begin, without length
  program.kernel(1, 4, 30, 40);
  program.kernel(2, 6, 30, 40);  // at the same time
  program.kernel(1, 8, 80, 80);  // at its end
  program.recording.sort();
  FindOptions options;
  options.window = Interval{20'000, 80'000};
  auto const report = find(program.recording, options);
  EXPECT_EQ(report.devices.at(0).at_once, (std::vector<Ns>{0, 50'000, 0, 10'000}));
  EXPECT_EQ(report.devices.at(0).busy, 60'000);
  EXPECT_EQ(time_of(report, TimeClass::overlapped), 10'000);
  expect_adds_up(report);
}

TEST(FindTest, adds_up_for_random_recordings_and_repeats_itself) {
  std::mt19937 random(7);
  auto const below = [&](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  for (int round = 0; round < 200; ++round) {
    HandMade program(1 + below(4));
    auto const streams = static_cast<int>(program.recording.streams.size());
    int const count = 1 + below(60);
    for (int i = 0; i < count; ++i) {
      auto const begin = below(500);
      auto const length = below(4) == 0 ? 0 : below(40);
      auto const stream = static_cast<Index>(below(streams));
      auto const made = program.kernel(
          stream, begin - below(60), begin, begin + length, static_cast<Index>(below(2)));
      if (below(3) == 0) {
        program.recording.activities[made].call = kNone;
      }
      if (below(4) == 0) {
        program.wait(stream, static_cast<Index>(below(streams)), begin - 70, begin - 65);
      }
      if (below(6) == 0) {
        auto const at = below(500);
        program.call(static_cast<CallKind>(below(13)), at, at + below(80));
      }
    }
    program.recording.sort();
    FindOptions options;
    if (round % 2 == 1) {
      options.window = Interval{100'000, 480'000};
    }
    try {
      auto const report = find(program.recording, options);
      expect_adds_up(report);
      auto const again = find(program.recording, options);
      ASSERT_EQ(report.findings.size(), again.findings.size());
      EXPECT_EQ(report.verdict, again.verdict);
    } catch (std::invalid_argument const&) {
      continue;  // nothing in the window
    }
  }
}

TEST(FindTest, refuses_empty_and_reversed_windows) {
  HandMade program;
  program.kernel(0, 0, 10, 40);
  program.recording.sort();
  EXPECT_THROW((void)find(program.recording, {.window = Interval{50'000, 40'000}}),
               std::invalid_argument);
  EXPECT_THAT(
      [&] {
        (void)find(program.recording, {.window = Interval{50'000, 60'000}});
      },
      ThrowsMessage<std::invalid_argument>(
          StrEq("no work of a device in 0.05ms:0.06ms; the recording has work in 0.01ms:0.04ms")));
  EXPECT_THROW((void)find(Recording{}), std::invalid_argument);
}

TEST(FindTest, explains_many_activities_of_one_lane_quickly) {
  HandMade program(1);
  constexpr int kCount = 300'000;
  for (int i = 0; i < kCount; ++i) {
    Activity activity;
    activity.time = {i * 1'000, i * 1'000 + 700};
    activity.stream = 0;
    program.recording.activities.push_back(activity);
  }
  auto const report = report_of(program);
  EXPECT_EQ(report.devices.at(0).busy, Ns{kCount} * 700);
  expect_adds_up(report);
}

TEST(FindTest, says_nothing_of_a_stream_that_is_busy) {
  HandMade program(1);
  for (int i = 0; i < 50; ++i) {
    program.kernel(0, 3.0 * i, 10 + 101.0 * i, 110 + 101.0 * i);
  }
  auto const report = report_of(program);
  EXPECT_TRUE(report.findings.empty());
  EXPECT_NE(report.verdict.find("one stream, busy"), std::string::npos) << report.verdict;
}

TEST(FindTest, the_verdict_of_a_busy_device_says_if_copies_take_the_time) {
  HandMade program(2);
  program.kernel(1, 0, 4, 8);
  for (int i = 0; i < 50; ++i) {
    program.copy(0, CopyDirection::h2d, 1 + 3.0 * i, 10 + 101.0 * i, 110 + 101.0 * i);
  }
  auto const report = report_of(program);
  EXPECT_EQ(report.verdict, "one main stream of 2, busy with copies: 99% busy");
}

TEST(FindTest, copies_beside_kernels_are_not_what_a_device_is_busy_with) {
  HandMade program(3);
  for (int i = 0; i < 50; ++i) {
    program.kernel(0, 3.0 * i, 10 + 101.0 * i, 110 + 101.0 * i);
    program.copy(1, CopyDirection::h2d, 1 + 3.0 * i, 12 + 101.0 * i, 92 + 101.0 * i);
    program.copy(2, CopyDirection::d2h, 2 + 3.0 * i, 12 + 101.0 * i, 92 + 101.0 * i);
  }
  auto const report = report_of(program);
  EXPECT_EQ(report.verdict.find("busy with copies"), std::string::npos) << report.verdict;
}

/// Two streams in turn, each of which needs the other one's result: on a busy device no fault.
TEST(FindTest, the_verdict_of_a_busy_device_names_no_chain_of_work) {
  HandMade program(2);
  for (int i = 0; i < 40; ++i) {
    program.wait(i % 2, 1 - i % 2, 5.0 * i, 5.0 * i + 1);
    program.kernel(i % 2, 5.0 * i + 2, 10 + 101.0 * i, 110 + 101.0 * i);
  }
  auto const report = report_of(program);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::true_dependency);
  EXPECT_TRUE(report.verdict.starts_with("2 streams, busy: 99% busy")) << report.verdict;
}

TEST(FindTest, short_kernels_are_bound_by_their_launches) {
  HandMade program(1);
  for (int i = 0; i < 50; ++i) {
    program.kernel(0, 20.0 * i, 20.0 * i + 5, 20.0 * i + 8);
  }
  auto const report = report_of(program);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::launch_bound);
  ASSERT_TRUE(report.findings.front().prediction);
  EXPECT_LT(report.findings.front().prediction->after,
            report.findings.front().prediction->before / 3);
}

/// Some libraries launch kernels by calls that a recorder does not see.
TEST(FindTest, work_without_a_recorded_call_does_not_stop_a_prediction) {
  HandMade program(1);
  for (int i = 0; i < 50; ++i) {
    auto const kernel = program.kernel(0, 20.0 * i, 20.0 * i + 5, 20.0 * i + 8);
    if (i % 10 == 9) {
      program.recording.activities[kernel].call = kNone;
    }
  }
  auto const report = report_of(program);
  ASSERT_FALSE(report.findings.empty());
  ASSERT_TRUE(report.findings.front().prediction);
  EXPECT_LT(report.findings.front().prediction->after,
            report.findings.front().prediction->before / 3);
}

/// Stream 1 waits for all of stream 0 in each round, and needs the short first kernel. The calls of
/// a round are made long before its kernels run.
TEST(FindTest, work_without_a_recorded_call_has_the_waits_before_it) {
  HandMade program(2);
  for (int i = 0; i < 10; ++i) {
    double const called = 50.0 * i;
    double const start = 1010.0 * i;
    program.kernel(0, called, start + 2, start + 4);
    program.kernel(0, called + 3, start + 4, start + 504);
    program.wait(1, 0, called + 6, called + 7);
    auto const held = program.kernel(1, called + 9, start + 505, start + 507);
    program.recording.activities[held].call = kNone;
    program.kernel(1, called + 12, start + 507, start + 1007);
    program.wait(0, 1, called + 15, called + 16);
  }
  auto const report = report_of(program);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::false_dependency);
}

TEST(FindTest, a_synchronisation_costs_the_lead_that_the_host_had) {
  HandMade program(1);
  for (int i = 0; i < 20; ++i) {
    double const start = 400.0 * i;
    program.kernel(0, start, start + 5, start + 205);
    program.call(CallKind::synchronize, start + 3, start + 210);
    // The host prepares what is next for less time than it had waited.
  }
  auto const report = report_of(program);
  auto const* const finding = finding_of(report, Cause::host_synchronization);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(report.findings.front().cause, Cause::host_synchronization);
  EXPECT_EQ(finding_of(report, Cause::host_busy), nullptr);
  expect_adds_up(report);
}

TEST(FindTest, a_full_grid_keeps_other_streams_off) {
  HandMade program;
  for (int i = 0; i < 10; ++i) {
    double const start = 300.0 * i;
    program.kernel(0, start, start + 5, start + 205, 1);
    program.kernel(1, start + 3, start + 206, start + 300);
  }
  auto const report = report_of(program);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::multiprocessors_full);
  EXPECT_NE(report.findings.front().evidence.front().text.find("threads"), std::string::npos)
      << report.findings.front().evidence.front().text;
}

TEST(FindTest, a_wait_for_what_is_needed_is_no_loss) {
  HandMade program;
  for (int i = 0; i < 10; ++i) {
    double const start = 400.0 * i;
    program.kernel(0, start, start + 10, start + 200);
    program.wait(1, 0, start + 3, start + 4);
    program.kernel(1, start + 5, start + 203, start + 395);
    program.wait(0, 1, start + 8, start + 9);
  }
  auto const report = report_of(program);
  EXPECT_EQ(time_of(report, TimeClass::lost, Cause::false_dependency), 0);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::true_dependency);
  EXPECT_EQ(report.devices.at(0).critical_path.size(), 20U);
}

TEST(FindTest, declared_dependencies_tell_a_wait_that_is_not_needed) {
  for (bool const needs : {false, true}) {
    HandMade program;
    auto const first = program.kernel(0, 0, 10, 200);
    program.wait(1, 0, 3, 4);
    auto const second = program.kernel(1, 5, 203, 400);
    program.recording.has_dependencies = true;
    if (needs) {
      program.recording.dependencies.push_back({first, second});
    }
    auto const report = report_of(program);
    EXPECT_EQ(finding_of(report, Cause::false_dependency) != nullptr, !needs);
    if (!needs) {
      ASSERT_TRUE(report.findings.front().prediction);
      EXPECT_LT(report.findings.front().prediction->after, 250'000);
    }
  }
}

TEST(FindTest, copies_of_one_direction_queue) {
  HandMade program(3);
  program.copy(0, CopyDirection::h2d, 0, 10, 400);
  program.copy(1, CopyDirection::h2d, 3, 401, 420);
  program.kernel(1, 6, 422, 500);
  auto const report = report_of(program);
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::copy_engine);
}

TEST(FindTest, ranks_that_begin_late_hold_up_the_others) {
  std::vector<Recording> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    HandMade program(1);
    for (int step = 0; step < 3; ++step) {
      double const start = 1'000.0 * step;
      program.kernel(0, start, start + 10, start + (rank == 0 ? 300 : 800));
      auto const i = program.kernel(0, start + 3, start + (rank == 0 ? 301 : 801), start + 900);
      program.recording.activities[i].collective =
          static_cast<Index>(program.recording.collectives.size());
      program.recording.collectives.push_back({.ranks = 2, .sequence = step});
    }
    program.recording.sort();
    ranks.push_back(std::move(program.recording));
  }
  auto const reports = find(ranks);
  ASSERT_EQ(reports.size(), 2U);
  auto const* const finding = finding_of(reports.front(), Cause::peer_skew);
  ASSERT_NE(finding, nullptr);
  EXPECT_EQ(finding->lost, 3 * 500'000);
  EXPECT_NE(finding->summary.find("for rank 1, which came last"), std::string::npos)
      << finding->summary;
  EXPECT_EQ(finding_of(reports.back(), Cause::peer_skew), nullptr);
}

TEST(CauseTest, ids_are_found_again) {
  for (auto const& text : cause_texts()) {
    EXPECT_EQ(cause_of(text.id), text.cause);
    EXPECT_EQ(&text_of(text.cause), &text);
  }
  EXPECT_EQ(cause_of("nothing"), std::nullopt);
}

TEST(FindTest, work_without_length_is_refused_with_its_time) {
  HandMade program(1);
  program.kernel(0, 99e12, 99e12 + 8, 99e12 + 8);
  program.recording.sort();
  try {
    (void)find(program.recording);
    FAIL() << "accepted";
  } catch (std::invalid_argument const& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("is at 99000000000.008 ms and has no length"));
  }
}

/// A collective runs alone, beside a kernel, or in a group of one rank.
TEST(FindTest, one_rank_does_not_tell_how_long_its_collectives_waited) {
  struct Setup {
    bool alone = true;
    int ranks = 8;
  };
  for (auto const& [alone, ranks] : {Setup{}, Setup{.alone = false}, Setup{.ranks = 1}}) {
    HandMade program(2);
    program.recording.collectives.push_back(
        {.name = program.recording.names.id_of("allreduce"), .ranks = ranks});
    program.kernel(0, 0, 10, alone ? 110 : 410);
    program.recording.activities[program.kernel(1, 4, 110, 310)].collective = 0;
    program.kernel(0, 8, 410, 510);
    program.recording.sort();
    auto const report = find(program.recording);
    auto const is_noted = std::ranges::any_of(report.notes, [](std::string const& note) {
      return note.find("with nothing beside them for 200 µs (40%). One rank alone") !=
             std::string::npos;
    });
    EXPECT_EQ(is_noted, alone && ranks > 1) << alone << ranks;
  }
}

/// Two devices work in turn, and each waits for the other one: both idle for half of the time.
TEST(FindTest, idle_time_for_another_device_is_a_chain_of_work) {
  for (bool const waits : {false, true}) {
    HandMade program(2);
    program.recording.devices.push_back(program.recording.devices[0]);
    program.recording.devices[1].number = 1;
    program.recording.streams[1].device = 1;
    program.kernel(0, 0, 10, 210);
    for (int i = 1; i < 10; ++i) {
      auto const own = static_cast<Index>(i % 2);
      double const issued = 10.0 * i;
      if (waits) {
        program.wait(own, 1 - own, issued, issued + 1);
      }
      program.kernel(own, issued + 2, 10 + 205.0 * i, 10 + 205.0 * i + 200);
    }
    program.recording.sort();
    auto const report = find(program.recording);
    auto const* const chain = finding_of(report, Cause::true_dependency);
    ASSERT_EQ(chain != nullptr, waits);
    if (waits) {
      EXPECT_GT(2 * chain->lost, report.window.length() / 2);
      EXPECT_THAT(chain->evidence.front().text, ::testing::HasSubstr("which waited for kernel"));
      EXPECT_THAT(chain->summary, ::testing::HasSubstr("It is idle"));
    }
  }
}

}  // namespace
}  // namespace msstream::overlap
