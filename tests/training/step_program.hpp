// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/many.hpp"
#include "cli/program.hpp"

#include <msstream/step/step_trace.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace msstream::testing {

/// A fixture with the tests that apply to every program that trains a model by steps.
class StepProgramTest : public ProgramTest {
 protected:
  using ProgramTest::ProgramTest;

  /// Runs a training program and returns its losses and metrics, without times. They must not
  /// depend on the way in which the steps are issued.
  [[nodiscard]] nlohmann::json results_of(Words const& arguments) {
    auto const report = report_of(arguments);
    auto results = nlohmann::json::array({report["losses"]});
    if (report.contains("epochs")) {
      for (auto epoch : report["epochs"]) {
        for (auto const* time : {"seconds", "rows_per_s", "lists_per_s"}) {
          epoch.erase(time);
        }
        results.push_back(epoch);
      }
    }
    return results;
  }

  void expect_same_bits_however_issued(Words const& small) {
    auto const expected = results_of(small + Words{"--stream-groups", "1"});
    auto const& losses = expected[0];
    ASSERT_GE(losses.size(), 3U);
    for (auto const& loss : losses) {
      ASSERT_TRUE(loss.is_number());
    }
    ASSERT_NE(losses.back(), losses.front()) << "nothing moves";
    OneOf chosen(2);
    for (std::string const groups : {"1", "4", "7"}) {
      // By day, one and seven groups get the even places, four groups the odd ones: both have eager
      // and captured ways.
      std::vector<Words> ways;
      for (auto const& capture : {Words{}, Words{"--capture"}}) {
        for (std::string const threads : {"none", "shared", "per_group"}) {
          ways.push_back(Words{"--launch-threads", threads} + capture);
        }
      }
      ways.push_back({"--merge-streams", "--no-reduce-waits"});
      ways.push_back({"--capture", "--assignment", "auto"});
      ways.push_back({"--update-each-table"});
      std::array<int, 2> runs{};  // eager, captured
      for (auto const& way : ways) {
        if (chosen.next()) {
          ++runs.at(std::ranges::count(way, "--capture") > 0 ? 1 : 0);
          EXPECT_EQ(results_of(small + Words{"--stream-groups", groups} + way), expected)
              << groups << " groups " << ::testing::PrintToString(way);
        }
      }
      EXPECT_THAT(runs, ::testing::Each(::testing::Gt(0))) << groups << " groups";
    }
  }

  /// Expects that the report of a training program holds the given options and plausible results.
  void expect_complete_report(Words const& small, std::size_t steps) {
    auto const count = [](nlohmann::json const& number) { return number.get<std::int64_t>(); };
    for (bool const captured : {false, true}) {
      auto const report = report_of(
          small + Words{"--stream-groups", "3", "--waits", "--lr", "0.5", "--optimizer", "sgd"} +
          (captured ? Words{"--capture"} : Words{}));
      auto const& options = report["options"];
      EXPECT_EQ(options["runtime"], runtime());
      EXPECT_EQ(options["stream_groups"], 3);
      EXPECT_EQ(options["capture"], captured);
      EXPECT_EQ(options["optimizer"], "sgd");
      EXPECT_EQ(options["lr"], 0.5);
      EXPECT_EQ(options["seed"], 1);
      EXPECT_EQ(report["captured"], captured);
      EXPECT_EQ(report["losses"].size(), steps);
      auto const& times = report["step_ms"];
      EXPECT_GT(times["count"], 0);
      EXPECT_LE(times["p5"], times["median"]);
      EXPECT_LE(times["median"], times["p95"]);
      EXPECT_GT(times["p95"], 0);
      EXPECT_EQ(report["waits"]["needed"],
                count(report["waits"]["issued"]) + count(report["waits"]["elided"]));
      EXPECT_GT(report["peak_bytes"], 0);
      EXPECT_GE(report["reserved_bytes"], report["peak_bytes"]);
      EXPECT_FALSE(report.contains("predicted_ms"));
      auto const& traced = report["traced_step"];
      EXPECT_GT(traced["operations"], 20);
      EXPECT_GT(traced["critical_path_ms"], 0);
      EXPECT_LE(traced["critical_path_ms"], traced["busy_ms"]);
      EXPECT_GT(traced["waits"]["necessary"], 0);
      EXPECT_GE(traced["waits"]["hazards"], traced["waits"]["necessary"]);
      EXPECT_EQ(report.contains("waits_in_graph"), captured);
      if (captured) {
        // The graph has the waits that the operations need, and also waits for memory that is
        // reused.
        EXPECT_GE(report["waits_in_graph"], traced["waits"]["necessary"]);
      }
      EXPECT_GT(traced["waits"]["issued"], 0);
      // A replay of a captured step counts as one operation; an eager step counts all operations of
      // the trace.
      auto const least = count(traced["operations"]) * static_cast<std::int64_t>(steps);
      EXPECT_EQ(count(report["operations"]) < least, captured);
    }
    auto const waits = report_of(small + Words{"--no-reduce-waits"})["waits"];
    EXPECT_EQ(waits["elided"], 0);
    EXPECT_EQ(waits["issued"], waits["needed"]);
  }

  void expect_groups_can_be_chosen_kept_and_given(Words const& small) {
    auto const groups = small + Words{"--stream-groups", "3"};
    auto const file = path("groups.txt");
    auto const chosen =
        report_of(groups + Words{"--assignment", "auto", "--save-assignment", file, "--capture"});
    auto const& predicted = chosen["predicted_ms"];
    EXPECT_GT(predicted["chosen"], 0);
    EXPECT_LE(predicted["chosen"], predicted["one_group"]);
    auto const& tried = chosen["tried_ms"];
    EXPECT_GT(tried["chosen"], 0);
    auto const kept = read_all(file);
    EXPECT_THAT(kept, ::testing::HasSubstr("auto_assignment()"));
    if (tried["one_group"] < tried["chosen"] && tried["one_group"] < tried["own"]) {
      EXPECT_THAT(kept, ::testing::HasSubstr("\n0:.*\n"));
      EXPECT_EQ(tried["fastest"], "one group");
    } else if (tried["chosen"] < tried["own"]) {
      EXPECT_THAT(kept, ::testing::HasSubstr("\n# Predicted, "));
      EXPECT_EQ(tried["fastest"], "those of the trace");
    } else {
      EXPECT_THAT(kept, ::testing::HasSubstr("\n# So the model's own are kept.\n"));
      EXPECT_EQ(tried["fastest"], "the model's own");
    }
    EXPECT_EQ(report_of(groups + Words{"--assignment", file})["losses"], chosen["losses"]);

    auto const all_on_one = folder.write("one.txt", "2:.*\n0:nothing_of_this_name\n").string();
    auto const given = groups + Words{"--assignment", all_on_one, "--waits", "--merge-streams"};
    auto const on_one = report_of(given);
    EXPECT_EQ(on_one["traced_step"]["waits"]["hazards"], 0);
    EXPECT_EQ(on_one["waits"]["needed"], 0);
    auto const on_three = report_of(groups + Words{"--waits", "--merge-streams"});
    EXPECT_GT(on_three["traced_step"]["waits"]["hazards"], 0);
    EXPECT_GT(on_three["waits"]["needed"], 0);
    auto const of_replays = folder.write("replay.txt", "1:replay\n").string();
    EXPECT_THAT(run(groups + Words{"--assignment", of_replays, "--capture", "--quiet=false"}).err,
                ::testing::Not(::testing::HasSubstr("warning")));
    auto const ended = run(given + Words{"--quiet=false"});
    EXPECT_THAT(ended.err,
                ::testing::HasSubstr("no operation of a step matches " + all_on_one + ":2"));
    EXPECT_THAT(ended.out, ::testing::HasSubstr(" hazards between streams, "));
  }

  /// Expects that a step on seven groups takes hardly more memory than on one group: in use at once
  /// and, for a captured step, reserved from the driver. (The memory reserved for an eager step
  /// depends on how far the device is behind.)
  void expect_groups_take_no_more_memory(Words const& model, double most_reserved = 1.1) {
    auto const on = [&](char const* groups, Words const& way) {
      return report_of(model + way + Words{"--stream-groups", groups});
    };
    auto const ratio = [](auto const& seven, auto const& one, char const* bytes) {
      return seven[bytes].template get<double>() / one[bytes].template get<double>();
    };
    EXPECT_LE(ratio(on("7", {}), on("1", {}), "peak_bytes"), 1.1);
    auto const one = on("1", {"--capture"});
    auto const seven = on("7", {"--capture"});
    EXPECT_LE(ratio(seven, one, "peak_bytes"), 1.1);
    EXPECT_LE(ratio(seven, one, "reserved_bytes"), most_reserved);
  }

  /// Expects that, with the propagation of groups, an operation that is in no branch goes to the
  /// group that wrote its inputs.
  void expect_groups_can_propagate(Words const& small) {
    auto const groups = small + Words{"--stream-groups", "3", "--waits", "--no-reduce-waits"};
    auto const file = path("report.json");
    auto const ended =
        run(groups + Words{"--report", file}, {.environment = {"MSSTREAM_PROPAGATE_GROUPS=1"}});
    ASSERT_EQ(ended.status, 0) << ended.err;
    auto const propagated = nlohmann::json::parse(read_all(file));
    auto const on_trunk = report_of(groups);
    EXPECT_EQ(propagated["losses"], on_trunk["losses"]);
    EXPECT_NE(propagated["traced_step"]["waits"], on_trunk["traced_step"]["waits"]);
  }

  void expect_traces(Words const& small) {
    auto const record = [&](std::string const& name) {
      auto const ended = run(small + Words{"--step-trace", path(name)});
      EXPECT_EQ(ended.status, 0) << ended.err;
      return read_all(path(name));
    };
    record("step.json");
    auto const trace = StepTrace::load(path("step.json"));
    EXPECT_GT(trace.operations().size(), 20U);
    EXPECT_THAT(record("step.svg"), ::testing::HasSubstr("</svg>"));
    EXPECT_THAT(record("step.dot"), ::testing::HasSubstr("digraph"));
    auto const losses = report_of(small)["losses"];
    for (auto const& way : {Words{}, Words{"--capture"}}) {
      SCOPED_TRACE(::testing::PrintToString(way));
      // Without a reduction, the number of waits does not depend on times.
      auto const traced =
          report_of(small + way + Words{"--no-reduce-waits", "--trace", path("timeline.json")});
      EXPECT_EQ(traced["losses"], losses);
      EXPECT_EQ(traced["captured"], !way.empty());
      auto const timeline = nlohmann::json::parse(read_all(path("timeline.json")));
      int updates = 0;
      int replays = 0;
      int waits = 0;
      for (auto const& event : timeline["traceEvents"]) {
        updates += event["name"] == "update_dense" ? 1 : 0;
        replays += event["name"] == "replay" ? 1 : 0;
        waits += event["ph"] == "f" ? 1 : 0;
      }
      EXPECT_EQ(updates, 1) << "one step";
      EXPECT_EQ(replays, 0);
      EXPECT_GT(waits, 0);
      EXPECT_EQ(timeline.contains("otherData"), !way.empty());
    }
  }

  /// Expects that a run writes a report on overlap in each form, and that its losses are those of a
  /// run without.
  void expect_overlap_reports(Words const& small) {
    auto const losses = report_of(small)["losses"];
    for (auto const& way : {Words{}, Words{"--capture"}}) {
      auto const told = report_of(small + way + Words{"--overlap", path("overlap.json")});
      EXPECT_EQ(told["losses"], losses);
      auto const why = nlohmann::json::parse(read_all(path("overlap.json")));
      EXPECT_EQ(why["schema"], "msstream-overlap-report");
      auto const& report = why["reports"].at(0);
      std::int64_t sum = 0;
      for (auto const& time : report["devices"].at(0)["times"]) {
        sum += time["time_ns"].get<std::int64_t>();
      }
      EXPECT_GT(sum, 0);
      EXPECT_EQ(report["window"]["length_ns"], sum);
      // CUPTI records the nodes of a captured step, events the replay alone.
      auto const text = report.dump();
      EXPECT_EQ(text.find("replays of captured steps") != std::string::npos ||
                    text.find("are nodes of graphs") != std::string::npos,
                !way.empty());
    }
    for (auto const& [name, content] :
         {std::pair{"overlap.html", "</html>"}, std::pair{"overlap.txt", "the window"}}) {
      auto const ended = run(small + Words{"--overlap", path(name)});
      ASSERT_EQ(ended.status, 0) << ended.err;
      EXPECT_THAT(read_all(path(name)), ::testing::HasSubstr(content));
    }
  }

  /// Expects that the program refuses the arguments with exit status 2 and the message, and
  /// mentions the option --help.
  void expect_usage_error(Words const& arguments, std::string const& message) const {
    auto const ended = run(arguments);
    EXPECT_EQ(ended.status, 2) << ::testing::PrintToString(arguments);
    EXPECT_THAT(ended.err, ::testing::HasSubstr(message));
    EXPECT_THAT(ended.err, ::testing::HasSubstr(" --help'.\n"));
    EXPECT_EQ(ended.out, "");
  }

  void expect_mistakes_are_named() {
    expect_usage_error({"--nope"}, "unknown argument '--nope'");
    expect_usage_error({"--stream-groups", "0"}, "expected an integer from 1 to 256, found '0'");
    expect_usage_error({"--save-assignment", path("file")}, "goes with --assignment auto");
    expect_usage_error({"--assignment", path("missing")}, "--assignment: ");
    auto const far = folder.write("far.txt", "4:.*\n").string();
    expect_usage_error({"--assignment", far, "--stream-groups", "4"}, far + ":1");
    expect_usage_error({"--step-trace", path("step.png")},
                       "expected a path that ends with .json, .dot or .svg");
    expect_usage_error({"--overlap", path("why.png")},
                       "expected a path that ends with .html, .json or .txt");
    expect_usage_error({"--overlap", path("nowhere/why.html")}, "there is no folder");
    expect_usage_error({"--overlap", path("a.html"), "--trace", path("b.json")},
                       "does not go with --trace");
    expect_usage_error({"--launch-thread-count", "2"}, "goes with --launch-threads shared");
    expect_usage_error({"--report", path("nowhere/file")}, "there is no folder");
    expect_usage_error({"--report", path("file"), "--trace", path("file")}, " writes that file");
#if !MSSTREAM_CUDA
    expect_usage_error({"--runtime", "cuda"}, "this build has no CUDA");
#endif
    for (std::string const variable :
         {"STREAM_GROUPS=0", "STREAM_ASSIGNMENT=/nowhere", "MATMUL_PRECISION=half"}) {
      auto const ended = run({}, {.environment = {"MSSTREAM_" + variable}});
      EXPECT_EQ(ended.status, 2) << variable;
      EXPECT_THAT(ended.err, ::testing::HasSubstr(variable.substr(0, variable.find('='))));
    }
  }

  void expect_help(Words const& more) const {
    auto const ended = run({"--help"});
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(ended.err, "");
    Words const common = {"runtime",
                          "stream-groups",
                          "merge-streams",
                          "no-reduce-waits",
                          "launch-threads",
                          "launch-thread-count",
                          "assignment",
                          "save-assignment",
                          "steps",
                          "capture",
                          "tf32",
                          "optimizer",
                          "lr",
                          "update-each-table",
                          "seed",
                          "report",
                          "waits",
                          "step-trace",
                          "trace",
                          "quiet"};
    for (auto const& option : common + more) {
      EXPECT_THAT(ended.out, ::testing::HasSubstr(fmt::format("  --{} ", option)));
    }
    EXPECT_THAT(ended.out, ::testing::HasSubstr("Examples:"));
  }
};

}  // namespace msstream::testing
