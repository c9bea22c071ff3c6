// SPDX-License-Identifier: Apache-2.0
// Tests which waits of branches count as needed, where a recording does not tell.
#include "overlap/cases/case.hpp"
#include "overlap/find/find.hpp"
#include "overlap/find/findings.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace msstream::overlap::cases {
namespace {

using ::testing::HasSubstr;

Report report_of_case(std::string_view name,
                      bool fixed,
                      std::vector<Case> const& all = later_cases()) {
  auto const found = std::ranges::find(all, name, &Case::name);
  return find(found->build(fixed).at(0));
}

TEST(ForksTest, a_branch_beside_other_work_needs_its_producer) {
  auto const report = report_of_case("fork_behind_the_producer", false);
  for (auto const& finding : report.findings) {
    EXPECT_EQ(finding.cause, Cause::true_dependency);
  }
}

/// The first kernel stays needed: the prediction is the time of the fixed twin.
TEST(ForksTest, a_branch_beside_nothing_was_forked_late) {
  auto const report = report_of_case("fork_behind_five", false);
  ASSERT_FALSE(report.findings.empty());
  auto const& finding = report.findings.front();
  EXPECT_EQ(finding.cause, Cause::false_dependency);
  EXPECT_TRUE(finding.is_guess);
  EXPECT_THAT(finding.summary, HasSubstr("may not need"));
  ASSERT_TRUE(finding.prediction && finding.prediction->range);
  EXPECT_EQ(finding.prediction->range->most, report.window.length());
  auto const fixed = static_cast<double>(report_of_case("fork_behind_five", true).window.length());
  EXPECT_NEAR(static_cast<double>(finding.prediction->after), fixed, 0.05 * fixed);
}

enum class Join : std::uint8_t { device, stream, event };

/// Steps of kernels in one stream, an event, kernels in another one, and a wait of the host.
Recording pipeline(std::vector<Ns> const& produce, std::vector<Ns> const& consume, Join join) {
  TraceBuilder program;
  auto const main = program.stream();
  auto const side = program.stream();
  auto& thread = program.thread();
  auto const launch = [&](StreamNumber stream,
                          std::string const& name,
                          std::vector<Ns> const& all) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      thread.launch(stream, {.name = name + std::to_string(i), .duration = all[i], .blocks = 60});
    }
  };
  for (int step = 0; step < 20; ++step) {
    auto const produced = program.event();
    launch(main, "produce ", produce);
    thread.record(produced, main).wait(side, produced);
    launch(side, "consume ", consume);
    switch (join) {
      case Join::device:
        thread.sync_device();
        break;
      case Join::stream:
        thread.sync_stream(side);
        break;
      case Join::event: {
        auto const consumed = program.event();
        thread.record(consumed, side).sync_event(consumed);
        break;
      }
    }
  }
  return program.run();
}

/// Pre-processing before a network, and metrics of a step: what a stream produces is needed, also
/// if it idles until the host has waited for the result.
TEST(ForksTest, a_pipeline_whose_result_the_host_waits_for_is_right) {
  struct Shape {
    std::vector<Ns> produce;
    std::vector<Ns> consume;
  };
  for (auto const& [produce, consume] : {Shape{{60 * us, 80 * us, 60 * us}, {200 * us}},
                                         Shape{{150 * us, 150 * us, 100 * us}, {30 * us}},
                                         Shape{{60 * us, 60 * us}, {120 * us, 120 * us}},
                                         Shape{{40 * us, 300 * us}, {40 * us, 20 * us}}}) {
    for (auto const join : {Join::device, Join::stream, Join::event}) {
      for (auto const& finding : find(pipeline(produce, consume, join)).findings) {
        EXPECT_NE(finding.cause, Cause::false_dependency)
            << produce.size() << ' ' << static_cast<int>(join);
      }
    }
  }
}

TEST(ForksTest, guesses_come_after_what_is_known) {
  std::vector<Finding> findings(2);
  findings[0].cause = Cause::false_dependency;
  findings[0].lost = 500;
  findings[0].is_guess = true;
  findings[1].cause = Cause::one_stream_two_roles;
  findings[1].lost = 100;
  sort_findings(findings);
  EXPECT_EQ(findings.front().cause, Cause::one_stream_two_roles);
}

/// A chain of work comes after findings that lose far less, guesses, and those that gain nothing.
TEST(ForksTest, a_chain_of_work_is_last) {
  std::vector<Finding> findings(4);
  findings[0].cause = Cause::true_dependency;
  findings[0].lost = 900;
  findings[0].prediction = Prediction{1'000, 1'000, PredictedRange{100, 1'000, ""}};
  findings[1].cause = Cause::multiprocessors_full;
  findings[1].lost = 30;
  findings[1].prediction = Prediction{1'000, 1'000};
  findings[2].cause = Cause::false_dependency;
  findings[2].lost = 20;
  findings[2].is_guess = true;
  findings[3].cause = Cause::pageable_copy;
  findings[3].lost = 25;
  sort_findings(findings);
  EXPECT_EQ(findings[0].cause, Cause::pageable_copy);
  EXPECT_EQ(findings[1].cause, Cause::false_dependency);
  EXPECT_EQ(findings[2].cause, Cause::multiprocessors_full);
  EXPECT_EQ(findings[3].cause, Cause::true_dependency);
}

/// So it does in whole reports, of which some have a chain that takes the most time.
TEST(ForksTest, no_report_has_a_chain_of_work_before_another_finding) {
  int longest = 0;
  for (auto const& one : all_cases()) {
    auto const ranks = one.build(false);
    auto const report = ranks.size() == 1 ? find(ranks.front()) : find(ranks).front();
    auto const chain = std::ranges::find(report.findings, Cause::true_dependency, &Finding::cause);
    if (chain != report.findings.end()) {
      EXPECT_EQ(chain + 1, report.findings.end()) << one.name;
      longest += report.findings.size() > 1 && chain->lost > report.findings.front().lost ? 1 : 0;
    }
  }
  EXPECT_GE(longest, 1);
}

/// An upload that waits for the last kernel, which reads the only buffer.
TEST(ForksTest, an_upload_that_waits_for_a_kernel_is_no_guess) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const copies = program.stream();
  for (int i = 0; i < 10; ++i) {
    auto const uploaded = program.event();
    auto const trained = program.event();
    program.thread()
        .copy(copies, CopyDirection::h2d, 5'000'000)
        .record(uploaded, copies)
        .wait(compute, uploaded)
        .launch(compute, {.name = "train", .duration = 150 * us, .blocks = 100})
        .record(trained, compute)
        .wait(copies, trained);
  }
  auto const report = find(program.run());
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::false_dependency);
  EXPECT_FALSE(report.findings.front().is_guess);
}

/// The prediction is the time with a communicator of its own; nothing is gained if what waits needs
/// both.
TEST(ForksTest, a_collective_behind_another_kind_gains_by_an_order_of_its_own) {
  for (auto const* const name : {"one_process_group", "serialised_collectives"}) {
    auto const report = report_of_case(name, false, collective_cases());
    ASSERT_FALSE(report.findings.empty()) << name;
    auto const& finding = report.findings.front();
    EXPECT_EQ(finding.cause, Cause::collective_order);
    ASSERT_TRUE(finding.prediction && finding.prediction->range) << name;
    auto const after = report_of_case(name, true, collective_cases()).window.length();
    EXPECT_NEAR(static_cast<double>(finding.prediction->after),
                static_cast<double>(after),
                0.1 * static_cast<double>(after))
        << name;
    EXPECT_EQ(finding.prediction->range->most, report.window.length());
  }
}

/// Gradients in two buckets beside a backward that is short, and an optimizer that waits once.
TEST(ForksTest, buckets_of_one_exchange_are_needed_together) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const comm = program.stream();
  for (int step = 0; step < 8; ++step) {
    for (int bucket = 0; bucket < 2; ++bucket) {
      auto const ready = program.event();
      Kernel reduce{.name = "ncclDevKernel_AllReduce", .duration = 150 * us, .blocks = 16};
      reduce.collective = CollectiveOf{.sequence = 2 * step + bucket, .bytes = 1 << 22};
      program.thread()
          .launch(compute, {.name = "backward", .duration = 40 * us, .blocks = 100})
          .record(ready, compute)
          .wait(comm, ready)
          .launch(comm, reduce);
    }
    auto const reduced = program.event();
    program.thread()
        .record(reduced, comm)
        .wait(compute, reduced)
        .launch(compute, {.name = "optimizer", .duration = 30 * us, .blocks = 100});
  }
  auto const report = find(program.run());
  for (auto const& finding : report.findings) {
    EXPECT_EQ(finding.cause, Cause::true_dependency);
  }
}

/// Steps with an all-reduce of each size in one communicator, and kernels that wait for the last
/// one; or for each, at the end of the step.
Recording reductions(std::vector<std::int64_t> const& bytes, bool joins_each, bool own_streams) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const comm = program.stream();
  for (int step = 0; step < 8; ++step) {
    std::vector<EventNumber> reduced;
    program.thread().launch(compute, {.name = "backward", .duration = 40 * us, .blocks = 100});
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      auto const ready = program.event();
      auto const own =
          own_streams && step == 0 && i > 0 ? program.stream() : StreamNumber(comm + i);
      auto const stream = own_streams ? own : comm;
      Kernel reduce{.name = "ncclDevKernel_AllReduce", .duration = bytes[i] / 50, .blocks = 16};
      reduce.collective = CollectiveOf{.group = own_streams ? std::to_string(i) : "one",
                                       .sequence = 8 * step + static_cast<int>(i),
                                       .bytes = bytes[i]};
      reduced.push_back(program.event());
      program.thread()
          .record(ready, compute)
          .wait(stream, ready)
          .launch(stream, reduce)
          .record(reduced.back(), stream);
    }
    program.thread()
        .wait(compute, reduced.back())
        .launch(compute, {.name = "clip", .duration = 200 * us, .blocks = 100});
    for (auto const event : reduced) {
      if (joins_each) {
        program.thread().wait(compute, event);
      }
    }
    program.thread().launch(compute, {.name = "update", .duration = 30 * us, .blocks = 100});
  }
  return program.run();
}

/// The program waits for the large one later: then the small one is known to be needed alone.
TEST(ForksTest, a_collective_that_is_joined_later_was_not_needed) {
  auto const report = find(reductions({10'000'000, 500'000}, true, false));
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::collective_order);
  EXPECT_FALSE(report.findings.front().is_guess);
}

/// Buckets, a smaller one before them, and the rest of the last one behind: what waits needs all.
TEST(ForksTest, buckets_of_all_sizes_are_one_exchange) {
  for (auto const& sizes : {std::vector<std::int64_t>{10'000'000, 10'000'000, 500'000},
                            {10'000'000, 500'000},
                            {1'000'000, 10'000'000, 500'000},
                            {500'000, 10'000'000},
                            {10'000'000, 4'000'000}}) {
    auto const report = find(reductions(sizes, false, false));
    for (auto const& finding : report.findings) {
      EXPECT_EQ(finding.cause, Cause::true_dependency) << sizes.size();
    }
  }
}

/// Two buckets whose sizes no record tells, the first of which waits for another rank.
TEST(ForksTest, equal_buckets_of_which_one_waits_for_a_rank_are_one_exchange) {
  TraceBuilder program;
  auto const compute = program.stream();
  auto const comm = program.stream();
  for (int step = 0; step < 10; ++step) {
    auto const ready = program.event();
    auto const reduced = program.event();
    program.thread()
        .launch(compute, {.name = "backward", .duration = 300 * us, .blocks = 100})
        .record(ready, compute)
        .wait(comm, ready);
    for (auto const length : {800 * us, 90 * us}) {
      program.thread().launch(
          comm, {.name = "ncclDevKernel_AllReduce", .duration = length, .blocks = 16});
    }
    program.thread()
        .record(reduced, comm)
        .wait(compute, reduced)
        .launch(compute, {.name = "optimizer", .duration = 100 * us, .blocks = 100});
  }
  for (auto const& finding : find(program.run()).findings) {
    EXPECT_EQ(finding.cause, Cause::true_dependency);
  }
}

}  // namespace
}  // namespace msstream::overlap::cases
