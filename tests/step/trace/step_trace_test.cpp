// SPDX-License-Identifier: Apache-2.0
#include "step/trace/step_traces.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Makes a trace of a fork and a join on two groups: operation 0 writes buffer a, operations 1 and
/// 2 read it, and operation 3 joins them and overwrites a.
StepTrace fork_and_join() {
  TraceMaker maker;
  maker.add("start", 0, 10, {}, {0});
  maker.add("left", 0, 20, {0}, {1});
  maker.add("right", 1, 50, {0}, {2});
  maker.add("join", 0, 5, {1, 2}, {0});
  return maker.run_at({0, 10, 12, 62});
}

std::string refusal(std::string const& json) {
  try {
    (void)StepTrace::from_json(json, "step.json");
  } catch (std::invalid_argument const& error) {
    return error.what();
  }
  return "did not throw";
}
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  auto const place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
}

TEST(StepTrace, operations_follow_those_whose_memory_they_use) {
  auto const trace = fork_and_join();
  EXPECT_THAT(trace.operations()[0].after, IsEmpty());
  EXPECT_THAT(trace.operations()[1].after, ElementsAre(0));
  EXPECT_THAT(trace.operations()[2].after, ElementsAre(0));
  EXPECT_THAT(trace.operations()[3].after, ElementsAre(0, 1, 2));
}

TEST(StepTrace, reads_do_not_follow_reads_and_a_write_ends_what_was_before) {
  TraceMaker maker;
  maker.add("write", 0, 1, {}, {0});
  maker.add("read", 0, 1, {0}, {});
  maker.add("read", 0, 1, {0}, {});
  maker.add("update", 0, 1, {0}, {0});
  maker.add("read", 0, 1, {0}, {});
  auto const trace = maker.run();
  EXPECT_THAT(trace.operations()[2].after, ElementsAre(0));
  EXPECT_THAT(trace.operations()[3].after, ElementsAre(0, 1, 2));
  EXPECT_THAT(trace.operations()[4].after, ElementsAre(3));
}

TEST(StepTrace, tells_the_critical_path_and_what_ran_at_once) {
  auto const trace = fork_and_join();
  auto const path = trace.critical_path();
  EXPECT_THAT(path.operations, ElementsAre(0, 2, 3));
  EXPECT_DOUBLE_EQ(path.length_ns, 65);
  EXPECT_DOUBLE_EQ(trace.step_ns(), 67);
  // The trace lasts 67 ns: one operation runs in [0, 12] and [30, 67], and two run in [12, 30].
  EXPECT_THAT(trace.concurrency(),
              ElementsAre(0, ::testing::DoubleEq(49.0 / 67), ::testing::DoubleEq(18.0 / 67)));
  EXPECT_EQ(trace.group_of(2), 1);
}

TEST(StepTrace, of_nothing_is_nothing) {
  StepTrace const trace({}, {}, {});
  EXPECT_THAT(trace.critical_path().operations, IsEmpty());
  EXPECT_EQ(trace.step_ns(), 0);
  EXPECT_THAT(trace.concurrency(), IsEmpty());
  EXPECT_EQ(StepTrace::from_json(trace.json(), "file"), trace);
  EXPECT_THAT(trace.svg(), HasSubstr("</svg>"));
}

TEST(StepTrace, numbers_that_are_not_there_are_refused) {
  auto const of = [](StepTrace::Operation operation) {
    return message_of<std::invalid_argument>(
        [&] { StepTrace({{.name = "s"}}, {8}, {std::move(operation)}); });
  };
  EXPECT_THAT(of({.name = ""}), HasSubstr("operations[0].name: expected a name"));
  EXPECT_THAT(of({.name = "a", .stream = 1}),
              HasSubstr("operations[0].stream: expected a number below 1, found 1"));
  EXPECT_THAT(of({.name = "a", .reads = {0, 1}}),
              HasSubstr("operations[0].reads[1]: expected a number below 1, found 1"));
  EXPECT_THAT(of({.name = "a", .writes = {7}}), HasSubstr("operations[0].writes[0]"));
  EXPECT_THAT(of({.name = "a", .begin_ns = 2, .end_ns = 1}),
              HasSubstr("operations[0].end_ns: expected a time from begin_ns on, 2, found 1"));
  EXPECT_THAT(of({.name = "a", .begin_ns = -1e300, .end_ns = 1}), HasSubstr("[0].begin_ns"));
  EXPECT_THAT(of({.name = "a", .begin_ns = std::nan(""), .end_ns = 1}), HasSubstr("[0].begin_ns"));
  EXPECT_THAT(of({.name = "a", .end_ns = 1e300}), HasSubstr("[0].end_ns"));
  EXPECT_THAT(of({.name = "a", .launch_ns = -1}), HasSubstr("operations[0].launch_ns"));
  EXPECT_THAT(of({.name = "a", .sms = -1}), HasSubstr("operations[0].sms"));
}

TEST(StepTrace, is_the_same_from_its_file) {
  TraceMaker maker;
  maker.add("quoted \"\\\n\u00e9", 0, 10.25, {}, {0}, StreamKind::h2d);
  maker.add("b", 1, 1.0 / 3, {0}, {1});
  auto operations = maker.run().operations();
  operations[1].launch_ns = 1e4 / 3;
  operations[1].sms = 7;
  StepTrace const trace(
      maker.run().streams(), maker.run().memory_bytes(), operations, {.needed = 1, .issued = 1});
  EXPECT_EQ(StepTrace::from_json(trace.json(), "file"), trace);
  auto const path = std::filesystem::path(::testing::TempDir()) / "msstream_step_trace.json";
  trace.save(path);
  EXPECT_EQ(StepTrace::load(path), trace);
  std::filesystem::remove(path);
  EXPECT_THAT(message_of<std::invalid_argument>([&] { (void)StepTrace::load(path); }),
              HasSubstr(path.string()));
  EXPECT_THAT(message_of<std::runtime_error>([&] { trace.save(path / "under a file"); }),
              HasSubstr("cannot write"));
}

TEST(StepTrace, broken_files_are_refused_by_file_and_field) {
  auto const json = fork_and_join().json();
  EXPECT_THAT(refusal(json.substr(0, json.size() / 2)), HasSubstr("step.json: expected JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("step.json: expected an object, found []"));
  EXPECT_THAT(refusal("{}"), HasSubstr("step.json: expected a field 'format', found none"));
  EXPECT_THAT(refusal(replaced(json, "msstream step", "other")),
              HasSubstr("step.json: format: expected \"msstream step trace\""));
  EXPECT_THAT(refusal(replaced(json, "\"version\": 1", "\"version\": 2")),
              HasSubstr("step.json: version: expected version 1, found 2"));
  EXPECT_THAT(refusal(replaced(json, "\"group\": 1", "\"group\": -2")),
              HasSubstr("step.json: streams[1].group: expected a whole number from -1"));
  EXPECT_THAT(refusal(replaced(json, "\"merged\": true", "\"merged\": 0")),
              HasSubstr("streams[0].merged: expected true or false, found 0"));
  EXPECT_THAT(refusal(replaced(json, "\"stream\": 1", "\"stream\": 9")),
              HasSubstr("step.json: operations[2].stream: expected a number below 2, found 9"));
  EXPECT_THAT(refusal(replaced(json, "\"stream\": 1", "\"stream\": \"x\"")),
              HasSubstr("operations[2].stream: expected a whole number"));
  EXPECT_THAT(refusal(replaced(json, "\"kind\": \"compute\"", "\"kind\": \"h2h\"")),
              HasSubstr("operations[0].kind: expected compute, h2d or d2h, found \"h2h\""));
  EXPECT_THAT(refusal(replaced(json, "\"reads\": [1, 2]", "\"reads\": [1, -2]")),
              HasSubstr("operations[3].reads[1]: expected a whole number from 0"));
  EXPECT_THAT(refusal(replaced(json, "\"reads\": [1, 2]", "\"reads\": 1")),
              HasSubstr("operations[3].reads: expected a list, found 1"));
  EXPECT_THAT(refusal(replaced(json, "\"after\": [0, 1, 2]", "\"after\": [0]")),
              HasSubstr("operations[3].after: expected [0, 1, 2], which reads and writes give"));
  EXPECT_THAT(refusal(replaced(json, "\"end_ns\": 10", "\"end_ns\": -1")),
              HasSubstr("operations[0].end_ns"));
  EXPECT_THAT(refusal(replaced(json, "\"begin_ns\": 0", "\"begin_ns\": null")),
              HasSubstr("operations[0].begin_ns: expected a number, found null"));
  EXPECT_THAT(refusal(replaced(json, "\"issued\": 0", "\"issued\": 0.5")),
              HasSubstr("waits.issued: expected a whole number"));
  // In the JSON of a step trace the field `after` is not required, and unknown fields are ignored.
  EXPECT_EQ(StepTrace::from_json(replaced(json, ", \"after\": [0, 1, 2]", ", \"x\": 1"), "file"),
            fork_and_join());
}

TEST(StepTrace, is_a_graph_for_graphviz) {
  auto const dot = fork_and_join().dot();
  EXPECT_THAT(dot, HasSubstr("digraph step {"));
  EXPECT_THAT(
      dot,
      HasSubstr("n2 [label=\"right\\n0.1 µs\\ngroup 1\", fillcolor=\"#ee6677\", penwidth=4];"));
  EXPECT_THAT(dot, HasSubstr("n1 [label=\"left\\n0.0 µs\\ngroup 0\", fillcolor=\"#4477aa\"];"));
  EXPECT_THAT(dot, HasSubstr("n0 -> n2 [style=bold];"));
  EXPECT_THAT(dot, HasSubstr("n0 -> n1;"));
  EXPECT_THAT(dot, HasSubstr("n0 -> n3;"));
}

TEST(StepTrace, is_a_picture) {
  TraceMaker maker;
  maker.add("<a & \"b\">", 0, 1000, {}, {0});
  maker.add("b", 1, 3000, {0}, {1});
  maker.add("c", 0, 1000, {0}, {2});
  auto const svg = maker.run_at({0, 1000, 1000}, {5, 3, 2}).svg();
  EXPECT_THAT(svg,
              HasSubstr("3 operations in 4.0 µs, critical path 4.0 µs; 1 hazards between streams, "
                        "1 waits necessary, 3 issued; running at once: 0: 0.0 %, 1: 75.0 %, 2: "
                        "25.0 %"));
  EXPECT_THAT(svg, HasSubstr("<title>&lt;a &amp; &quot;b&quot;&gt;\ngroup 0\n1.0 µs from 0.0 µs"));
  EXPECT_THAT(svg, Not(HasSubstr("<a &")));
  auto const count = [&](std::string_view what) {
    std::size_t found = 0;
    for (auto at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("<rect class=\"operation critical\""), 2);
  EXPECT_EQ(count("<rect class=\"operation\""), 1);
  EXPECT_EQ(count("<line class=\"dependency critical\""), 1);
  EXPECT_EQ(count("<line class=\"dependency\""), 0) << "a and c are on one group";
  EXPECT_EQ(count("class=\"lane\""), 2);
}

TEST(StepTrace, a_picture_marks_the_path_that_it_is_given) {
  auto const trace = fork_and_join();
  StepTrace::CriticalPath const path{.operations = {0, 1}, .length_ns = 7000};
  EXPECT_THAT(trace.svg(path), HasSubstr("critical path 7.0 µs"));
  EXPECT_THAT(trace.dot(path), HasSubstr("n0 -> n1 [style=bold];"));
  EXPECT_THAT(trace.dot(path), HasSubstr("n0 -> n2;"));
  StepTrace::CriticalPath const beyond{.operations = {0, 4}};
  EXPECT_THROW((void)trace.svg(beyond), std::out_of_range);
  EXPECT_THROW((void)trace.dot(beyond), std::out_of_range);
}

TEST(StepTrace, each_group_has_a_colour_of_its_own) {
  TraceMaker maker;
  constexpr int kGroups = 64;
  for (int group = 0; group < kGroups; ++group) {
    maker.add("op", group, 10, {}, {});
  }
  auto const dot = maker.run().dot();
  std::set<std::string> colours;
  constexpr std::string_view kField = "fillcolor=\"";
  for (auto at = dot.find(kField); at != std::string::npos; at = dot.find(kField, at + 1)) {
    colours.insert(dot.substr(at + kField.size(), 7));
  }
  EXPECT_EQ(colours.size(), kGroups);
}

TEST(StepTrace, can_be_given_what_issuing_it_takes) {
  std::vector<StepTrace::Operation> operations{{.name = "a", .launch_ns = 30},
                                               {.name = "b", .launch_ns = 90}};
  auto const launches = [](StepTrace const& trace) {
    return std::pair(trace.operations()[0].launch_ns, trace.operations()[1].launch_ns);
  };
  StepTrace const trace({{.name = "s"}}, {}, operations);
  EXPECT_EQ(launches(trace.with_issue_time(60)), std::pair(15.0, 45.0));
  EXPECT_EQ(launches(trace), std::pair(30.0, 90.0)) << "a trace is immutable";
  operations[0].launch_ns = operations[1].launch_ns = 0;
  StepTrace const unknown({{.name = "s"}}, {}, operations);
  EXPECT_EQ(launches(unknown.with_issue_time(60)), std::pair(30.0, 30.0));
  EXPECT_EQ(StepTrace({}, {}, {}).with_issue_time(60), StepTrace({}, {}, {}));
  for (double const wrong : {0.0, -1.0, 1e300, std::nan("")}) {
    EXPECT_THROW((void)trace.with_issue_time(wrong), std::invalid_argument);
  }
}

}  // namespace
}  // namespace msstream::testing
