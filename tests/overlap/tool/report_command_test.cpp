// SPDX-License-Identifier: Apache-2.0
// Runs msstream-overlap: its options, its outputs and its exit statuses.
#include "base/run_program.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/base/version.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#ifndef MSSTREAM_OVERLAP_TOOL
#define MSSTREAM_OVERLAP_TOOL ""
#endif

namespace {

namespace fs = std::filesystem;
using msstream::testing::Ended;
using msstream::testing::Words;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

/// Returns a trace of kernels of 10 us, each launched `gap_us` after the one before: the host
/// does something else in between.
std::string trace_with_gaps(int gap_us, int rank = 0, int kernels = 20) {
  std::string events;
  for (int i = 0; i < kernels; ++i) {
    int const at = i * gap_us;
    events += fmt::format(
        R"(,
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": {}.125, "dur": 2.5,
  "args": {{"correlation": {}}}}},
{{"ph": "X", "cat": "kernel", "name": "add", "pid": 0, "tid": 7, "ts": {}.375, "dur": 10,
  "args": {{"device": 0, "context": 1, "stream": 7, "correlation": {}, "grid": [8, 1, 1], "block": [64, 1, 1]}}}})",
        at,
        i + 1,
        at + 4,
        i + 1);
  }
  return fmt::format(
      R"({{"distributedInfo": {{"rank": {}, "world_size": 2}}, "traceEvents": [{}]}})",
      rank,
      events.substr(1));
}

class OverlapTool : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(MSSTREAM_OVERLAP_TOOL).empty()) {
      GTEST_SKIP() << "this build has no msstream-overlap";
    }
    slow_ = write("slow.json", trace_with_gaps(500));
    fast_ = write("fast.json", trace_with_gaps(40));
  }
  [[nodiscard]] std::string write(std::string_view name, std::string const& text) const {
    return folder_.write(name, text).string();
  }
  [[nodiscard]] std::string path(std::string_view name) const { return (folder_ / name).string(); }
  [[nodiscard]] static Ended run(Words const& arguments, Words const& environment = {}) {
    return msstream::testing::run_program(
        MSSTREAM_OVERLAP_TOOL, arguments, {.environment = environment});
  }
  /// Expects that the arguments are refused, with a message that has `part`, and nothing is
  /// printed.
  static void expect_refusal(Words const& arguments, std::string_view part) {
    auto const ended = run(arguments);
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(std::string(part)));
    EXPECT_THAT(ended.err, HasSubstr("--help"));
    EXPECT_THAT(ended.out, IsEmpty());
  }

  msstream::testing::TemporaryFolder folder_;
  std::string slow_;
  std::string fast_;
};

TEST_F(OverlapTool, a_report_is_printed_and_written) {
  auto const ended = run({slow_, "--json", path("a.json"), "--html", path("a.html")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("[host-busy]"));
  EXPECT_THAT(msstream::testing::read_all(path("a.json")), HasSubstr("\"host-busy\""));
  EXPECT_THAT(msstream::testing::read_all(path("a.html")), HasSubstr("<html"));
  auto const quiet = run({slow_, "--quiet", "--json", path("b.json")});
  EXPECT_EQ(quiet.status, 0);
  EXPECT_THAT(quiet.out + quiet.err, IsEmpty());
  EXPECT_EQ(msstream::testing::read_all(path("a.json")),
            msstream::testing::read_all(path("b.json")));
}

TEST_F(OverlapTool, a_finding_that_meets_fail_on_gives_status_3) {
  struct Case {
    char const* condition;
    int status;
  };
  for (Case const& c : {Case{"host-busy", 3},
                        Case{"host-busy:50%", 3},
                        Case{"host-busy:0.999", 0},
                        Case{"copy-engine", 0},
                        Case{"copy-engine,host-busy:0.5", 3},
                        Case{"any", 3}}) {
    auto const ended = run({slow_, "--quiet", "--fail-on", c.condition});
    EXPECT_EQ(ended.status, c.status) << c.condition << ended.err;
    if (c.status == 3) {
      EXPECT_THAT(ended.err, HasSubstr("failed: ")) << c.condition;
      EXPECT_THAT(ended.err, HasSubstr("host-busy on GPU 0 lost")) << c.condition;
    } else {
      EXPECT_THAT(ended.err, IsEmpty()) << c.condition;
    }
  }
}

TEST_F(OverlapTool, a_comparison_reads_recordings_and_reports) {
  auto const ended = run({"--compare", slow_, fast_});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("x as fast"));
  EXPECT_EQ(run({fast_, "--quiet", "--json", path("fast.report.json")}).status, 0);
  auto const mixed = run({"--compare", slow_, path("fast.report.json"), "--json", path("c.json")});
  EXPECT_EQ(mixed.status, 0) << mixed.err;
  EXPECT_THAT(mixed.out, HasSubstr("x as fast"));
  EXPECT_THAT(msstream::testing::read_all(path("c.json")),
              HasSubstr("\"msstream-overlap-comparison\""));
  EXPECT_THAT(ended.out, HasSubstr("Equal: 20 kernels"));
  EXPECT_THAT(mixed.out, HasSubstr("Equal: 20 kernels"));
  auto const half = run({"--compare", slow_, write("half.json", trace_with_gaps(500, 0, 10))});
  EXPECT_THAT(half.out, HasSubstr("20 → 10 kernels, 0.50x. The times are not comparable."));
  expect_refusal({"--compare", slow_}, "expected two files, found 1");
  EXPECT_EQ(run({"--compare", slow_, fast_, "--quiet", "--html", path("c.html")}).status, 0);
  EXPECT_THAT(msstream::testing::read_all(path("c.html")), HasSubstr("Equal: 20 kernels"));
  expect_refusal({"--compare", slow_, fast_, "--svg", path("c.svg")}, "--svg");
  expect_refusal({"--compare", slow_, fast_, "--fail-on", "any"}, "--fail-on");
}

/// Other programs lay JSON out in their own way, some with sorted members.
TEST_F(OverlapTool, reports_of_another_layout_are_compared) {
  EXPECT_EQ(run({slow_, "--quiet", "--json", path("slow.report")}).status, 0);
  auto const report = nlohmann::json::parse(msstream::testing::read_all(path("slow.report")));
  for (int const indent : {-1, 2, 4}) {
    // The library's objects are sorted: "reports" comes before "schema".
    auto const laid_out = write("laid_out.json", report.dump(indent));
    auto const ended = run({"--compare", laid_out, fast_});
    EXPECT_EQ(ended.status, 0) << indent << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("x as fast"));
  }
  auto other = report;
  other["reports"][0].erase("window");
  auto const ended = run({"--compare", write("other.json", other.dump()), fast_});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("window"));
  EXPECT_THAT(ended.err, Not(HasSubstr("json.exception")));
  for (auto const& length : {nlohmann::json(-5), nlohmann::json(1e300), nlohmann::json("5")}) {
    other = report;
    other["reports"][0]["window"]["length_ns"] = length;
    auto const refused = run({"--compare", write("other.json", other.dump()), fast_});
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.err, HasSubstr("found " + length.dump()));
  }
  other = report;
  other["reports"].push_back(report["reports"][0]);
  expect_refusal({"--compare", write("two.json", other.dump()), fast_}, "found 2 and 1");
  other["reports"].clear();
  auto const none = write("none.json", other.dump());
  auto const of_none = run({"--compare", none, none});
  EXPECT_EQ(of_none.status, 1);
  EXPECT_THAT(of_none.err, HasSubstr("has no reports"));
}

TEST_F(OverlapTool, a_comparison_of_reports_has_the_choices_that_they_allow) {
  EXPECT_EQ(run({slow_, "--quiet", "--json", path("a.report")}).status, 0);
  EXPECT_EQ(run({fast_, "--quiet", "--json", path("b.report")}).status, 0);
  Words const both{"--compare", path("a.report"), path("b.report")};
  auto const with = [&](Words const& more) {
    auto arguments = both;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  expect_refusal(with({"--window", "1ms:2ms"}), "is a report, whose window");
  expect_refusal(with({"--device", "9"}), "it has: 0");
  expect_refusal(with({"--rank", "7"}), "--rank 7: the ranks are: 0");
  for (Words const& choice : {Words{"--device", "0"}, Words{"--rank", "0"}}) {
    auto const ended = run(with(choice));
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("x as fast"));
  }
}

TEST_F(OverlapTool, a_hyphen_stands_for_the_standard_output) {
  EXPECT_EQ(run({slow_, "--quiet", "--json", path("a.json")}).status, 0);
  auto const ended = run({slow_, "--json", "-"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.out, msstream::testing::read_all(path("a.json")));
  auto const comparison = run({"--compare", slow_, fast_, "--json", "-"});
  EXPECT_THAT(comparison.out, StartsWith("{"));
  expect_refusal({slow_, "--json", "-", "--html", "-"}, "--html -: --json writes to");
  expect_refusal({"-"}, "the standard input cannot be read");
}

TEST_F(OverlapTool, causes_are_listed_and_explained) {
  auto const list = run({"--list-causes"});
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.out, HasSubstr("copy-engine"));
  auto const one = run({"--explain", "copy-engine"});
  EXPECT_EQ(one.status, 0);
  EXPECT_THAT(one.out, HasSubstr("what helps"));
  expect_refusal({"--explain", "slowness"}, "there is no cause 'slowness'");
  expect_refusal({slow_, "--fail-on", "slowness"}, "there is no cause 'slowness'");
  expect_refusal({slow_, "--fail-on", "any:200%"}, "0.05 or 5%");
}

TEST_F(OverlapTool, the_version_is_printed_if_the_command_line_asks) {
  auto const ended = run({"--version"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.out, fmt::format("msstream-overlap {}\n", MSSTREAM_VERSION_STRING));
  EXPECT_EQ(run({"--version", "no such file"}).out, ended.out);
  // Variables that a build or another program has set.
  for (auto const* const variable : {"MSSTREAM_VERSION=0.1.0",
                                     "MSSTREAM_VERSION=1",
                                     "MSSTREAM_LIST_CAUSES=1",
                                     "MSSTREAM_EXPLAIN=copy-engine"}) {
    auto const report = run({slow_}, {variable});
    EXPECT_EQ(report.status, 0) << report.err;
    EXPECT_THAT(report.out, HasSubstr("rank 0")) << variable;
  }
}

TEST_F(OverlapTool, mistakes_in_the_arguments_give_status_2) {
  expect_refusal({}, "expected a recording");
  expect_refusal({slow_, "--no-such-option"}, "--no-such-option");
  expect_refusal({slow_, "--window", "2ms:1ms"}, "ends before it begins");
  expect_refusal({slow_, "--window", "no such range"}, "--window");
  expect_refusal({slow_, "--device", "4"}, "--device");
  expect_refusal({slow_, "--device", "four"}, "--device");
  expect_refusal({slow_, "--rank", "7"}, "the ranks are: 0");
  expect_refusal({slow_, fast_}, "is of rank 0, as another file is");
}

TEST_F(OverlapTool, several_files_are_ranks) {
  auto const second = write("rank1.json", trace_with_gaps(500, 1));
  auto const both = run({slow_, second});
  EXPECT_EQ(both.status, 0) << both.err;
  EXPECT_THAT(both.out, HasSubstr("rank 0 of 2"));
  EXPECT_THAT(both.out, HasSubstr("rank 1 of 2"));
  auto const one = run({slow_, second, "--rank", "1"});
  EXPECT_THAT(one.out, Not(HasSubstr("rank 0 of 2")));
  EXPECT_THAT(one.out, HasSubstr("rank 1 of 2"));
}

TEST_F(OverlapTool, one_file_is_not_two_ranks) {
  auto const link = path("link.json");
  fs::create_symlink(slow_, link);
  for (auto const& again : {slow_, link}) {
    expect_refusal({slow_, again}, fmt::format("{} and {} are the same file", slow_, again));
  }
  EXPECT_EQ(run({"--compare", slow_, slow_}).status, 0);
}

/// A copy of a file that tells no rank: the Unix time and the process show that it is one.
TEST_F(OverlapTool, a_copy_of_a_recording_is_not_another_rank) {
  auto const trace = [](std::string_view begin, int gap_us) {
    auto text = trace_with_gaps(gap_us);
    return text.replace(0, text.find("\"traceEvents\""), begin);
  };
  constexpr auto kTimed = "{\"baseTimeNanoseconds\": 1800000000000000000, ";
  auto const timed = write("timed.json", trace(kTimed, 500));
  auto const copy = write("copy.json", trace(kTimed, 500));
  expect_refusal({timed, copy},
                 fmt::format("{} and {} record the same process from the same", timed, copy));
  auto const later =
      write("later.json", trace("{\"baseTimeNanoseconds\": 1800000000000000001, ", 500));
  auto const plain = write("plain.json", trace("{", 500));
  auto const equal = write("equal.json", trace("{", 500));
  auto const other = write("other.json", trace("{", 40));
  struct Pair {
    std::string first;
    std::string second;
    bool is_noted;
  };
  for (auto const& [first, second, is_noted] :
       {Pair{plain, equal, true}, Pair{plain, other, false}, Pair{timed, later, true}}) {
    auto const ended = run({first, second, "--json", "-"});
    EXPECT_EQ(ended.status, 0) << ended.err;
    auto const reports = nlohmann::json::parse(ended.out)["reports"];
    ASSERT_EQ(reports.size(), 2U);
    for (auto const& report : reports) {
      EXPECT_EQ(report["notes"].dump().find(first + " and " + second + " have the same work") !=
                    std::string::npos,
                is_noted)
          << report["notes"];
    }
  }
}

TEST_F(OverlapTool, ranks_wait_for_each_other_also_in_a_window) {
  // Each step has a collective that ends together on both ranks; the first rank begins it 2 ms
  // early. The second file counts its times from another moment.
  auto const rank = [](int number, int begin_us, std::int64_t base) {
    std::string events;
    for (int step = 0; step < 5; ++step) {
      int const at = step * 4000;
      events += fmt::format(
          R"(,
{{"ph": "X", "cat": "user_annotation", "name": "step", "pid": 9, "tid": 9, "ts": {0}.125, "dur": 3500}},
{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": {0}.125, "dur": 2.5,
  "args": {{"correlation": {1}}}}},
{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 7,
  "ts": {2}.5, "dur": {3}, "args": {{"device": 0, "stream": 7, "correlation": {1}, "Collective name": "allreduce",
  "Process Group Name": "0", "Seq": {1}, "In msg nelems": 8, "Out msg nelems": 8, "dtype": "Float"}}}})",
          at,
          step + 1,
          at + begin_us,
          3000 - begin_us);
    }
    return fmt::format(
        R"({{"baseTimeNanoseconds": {}, "distributedInfo": {{"rank": {}, "world_size": 2}}, "traceEvents": [{}]}})",
        base,
        number,
        events.substr(1));
  };
  auto const first = write("first.json", rank(0, 900, 1'800'000'000'000'000'000));
  auto const second = write("second.json", rank(1, 2900, 1'800'000'000'007'000'000));
  for (Words const& window : {Words{}, Words{"--window", "step"}, Words{"--window", "4ms:16ms"}}) {
    Words arguments{first, second, "--rank", "0"};
    arguments.insert(arguments.end(), window.begin(), window.end());
    auto const ended = run(arguments);
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("[peer-skew]"));
    EXPECT_THAT(ended.out, HasSubstr("clock"));
  }
}

TEST_F(OverlapTool, outputs_are_checked_before_the_work) {
  expect_refusal({slow_, "--json", path("same"), "--html", path("same")}, "--html");
  expect_refusal({slow_, "--json", slow_}, "--json");
  expect_refusal({slow_, "--svg-timeline"}, "--svg FILE");
  expect_refusal({slow_, "--json", path("no/such/folder/a.json")}, "--json");
  EXPECT_FALSE(fs::exists(path("same")));
  EXPECT_EQ(msstream::testing::read_all(slow_), trace_with_gaps(500));
  auto const full = run({slow_, "--quiet", "--json", "/dev/full"});
  EXPECT_EQ(full.status, 1);
  EXPECT_THAT(full.err, HasSubstr("--json"));
}

TEST_F(OverlapTool, files_that_cannot_be_read_give_status_1) {
  for (auto const& [file, part] :
       {std::pair(path("missing.json"), std::string("missing.json")),
        std::pair(folder_.path().string(), folder_.path().string()),
        std::pair(write("broken.json", "{\"traceEvents\": [{]"), std::string("broken JSON")),
        std::pair(write("other.json", "{\"a\": 1}"), std::string("no trace")),
        std::pair(write("comparison.json", "{\"schema\": \"msstream-overlap-comparison\"}"),
                  std::string("is no recording, but a JSON of the schema")),
        std::pair(write("text", "hello"), std::string("neither JSON nor gzipped JSON"))}) {
    for (Words const& arguments : {Words{file}, Words{"--compare", slow_, file}}) {
      auto const ended = run(arguments);
      EXPECT_EQ(ended.status, 1) << file << ended.err;
      EXPECT_THAT(ended.err, HasSubstr(part));
      EXPECT_THAT(ended.out, IsEmpty());
    }
  }
}

TEST_F(OverlapTool, run_passes_the_status_and_the_settings_on) {
  if (std::string(MSSTREAM_OVERLAP_RECORDER).empty()) {
    GTEST_SKIP() << "this build has no recorder";
  }
  EXPECT_EQ(run({"run", "--", "sh", "-c", "exit 7"}).status, 7);
  // Less than a ms would be 0, which records all.
  EXPECT_THAT(run({"run", "--duration", "0.0009", "--", "env"}).out,
              HasSubstr("MSSTREAM_OVERLAP_DURATION_MS=1\n"));
}

TEST_F(OverlapTool, run_refuses_mistakes) {
  expect_refusal({"run"}, "expected a program");
  expect_refusal({"run", "--skip", "-1", "--", "true"}, "--skip");
  expect_refusal({"run", "--no-such-option", "--", "true"}, "--no-such-option");
  expect_refusal({"run", "--skip", "-1", "--", "true"}, "run --help'");
  expect_refusal({"run", "true", "-c", "1"}, "a program with options of its own stands after --");
  auto const help = run({"run", "--help"}).out;
  EXPECT_THAT(help, HasSubstr("run [OPTIONS] -- PROGRAM"));
  EXPECT_EQ(help.find("Usage:"), help.rfind("Usage:"));
}

}  // namespace
