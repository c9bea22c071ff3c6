// SPDX-License-Identifier: Apache-2.0
// Tests predicted durations of steps against makespans that were computed by hand.
#include "step/trace/step_traces.hpp"

#include <msstream/step/auto_assignment.hpp>

namespace msstream::testing {
namespace {

/// Makes a cost model of round numbers: on the host a launch or copy takes 100 ns, a record 10 and
/// a wait 5; the device has 100 multiprocessors.
StepModel round_model(StepModel::Launch launch) {
  StepModel model{.launch = launch, .in_stream_ns = 13, .across_streams_ns = 16};
  model.cost.launch_call_ns = 100;
  model.cost.copy_call_ns = 100;
  model.cost.record_call_ns = 10;
  model.cost.wait_call_ns = 5;
  model.cost.query_call_ns = 1;
  model.cost.sm_count = 100;
  return model;
}
StepModel const kEager = round_model(StepModel::Launch::eager);
StepModel const kGraph = round_model(StepModel::Launch::graph);

TEST(Predict, nothing_takes_no_time) {
  StepTrace const nothing({}, {}, {});
  EXPECT_DOUBLE_EQ(predict(nothing, StepGroups{}, kEager), 0);
  EXPECT_DOUBLE_EQ(predict(nothing, StepGroups{}, kGraph), 0);
}

TEST(Predict, a_chain_runs_one_after_the_other) {
  TraceMaker maker;
  for (std::size_t i = 0; i < 3; ++i) {
    maker.add("op", 0, 1000, {i}, {i + 1});
  }
  auto const trace = maker.run();
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0, 0}, kEager), 100 + 3 * 1000);
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0, 0}, kGraph), 3 * 1000 + 2 * 13);
  // The host issues each wait while the work that is waited for runs, so the waits cost no time.
  EXPECT_DOUBLE_EQ(predict(trace, {0, 1, -1}, kEager), 100 + 3 * 1000);
  EXPECT_DOUBLE_EQ(predict(trace, {0, 1, -1}, kGraph), 3 * 1000 + 2 * 16);
}

TEST(Predict, branches_run_beside_each_other) {
  TraceMaker maker;
  maker.add("left", 0, 1000, {}, {0});
  maker.add("left", 0, 1000, {0}, {1});
  maker.add("right", 0, 1000, {}, {2});
  maker.add("right", 0, 1000, {2}, {3});
  auto const trace = maker.run();
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0, 0, 0}, kEager), 100 + 4000);
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0, 1, 1}, kEager), 300 + 2000) << "launched third";
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0, 0, 0}, kGraph), 4000 + 3 * 13);
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0, 1, 1}, kGraph), 2000 + 13);
}

TEST(Predict, a_fork_and_join_waits) {
  TraceMaker maker;
  maker.add("fork", 0, 1000, {}, {0});
  maker.add("left", 0, 1000, {0}, {1});
  maker.add("right", 1, 3000, {0}, {2});
  maker.add("join", 0, 500, {1, 2}, {3});
  auto const trace = maker.run();
  EXPECT_DOUBLE_EQ(predict(trace, recorded_groups(trace), kGraph), 1000 + 16 + 3000 + 16 + 500);
  // The operation `right` waits for an event that is recorded after `left`, which was issued
  // earlier, so it also waits for `left`.
  EXPECT_DOUBLE_EQ(predict(trace, recorded_groups(trace), kEager), 100 + 1000 + 1000 + 3000 + 500);
  EXPECT_DOUBLE_EQ(predict(trace, {0, 1, 0, 0}, kEager), 100 + 1000 + 3000 + 500)
      << "the same the other way round: left waits for fork alone";
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0, 0, 0}, kEager), 100 + 5500);
}

TEST(Predict, short_operations_are_bound_by_their_launches) {
  TraceMaker maker;
  for (std::size_t i = 0; i < 10; ++i) {
    maker.add("op", 0, 20, {}, {i});
  }
  auto const trace = maker.run();
  EXPECT_DOUBLE_EQ(predict(trace, StepGroups(10, 0), kEager), 10 * 100 + 20);
  EXPECT_DOUBLE_EQ(predict(trace, {0, 1, 0, 1, 0, 1, 0, 1, 0, 1}, kEager), 10 * 100 + 20)
      << "from one thread more streams do not help";
  EXPECT_DOUBLE_EQ(predict(trace, {0, 1, 0, 1, 0, 1, 0, 1, 0, 1}, kGraph), 5 * 20 + 4 * 13);
}

TEST(Predict, a_launch_costs_what_it_took_when_traced) {
  TraceMaker maker;
  for (std::size_t i = 0; i < 3; ++i) {
    maker.add("op", 0, 20, {}, {i});
  }
  auto operations = maker.run().operations();
  operations[1].launch_ns = 400;
  StepTrace const trace(maker.run().streams(), maker.run().memory_bytes(), operations);
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0, 0}, kEager), 100 + 400 + 100 + 20);
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0, 0}, kGraph), 3 * 20 + 2 * 13);
  EXPECT_DOUBLE_EQ(predict(maker.run().with_issue_time(900), {0, 0, 0}, kEager), 900 + 20);
}

TEST(Predict, waits_cost_the_host) {
  TraceMaker maker;
  maker.add("a", 0, 20, {}, {0});
  maker.add("b", 0, 1000, {}, {1});
  maker.add("c", 1, 20, {1}, {2});
  maker.add("d", 0, 20, {}, {3});
  // Kernel a is launched at 100 ns; b runs from 200 to 1200 ns. After a record and a wait, c is
  // issued at 315 ns and runs, beside d, from 1200 to 1220 ns.
  EXPECT_DOUBLE_EQ(predict(maker.run(), recorded_groups(maker.run()), kEager), 1220);
  EXPECT_DOUBLE_EQ(predict(maker.run(), {0, 0, 0, 0}, kEager), 1240);
}

TEST(Predict, kernels_share_the_device_by_their_multiprocessors) {
  TraceMaker maker;
  maker.add("wide", 0, 1000, {}, {0}, StreamKind::compute, 80);
  maker.add("wide", 1, 1000, {}, {1}, StreamKind::compute, 80);
  auto const trace = maker.run();
  EXPECT_DOUBLE_EQ(predict(trace, {0, 1}, kGraph), 1600);
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0}, kGraph), 2013);
  // The second kernel begins 100 ns after the first, which runs alone until then. Both then run for
  // 1440 ns at 5/8 of the full speed, which completes 900 ns of work. The second one is alone for
  // its last 100 ns.
  EXPECT_DOUBLE_EQ(predict(trace, {0, 1}, kEager), 100 + 100 + 1440 + 100);
}

TEST(Predict, without_them_bytes_and_time_say_how_many_multiprocessors_it_takes) {
  auto const of = [](std::size_t bytes, double ns) {
    std::vector<StepTrace::Operation> operations{{.name = "a", .writes = {0}, .end_ns = ns},
                                                 {.name = "b", .writes = {1}, .end_ns = ns}};
    return predict(StepTrace({{.name = "s"}}, {bytes, bytes}, operations), {0, 1}, kGraph);
  };
  EXPECT_DOUBLE_EQ(of(1024, 1000), 1000);
  EXPECT_DOUBLE_EQ(of(std::size_t{80 * 15'000}, 1000), 1600);  // 80 SMs each
  EXPECT_DOUBLE_EQ(of(std::size_t{1} << 30U, 1000), 2000);     // all SMs each
  EXPECT_DOUBLE_EQ(of(std::size_t{80 * 15'000}, 10'000), 10'000)
      << "what moves a twelfth of the bytes that the device could takes no more of it";
}

TEST(Predict, copies_queue_for_their_engine) {
  TraceMaker maker;
  maker.add("in", 0, 1000, {}, {0}, StreamKind::h2d);
  maker.add("in", 1, 1000, {}, {1}, StreamKind::h2d);
  maker.add("out", 2, 1000, {}, {2}, StreamKind::d2h);
  auto const trace = maker.run();
  EXPECT_DOUBLE_EQ(predict(trace, {0, 1, 2}, kGraph), 2000);
  EXPECT_DOUBLE_EQ(predict(trace, {0, 1, 2}, kEager), 2100);
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0, 0}, kGraph), 2013) << "a stream for each direction";
  auto merged = kGraph;
  merged.merge_streams = true;
  EXPECT_DOUBLE_EQ(predict(trace, {0, 0, 0}, merged), 3026);
}

TEST(Predict, an_assignment_moves_what_it_matches) {
  TraceMaker maker;
  maker.add("left", 0, 1000, {}, {0});
  maker.add("right", 0, 1000, {}, {1});
  auto const trace = maker.run();
  EXPECT_DOUBLE_EQ(predict(trace, StreamAssignment::parse("", "none", 2), kGraph), 2013);
  EXPECT_DOUBLE_EQ(predict(trace, StreamAssignment::parse("1:right", "one", 2), kGraph), 1000);
  expect_refused([&] { static_cast<void>(predict(trace, StepGroups{0}, kGraph)); },
                 "groups for 1 operations");
}

TEST(Predict, leaves_no_mark_on_the_assignment) {
  TraceMaker maker;
  maker.add("left", 0, 1000, {}, {0});
  maker.add("right", 0, 1000, {}, {1});
  auto const trace = maker.run();
  auto const assignment = StreamAssignment::parse("1:right\n0:left", "two", 2);
  EXPECT_DOUBLE_EQ(predict(trace, assignment, kGraph), 1000);
  EXPECT_FALSE(assignment.was_asked()) << "or a pool that issued nothing would warn";
  EXPECT_THAT(assignment.unmatched_lines(), ::testing::SizeIs(2));
  EXPECT_EQ(assignment.group_of("right"), 1);
  EXPECT_DOUBLE_EQ(predict(trace, assignment, kGraph), 1000) << "names asked for, and not";
  EXPECT_THAT(assignment.unmatched_lines(), ::testing::ElementsAre("two:2: 0:left"));
}

}  // namespace
}  // namespace msstream::testing
