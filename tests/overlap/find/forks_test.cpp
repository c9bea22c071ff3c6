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

enum class HostJoin : std::uint8_t { streams, events, device, side_alone };

/// Like fork_behind_five, but the host joins the streams at the end of each step.
Recording joined_by_host(bool fixed, HostJoin join, bool has_work_beside) {
  TraceBuilder program;
  auto const main = program.stream();
  auto const side = program.stream();
  auto& thread = program.thread();
  auto const work = [](std::string name) {
    return Kernel{.name = std::move(name), .duration = 50 * us, .blocks = 32};
  };
  for (int i = 0; i < 20; ++i) {
    auto const forked = program.event();
    thread.launch(main, work("produce"));
    if (fixed) {
      thread.record(forked, main).wait(side, forked);
    }
    for (std::string const part : {"a", "b", "c", "d", "e"}) {
      thread.launch(main, work("main " + part));
    }
    if (!fixed) {
      thread.record(forked, main).wait(side, forked);
    }
    for (std::string const part : {"a", "b", "c", "d", "e"}) {
      thread.launch(side, work("side " + part));
      if (has_work_beside) {
        thread.launch(main, work("more " + part));
      }
    }
    switch (join) {
      case HostJoin::streams:
        thread.sync_stream(main).sync_stream(side);
        break;
      case HostJoin::events: {
        auto const of_main = program.event();
        auto const of_side = program.event();
        thread.record(of_side, side).record(of_main, main).sync_event(of_side).sync_event(of_main);
        break;
      }
      case HostJoin::device:
        thread.sync_device();
        break;
      case HostJoin::side_alone:
        thread.sync_stream(side);
        break;
    }
  }
  return program.run();
}

bool finds_false_dependency(Report const& report) {
  return std::ranges::any_of(report.findings, [](Finding const& finding) {
    return finding.cause == Cause::false_dependency;
  });
}

/// The host joins both streams at once. A host that needed all of the main stream before the branch
/// would join the branch alone, so that the branch was forked later than it had to be.
TEST(ForksTest, a_branch_was_forked_late_if_the_host_waits_for_both_streams) {
  for (auto const join : {HostJoin::streams, HostJoin::events}) {
    auto const report = find(joined_by_host(false, join, false));
    auto const found = std::ranges::find(report.findings, Cause::false_dependency, &Finding::cause);
    ASSERT_NE(found, report.findings.end()) << static_cast<int>(join);
    EXPECT_TRUE(found->is_guess);
    ASSERT_TRUE(found->prediction);
    auto const fixed = find(joined_by_host(true, join, false));
    EXPECT_FALSE(finds_false_dependency(fixed));
    auto const length = static_cast<double>(fixed.window.length());
    EXPECT_NEAR(static_cast<double>(found->prediction->after), length, 0.05 * length)
        << static_cast<int>(join);
  }
}

TEST(ForksTest, a_branch_is_right_if_the_host_waits_for_its_end_alone) {
  for (auto const join : {HostJoin::device, HostJoin::side_alone}) {
    EXPECT_FALSE(finds_false_dependency(find(joined_by_host(false, join, false))))
        << static_cast<int>(join);
  }
}

/// A branch beside which the main stream goes on was forked for that, whoever joins the two.
TEST(ForksTest, a_branch_with_work_beside_it_is_right_if_the_host_joins) {
  for (auto const join : {HostJoin::streams, HostJoin::events}) {
    EXPECT_FALSE(finds_false_dependency(find(joined_by_host(false, join, true))))
        << static_cast<int>(join);
  }
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

TEST(ForksTest, guesses_weigh_half_of_what_is_known) {
  auto const first = [](Ns guessed, Ns known) {
    std::vector<Finding> findings(2);
    findings[0].cause = Cause::false_dependency;
    findings[0].lost = guessed;
    findings[0].is_guess = true;
    findings[1].cause = Cause::one_stream_two_roles;
    findings[1].lost = known;
    sort_findings(findings);
    return findings.front().cause;
  };
  EXPECT_EQ(first(500, 300), Cause::one_stream_two_roles);
  EXPECT_EQ(first(500, 20), Cause::false_dependency) << "a trifle hides no large guess";
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

/// An upload that waits for the last kernel, which reads the only buffer. The program may want it
/// so, as when weights are updated in place.
TEST(ForksTest, an_upload_that_waits_for_a_kernel_is_a_guess) {
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
  EXPECT_TRUE(report.findings.front().is_guess);
  EXPECT_THAT(report.findings.front().summary, HasSubstr("another buffer frees"));
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

/// How a step ends that has exchanged something: without a wait, or with one for each exchange, for
/// the last one again, by the host for the stream of the last one, or by the host for the device.
enum class End : std::uint8_t { none, each, last, host_stream, host_device };

/// Steps with an all-reduce of each size in one communicator, or in one each, and kernels that wait
/// for the last one.
Recording reductions(std::vector<std::int64_t> const& bytes, End end, bool own_streams) {
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
    auto const last = StreamNumber(own_streams ? comm + bytes.size() - 1 : comm);
    if (end == End::each) {
      for (auto const event : reduced) {
        program.thread().wait(compute, event);
      }
    } else if (end == End::last) {
      auto const all = program.event();
      program.thread().record(all, last).wait(compute, all);
    }
    program.thread().launch(compute, {.name = "update", .duration = 30 * us, .blocks = 100});
    if (end == End::host_stream) {
      program.thread().sync_stream(last).sync_stream(compute);
    } else if (end == End::host_device) {
      program.thread().sync_device();
    }
  }
  return program.run();
}

/// The program waits for the large one later: then the small one is known to be needed alone.
TEST(ForksTest, a_collective_that_is_joined_later_was_not_needed) {
  auto const report = find(reductions({10'000'000, 500'000}, End::each, false));
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings.front().cause, Cause::collective_order);
  EXPECT_FALSE(report.findings.front().is_guess);
}

/// The stream of both collectives is joined once more at the end of the step: what waited at once
/// may need the small one alone. The prediction is the time with a communicator for each.
TEST(ForksTest, a_small_collective_whose_stream_is_joined_again_may_be_urgent) {
  for (auto const end : {End::last, End::host_stream}) {
    auto const report = find(reductions({10'000'000, 500'000}, end, false));
    auto const found = std::ranges::find(report.findings, Cause::collective_order, &Finding::cause);
    ASSERT_NE(found, report.findings.end()) << static_cast<int>(end);
    EXPECT_TRUE(found->is_guess);
    EXPECT_THAT(found->summary, HasSubstr("may not need"));
    ASSERT_TRUE(found->prediction && found->prediction->range);
    EXPECT_EQ(found->prediction->range->most, report.window.length());
    auto const twin = find(reductions({10'000'000, 500'000}, End::each, true)).window.length();
    if (end == End::last) {
      EXPECT_NEAR(static_cast<double>(found->prediction->after),
                  static_cast<double>(twin),
                  0.05 * static_cast<double>(twin));
    }
  }
}

/// A large all-reduce that takes longer than the work beside it: the step still waits for that.
TEST(ForksTest, the_stream_that_is_joined_again_still_waits_for_the_large_collective) {
  auto const report = find(reductions({20'000'000, 500'000}, End::last, false));
  auto const found = std::ranges::find(report.findings, Cause::collective_order, &Finding::cause);
  ASSERT_NE(found, report.findings.end());
  ASSERT_TRUE(found->prediction);
  auto const twin = find(reductions({20'000'000, 500'000}, End::each, true)).window.length();
  EXPECT_NEAR(static_cast<double>(found->prediction->after),
              static_cast<double>(twin),
              0.05 * static_cast<double>(twin));
}

/// Buckets, a smaller one before them, and the rest of the last one behind: what waits needs all.
TEST(ForksTest, buckets_of_all_sizes_are_one_exchange) {
  for (auto const& sizes : {std::vector<std::int64_t>{10'000'000, 10'000'000, 500'000},
                            {10'000'000, 500'000},
                            {1'000'000, 10'000'000, 500'000},
                            {500'000, 10'000'000},
                            {10'000'000, 4'000'000}}) {
    for (auto const end : {End::none, End::host_device}) {
      for (auto const& finding : find(reductions(sizes, end, false)).findings) {
        EXPECT_NE(finding.cause, Cause::collective_order) << sizes.size();
        EXPECT_TRUE(end == End::host_device || finding.cause == Cause::true_dependency);
      }
    }
  }
  for (auto const end : {End::last, End::host_stream}) {
    for (auto const& finding : find(reductions({10'000'000, 4'000'000}, end, false)).findings) {
      EXPECT_NE(finding.cause, Cause::collective_order) << static_cast<int>(end);
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
