// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/program.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <string>

namespace msstream::testing {

/// A fixture with the tests that apply to every program that serves a model and sends it queries.
class ServeProgramTest : public ProgramTest {
 protected:
  using ProgramTest::ProgramTest;

  /// Returns `options` with a limit of 512 MiB of device memory. Each capture reserves addresses
  /// for the whole limit, and a sanitizer leaves few of them.
  [[nodiscard]] static RunOptions limited(RunOptions options) {
    options.environment.emplace_back("MSSTREAM_MEMORY_LIMIT_BYTES=536870912");
    return options;
  }
  [[nodiscard]] Ended run(Words const& arguments, RunOptions const& options = {}) const {
    return ProgramTest::run(arguments, limited(options));
  }
  [[nodiscard]] nlohmann::json report_of(Words const& arguments, RunOptions const& options = {}) {
    return ProgramTest::report_of(arguments, limited(options));
  }

  static std::uint64_t count(nlohmann::json const& result, char const* of) {
    return result.at(of).get<std::uint64_t>();
  }

  /// Expects plausible times in the result of a load test, and counts that agree with each other.
  static void expect_complete_result(nlohmann::json const& result) {
    EXPECT_GT(result["seconds"], 0);
    EXPECT_GT(result["queries_per_s"], 0);
    EXPECT_GT(result["in_flight"], 0);
    EXPECT_GE(result["in_flight"], result["in_flight_on_device"]);
    EXPECT_NEAR(result["queries_per_s"].get<double>() * result["seconds"].get<double>(),
                result["answered"].get<double>(),
                1e-3);
    for (auto const* const times : {"latency_ms", "queue_ms", "device_ms"}) {
      SCOPED_TRACE(times);
      EXPECT_GE(result[times]["p50"], 0);
      EXPECT_LE(result[times]["p50"], result[times]["p95"]);
      EXPECT_LE(result[times]["p95"], result[times]["p99"]);
      EXPECT_LE(result[times]["p99"], result[times]["max"]);
    }
    EXPECT_GT(result["latency_ms"]["p50"], 0);
    EXPECT_GT(result["device_ms"]["p50"], 0);
    EXPECT_GE(result["latency_ms"]["mean"], result["device_ms"]["mean"]);
    EXPECT_GE(result["operations_a_query"], 3) << "two copies and a model";
    EXPECT_NEAR(
        result["kernels_in_flight"].get<double>(),
        result["queries_per_s"].get<double>() * 1e-3 * result["operations_device_ms"].get<double>(),
        1e-6);
    EXPECT_GT(result["kernels_in_flight"], 0);
    EXPECT_EQ(count(result, "admitted"),
              count(result, "answered") + count(result, "expired") + count(result, "failed"));
    EXPECT_EQ(count(result, "asked"), count(result, "admitted") + count(result, "refused"));
    EXPECT_EQ(result["failed"], 0);
    EXPECT_LE(count(result, "launches"), count(result, "answered"));
    EXPECT_GT(result["launches"], 0);
    auto const& memory = result["memory"];
    EXPECT_GT(memory["weights_bytes"], 0);
    EXPECT_GT(memory["replica_bytes"], 0);
    EXPECT_GT(memory["replica_pinned_bytes"], 0);
    EXPECT_GT(memory["reserved_bytes"], 0);
    if (runtime() == "host") {  // only the allocator takes device memory there
      EXPECT_EQ(memory["replica_device_bytes"], memory["replica_reserved_bytes"]);
      EXPECT_EQ(result["captured"], memory["replica_device_bytes"] > 0);
    }
    EXPECT_GT(result["pool"]["sound_replicas"], 0);
    EXPECT_EQ(result["pool"]["failed_captures"], 0);
    EXPECT_EQ(result["captured"], result["pool"]["captured_steps"] > 0);
    expect_samples(result);
  }
  /// Expects that the samples of a load test are in the order of time, and that the counts of all
  /// samples together do not exceed the totals.
  static void expect_samples(nlohmann::json const& result) {
    auto const& samples = result["samples"];
    ASSERT_FALSE(samples.empty());
    double before_s = 0;
    double answered = 0;
    double refused = 0;
    for (auto const& sample : samples) {
      auto const at_s = sample["at_s"].get<double>();
      EXPECT_GT(at_s, before_s);
      answered += sample["queries_per_s"].get<double>() * (at_s - before_s);
      refused += sample["refused"].get<double>();
      before_s = at_s;
      EXPECT_GE(sample["waiting"], 0);
      EXPECT_LE(sample["waiting"], sample["in_pool"]);
      EXPECT_GT(sample["reserved_bytes"], 0);
      EXPECT_GE(sample["device_bytes"], sample["reserved_bytes"]);
      EXPECT_GT(sample["resident_bytes"], 0);
      EXPECT_EQ(sample["p50_ms"].is_null(), sample["queries_per_s"] == 0);
      for (auto const& [key, extremes] : result["sampled"].items()) {
        EXPECT_TRUE(sample[key].is_null() ||
                    (sample[key] >= extremes["min"] && sample[key] <= extremes["max"]))
            << key;
      }
    }
    EXPECT_GT(answered, 0);
    EXPECT_LE(answered, result["answered"].get<double>() * 1.0001);
    EXPECT_LE(refused, result["refused"]);
  }

  void expect_comparisons(Words const& small) {
    auto const report = report_of(small + Words{"--baseline", "--raw-loop"});
    expect_complete_result(report["result"]);
    expect_complete_result(report["baseline"]);
    EXPECT_EQ(report["result"]["captured"], true);
    EXPECT_EQ(report["baseline"]["captured"], false);
    auto const per_s = [&](char const* of) { return report[of]["queries_per_s"].get<double>(); };
    EXPECT_NEAR(report["over_baseline"]["throughput"].get<double>(),
                per_s("result") / per_s("baseline"),
                1e-6);
    EXPECT_GT(report["over_baseline"]["p50"], 0);
    EXPECT_GT(report["over_baseline"]["p99"], 0);
    EXPECT_NEAR(report["over_raw_loop"]["throughput"].get<double>(),
                per_s("result") / per_s("raw_loop"),
                1e-6);
    EXPECT_EQ(report["raw_loop"]["threads"], 2) << "a replica each";
    EXPECT_EQ(report_of(small + Words{"--raw-loop",
                                      "--raw-threads",
                                      "1",
                                      "--merge-streams=false",
                                      "--branches",
                                      "2",
                                      "--check"})["raw_loop"]["threads"],
              1);
    auto const alone = report_of(small);
    EXPECT_FALSE(alone.contains("baseline"));
    EXPECT_FALSE(alone.contains("raw_loop"));
  }

  void expect_lone_queries(Words const& small) {
    auto const result = report_of(small + Words{"--lone"})["result"];
    auto const lone_ms = result["lone_ms"]["p50"].get<double>();
    EXPECT_GT(lone_ms, 0);
    for (auto const* const percentile : {"p50", "p99"}) {
      EXPECT_NEAR(result["over_lone"][percentile].get<double>(),
                  result["latency_ms"][percentile].get<double>() / lone_ms,
                  1e-6);
    }
    EXPECT_FALSE(report_of(small)["result"].contains("lone_ms"));
  }

  /// Expects that all answers of a pool equal those of running each query alone, for several ways
  /// to run the pool, also while weights are swapped all the time.
  void expect_answers_of_lone_runs(Words const& small) {
    for (Words const& way : {Words{},
                             Words{"--no-capture", "--depth", "1"},
                             Words{"--merge-streams=false", "--launch-threads", "per_group"},
                             Words{"--launch-threads", "shared", "--launch-thread-count", "2"},
                             Words{"--pinned", "per_group", "--weights", "copied"},
                             Words{"--memory-pools", "private-one-limit", "--priority", "high"},
                             Words{"--max-batch-delay-us", "100000", "--buckets", "4,8"}}) {
      bool const is_batching = way.size() > 2 && way[0] == "--max-batch-delay-us";
      for (std::string const swap_ms : {"0", "1"}) {
        SCOPED_TRACE(::testing::PrintToString(way) + " --swap-ms " + swap_ms);
        auto const report = report_of(small + way + Words{"--check", "--swap-ms", swap_ms});
        auto const& result = report["result"];
        EXPECT_EQ(result["mismatches"], 0);
        EXPECT_EQ(result["checked"], result["answered"]);
        EXPECT_GT(result["answered"], 0);
        if (is_batching) {
          EXPECT_LT(count(result, "launches"), count(result, "answered")) << "none were together";
        }
      }
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
    expect_usage_error({"--replicas", "0"}, "expected an integer from 1 to 255, found '0'");
    expect_usage_error({"--depth", "65"}, "expected an integer from 1 to 64, found '65'");
    expect_usage_error({"--batch", "8", "--buckets", "4"},
                       "the largest holds 4 rows; expected at least --batch, 8");
    expect_usage_error({"--batch", "4", "--buckets", "8,4"},
                       "--buckets: expected them in ascending");
    expect_usage_error({"--launch-thread-count", "2"}, "goes with --launch-threads shared");
    expect_usage_error({"--pinned", "none"}, "expected one of shared, per_group, found 'none'");
    expect_usage_error({"--memory-pools", "mine"},
                       "expected one of shared, private, private-one-limit, found 'mine'");
    expect_usage_error({"--batch", "8", "--buckets", "4,15", "--max-batch-delay-us", "9"},
                       "the largest of --buckets holds 15 rows; expected at least two queries, 16");
    expect_usage_error({"--batch", "8", "--max-batch-delay-us", "9"}, "--buckets holds 8 rows");
    expect_usage_error(
        {"--batch", "4", "--buckets", "8", "--max-batch-delay-us", "9", "--queue", "0"},
        "expected --queue of at least 1");
    expect_usage_error({"--raw-loop", "--no-capture"}, "does not go with --no-capture");
    expect_usage_error({"--report", path("nowhere/file")}, "there is no folder");
#if !MSSTREAM_CUDA
    expect_usage_error({"--runtime", "cuda"}, "this build has no CUDA");
#endif
    for (std::string const variable :
         {"REPLICAS=0", "MATMUL_PRECISION=half", "PINNED_POOLS=ours"}) {
      auto const ended = run({}, {.environment = {"MSSTREAM_" + variable}});
      EXPECT_EQ(ended.status, 2) << variable;
      EXPECT_THAT(ended.err, ::testing::HasSubstr(variable.substr(0, variable.find('='))));
    }
  }
  void expect_help(Words const& more) const {
    auto const ended = run({"--help"});
    EXPECT_EQ(ended.status, 0);
    EXPECT_EQ(ended.err, "");
    Words const common = {"replicas",
                          "depth",
                          "merge-streams",
                          "launch-threads",
                          "launch-thread-count",
                          "launch-spin-us",
                          "pinned",
                          "memory-pools",
                          "weights",
                          "priority",
                          "no-capture",
                          "buckets",
                          "queue",
                          "max-batch-delay-us",
                          "tf32",
                          "batch",
                          "queries",
                          "deadline-ms",
                          "swap-ms",
                          "check",
                          "warmup",
                          "seed",
                          "baseline",
                          "raw-loop",
                          "raw-threads",
                          "lone",
                          "runtime",
                          "report",
                          "quiet"};
    for (auto const& option : common + more) {
      EXPECT_THAT(ended.out, ::testing::HasSubstr(fmt::format("  --{} ", option)));
    }
    EXPECT_THAT(ended.out, ::testing::HasSubstr("Examples:"));
  }
  void expect_quiet(Words const& small) const {
    auto const quiet = run(small + Words{"--quiet"});
    EXPECT_EQ(quiet.status, 0);
    EXPECT_EQ(quiet.out, "");
    EXPECT_EQ(quiet.err, "");
  }
  void expect_table(Words const& small, std::string const& begins) const {
    auto const ended = run(small + Words{"--quiet=false", "--baseline", "--raw-loop", "--check"});
    for (auto const* const line : {"queries answered in [0-9.]+ s, captured: [0-9,]+ queries/s",
                                   "\nlatency  ( +[0-9]+\\.[0-9]+){5}\n",
                                   "\nin the queue ( +[0-9]+\\.[0-9]+){5}\n",
                                   "\non the device ( +[0-9]+\\.[0-9]+){5}\n",
                                   "queries in flight, [0-9.]+ on the device, [0-9.]+ kernels",
                                   "\n[0-9,]+ asked, 0 refused",
                                   "\n[0-9]+ samples: [0-9,]+ to [0-9,]+ queries/s, p99 [0-9.]+ to",
                                   "memory: weights [0-9.]+ MiB, a replica",
                                   "answers compared with lone runs, 0 differ",
                                   "eagerly on one stream: [0-9,]+ queries/s",
                                   "a raw loop of 2 threads: [0-9,]+ queries/s"}) {
      EXPECT_THAT(ended.out, ::testing::ContainsRegex(line));
    }
    EXPECT_THAT(ended.err, ::testing::HasSubstr(begins));
  }
};

}  // namespace msstream::testing
