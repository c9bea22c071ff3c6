// SPDX-License-Identifier: Apache-2.0
#include "serve_wdl_program.hpp"

#include <fmt/core.h>

#include <chrono>
#include <set>

namespace msstream::testing {
namespace {

TEST_P(ServeWdl, report_says_how_the_run_was_and_went) {
  for (std::string const tables : {"branches", "fused"}) {
    SCOPED_TRACE(tables);
    auto const report = report_of(small() + Words{"--tables", tables, "--clients", "3"});
    auto const& options = report["options"];
    EXPECT_EQ(options["runtime"], runtime());
    EXPECT_EQ(options["tables"], tables);
    EXPECT_EQ(options["mode"], "closed");
    EXPECT_EQ(options["clients"], 3);
    EXPECT_EQ(options["table_rows"], 50);
    EXPECT_EQ(options["layers"], nlohmann::json({8, 4}));
    auto const& result = report["result"];
    expect_complete_result(result);
    EXPECT_EQ(result["captured"], true);
    EXPECT_EQ(result["refused"], 0);
    EXPECT_EQ(result["expired"], 0);
    EXPECT_EQ(result["swaps"], 0);
    EXPECT_LE(result["in_flight"], 3.0);
    EXPECT_GE(result["seconds"], 0.05);
  }
  EXPECT_EQ(report_of(small() + Words{"--replicas", "3", "--depth", "1"})["options"]["clients"], 6);
}

TEST_P(ServeWdl, clients_may_have_several_queries_in_flight) {
  auto const report =
      report_when(small() + Words{"--clients", "2", "--in-flight", "5", "--check", "--queue", "64"},
                  "more in flight than there are clients",
                  [](auto const& result) { return result["in_flight"] > 2.0; });
  EXPECT_EQ(report["options"]["in_flight"], 5);
  auto const& result = report["result"];
  expect_complete_result(result);
  EXPECT_EQ(result["asked"], result["answered"]);
  EXPECT_LE(result["in_flight"], 10.0);
}

TEST_P(ServeWdl, is_compared_with_one_stream_and_with_a_raw_loop) {
  expect_comparisons(small());
}

TEST_P(ServeWdl, is_compared_with_lone_queries) {
  expect_lone_queries(small());
}

TEST_P(ServeWdl, an_open_load_can_be_a_part_of_the_peak) {
  auto const result = report_when(small() + Words{"--mode", "open", "--load-factor", "0.25"},
                                  "an arrival",
                                  [](auto const& its) { return its["asked"] > 0; })["result"];
  expect_complete_result(result);
  EXPECT_NEAR(
      result["rate"].get<double>(), 0.25 * result["peak_queries_per_s"].get<double>(), 1e-3);
  EXPECT_GT(result["over_lone"]["p99"], 0);
}

/// Lets queries arrive faster than they can be launched.
TEST_P(ServeWdl, an_overload_is_refused_and_the_rest_waits_in_bounds) {
  constexpr std::int64_t kQueue = 8;
  auto const result = report_of(small() + Words{"--mode",
                                                "open",
                                                "--rate",
                                                "1e6",
                                                "--batch",
                                                "64",
                                                "--layers",
                                                "256,64",
                                                "--queue",
                                                fmt::format("{}", kQueue),
                                                "--seconds",
                                                "0.1"})["result"];
  expect_complete_result(result);
  EXPECT_GT(result["refused"], 0);
  EXPECT_EQ(count(result, "answered") + count(result, "refused") + count(result, "expired") +
                count(result, "failed"),
            count(result, "asked"));
  // The queue may exceed its limit by one query while the poller replies: the slot of the answered
  // query is already given to another query, and the answer is not counted yet.
  EXPECT_LE(result["sampled"]["waiting"]["max"], kQueue + 1);
  EXPECT_EQ(result["sampled"]["reserved_bytes"]["min"], result["sampled"]["reserved_bytes"]["max"]);
  EXPECT_GT(result["sampled"]["refused"]["max"], 0);
}

TEST_P(ServeWdl, without_a_queue_what_finds_no_place_is_refused) {
  // Clients of an open load do not wait for answers, so the second of two queries arrives before
  // the first is complete.
  auto const result = report_of(small() + Words{"--queue",
                                                "0",
                                                "--replicas",
                                                "1",
                                                "--depth",
                                                "1",
                                                "--mode",
                                                "open",
                                                "--rate",
                                                "1e6"})["result"];
  expect_complete_result(result);
  EXPECT_EQ(result["queued"], 0);
  EXPECT_GT(result["refused"], 0);
}

TEST_P(ServeWdl, a_pool_without_captured_steps_says_so) {
  auto const result = report_of(small() + Words{"--no-capture"})["result"];
  expect_complete_result(result);
  EXPECT_EQ(result["captured"], false);
}

TEST_P(ServeWdl, answers_are_those_of_lone_runs) {
  expect_answers_of_lone_runs(small());
  expect_answers_of_lone_runs(small() +
                              Words{"--tables", "fused", "--mode", "open", "--rate", "1500"});
}

/// The bits of an answer may be those of a larger bucket than the query's own. Queries are not run
/// together only if all clients submit half a second apart.
TEST_P(ServeWdl, queries_that_run_together_get_their_own_answers) {
  auto const result = report_of(small() + Words{"--max-batch-delay-us",
                                                "500000",
                                                "--buckets",
                                                "4,16",
                                                "--clients",
                                                "12",
                                                "--check"})["result"];
  EXPECT_EQ(result["mismatches"], 0);
  EXPECT_LT(count(result, "launches"), count(result, "answered"));
}

TEST_P(ServeWdl, weights_are_swapped_while_it_serves) {
  auto const begin = std::chrono::steady_clock::now();
  auto const report = report_when(small() + Words{"--swap-ms", "1", "--check"},
                                  "two swaps",
                                  [](auto const& result) { return result["swaps"] > 1; });
  std::chrono::duration<double, std::milli> const run = std::chrono::steady_clock::now() - begin;
  auto const& swaps = report["result"]["swaps"];
  EXPECT_LE(swaps, run.count()) << "one each millisecond";
  EXPECT_GT(report["result"]["swap_ms"]["mean"], 0);
  EXPECT_GE(report["result"]["swap_ms"]["max"], report["result"]["swap_ms"]["mean"]);
  EXPECT_EQ(report["result"]["mismatches"], 0);
}

TEST_P(ServeWdl, an_open_load_arrives_as_fast_as_asked) {
  auto const report = report_of(
      small() + Words{"--mode", "open", "--rate", "400", "--seconds", "1", "--clients", "1"});
  auto const& result = report["result"];
  expect_complete_result(result);
  // Arrival times are drawn in advance, however late the client is. 400 arrivals are expected; the
  // bounds are six standard deviations away.
  EXPECT_GT(result["admitted"], 280);
  EXPECT_LT(result["admitted"], 520);
  EXPECT_EQ(result["refused"], 0) << "all of them fit into the queue";
  EXPECT_GT(result["seconds"], 0.5) << "queries were asked before they arrived";
  EXPECT_GT(result["asked_late_ms"]["max"], 0);
}

/// A client that cannot submit a query every half microsecond submits later and later; all its
/// queries fit into the queue. The latency of an answer includes the delay of its submission, its
/// wait and its run.
TEST_P(ServeWdl, what_an_open_load_waits_counts_from_its_arrival) {
  auto const result = report_of(small() + Words{"--mode",
                                                "open",
                                                "--rate",
                                                "2e6",
                                                "--clients",
                                                "1",
                                                "--seconds",
                                                "0.01",
                                                "--queue",
                                                "30000",
                                                "--warmup",
                                                "0"})["result"];
  expect_complete_result(result);
  EXPECT_EQ(result["asked"], result["answered"]);
  auto const ms = [&](char const* of, char const* which) {
    return result[of][which].get<double>();
  };
  for (auto const* const which : {"p50", "p95", "p99", "max"}) {
    EXPECT_GE(ms("latency_ms", which), ms("asked_late_ms", which)) << which;
  }
  constexpr double kRounding = 1e-5;  // three means, each rounded down to a nanosecond
  EXPECT_GE(ms("latency_ms", "mean") + kRounding,
            ms("asked_late_ms", "mean") + ms("queue_ms", "mean") + ms("device_ms", "mean"));
}

TEST_P(ServeWdl, refusals_and_late_queries_are_counted) {
  Words const flood = {"--mode",
                       "open",
                       "--rate",
                       "50000",
                       "--replicas",
                       "1",
                       "--depth",
                       "1",
                       "--queue",
                       "1",
                       "--batch",
                       "64",
                       "--layers",
                       "256,64",
                       "--check"};
  auto const a_long_time = Words{"--deadline-ms", "1e6"};
  for (auto const& deadline : {Words{}, a_long_time}) {
    auto const refused = report_of(small() + flood + deadline)["result"];
    EXPECT_GT(refused["refused"], 0);
    EXPECT_GT(refused["answered"], 0);
    EXPECT_EQ(refused["mismatches"], 0);
    EXPECT_EQ(refused["admitted"], refused["answered"]);
    EXPECT_EQ(refused["expired"], 0);
  }
  // Uses a deadline that has passed before the query can be submitted.
  auto const a_nanosecond = Words{"--deadline-ms", "1e-6"};
  auto const late = report_of(small() + flood + a_nanosecond)["result"];
  EXPECT_GT(late["asked"], 0);
  EXPECT_EQ(late["expired"], late["asked"]);
  EXPECT_EQ(late["admitted"], late["asked"]);
  EXPECT_EQ(late["answered"], 0);
}

TEST_P(ServeWdl, serves_what_train_wdl_saved) {
  auto const model = path("model.safetensors");
  auto const trained = run_program(MSSTREAM_TRAIN_WDL,
                                   {"--rows",
                                    "600",
                                    "--batch",
                                    "100",
                                    "--buckets",
                                    "30",
                                    "--embedding-dim",
                                    "4",
                                    "--layers",
                                    "8,4",
                                    "--quiet",
                                    "--save",
                                    model,
                                    "--runtime",
                                    runtime()});
  ASSERT_EQ(trained.status, 0) << trained.err;
  for (std::string const tables : {"branches", "fused"}) {
    for (std::string const precision : {"fp32", "bf16", "fp16"}) {
      auto const report = report_of(asking() + Words{"--model",
                                                     model,
                                                     "--tables",
                                                     tables,
                                                     "--precision",
                                                     precision,
                                                     "--check",
                                                     "--swap-ms",
                                                     "1"});
      EXPECT_EQ(report["options"]["precision"], precision);
      EXPECT_EQ(report["result"]["mismatches"], 0);
      EXPECT_GT(report["result"]["checked"], 0);
      EXPECT_FALSE(report["options"].contains("layers"));
    }
  }
  auto const other_shape = run({"--model", model, "--layers", "9"});
  EXPECT_EQ(other_shape.status, 2);
  EXPECT_THAT(other_shape.err, ::testing::HasSubstr("the file of --model has its own"));
}

TEST_P(ServeWdl, a_sweep_has_a_point_for_each_setting_and_number_of_replicas) {
  auto const picture = path("sweep.svg");
  auto const report = report_of(
      small() +
      Words{
          "--sweep", "--sweep-replicas", "1,3", "--svg", picture, "--check", "--seconds", "0.03"});
  auto const& points = report["sweep"];
  ASSERT_EQ(points.size(), 14U);
  std::set<std::string> settings;
  for (std::size_t i = 0; i < points.size(); ++i) {
    expect_complete_result(points[i]);
    EXPECT_EQ(points[i]["replicas"], i % 2 == 0 ? 1 : 3);
    EXPECT_EQ(points[i]["clients"], i % 2 == 0 ? 4 : 12) << "two for each place";
    EXPECT_EQ(points[i]["captured"], i >= 8);
    EXPECT_EQ(points[i]["mismatches"], 0);
    settings.insert(points[i]["setting"].get<std::string>());
  }
  EXPECT_EQ(settings.size(), 7U);
  EXPECT_FALSE(report.contains("result"));
  EXPECT_THAT(read_all(picture), ::testing::EndsWith("</svg>\n"));
}

INSTANTIATE_TEST_SUITE_P(Runtimes, ServeWdl, kRuntimes, name_of_runtime);

class ServeWdlProgram : public ServeWdl {};

TEST_F(ServeWdlProgram, mistakes_are_named) {
  expect_mistakes_are_named();
  expect_usage_error({"--mode", "open"}, "--mode open needs --rate");
  expect_usage_error({"--mode", "open", "--rate", "5", "--load-factor", "2"}, "and not both");
  expect_usage_error({"--rate", "5"}, "--rate and --load-factor go with --mode open");
  expect_usage_error({"--load-factor", "2"}, "--rate and --load-factor go with --mode open");
  expect_usage_error({"--svg", path("a.svg")}, "--svg draws what --sweep measures");
  expect_usage_error({"--sweep", "--baseline"}, "--sweep does not go with --baseline");
  expect_usage_error({"--sweep", "--svg", path("a"), "--report", path("a")}, " writes that file");
  expect_usage_error({"--tables", "one"}, "expected one of branches, fused, found 'one'");
  auto const no_file = run({"--model", path("missing")});
  EXPECT_EQ(no_file.status, 1);
  EXPECT_THAT(no_file.err, ::testing::HasSubstr(path("missing")));
}

TEST_F(ServeWdlProgram, help_tells_of_every_option) {
  expect_help({"mode",
               "clients",
               "rate",
               "load-factor",
               "seconds",
               "model",
               "tables",
               "fields",
               "hotness",
               "layers",
               "sweep",
               "sweep-replicas",
               "table-rows",
               "embedding-dim",
               "continuous",
               "svg"});
}

TEST_F(ServeWdlProgram, quiet_is_quiet) {
  expect_quiet(small());
  expect_quiet(small() + Words{"--sweep", "--sweep-replicas", "1", "--seconds", "0.01"});
}

TEST_F(ServeWdlProgram, results_go_to_stdout) {
  expect_table(small() + Words{"--clients", "2"},
               "random weights, seed 1; 4 rows a query; 2 clients; 2 replicas, captured");
  auto const sweep = run(
      small() + Words{"--quiet=false", "--sweep", "--sweep-replicas", "1,2", "--seconds", "0.01"});
  EXPECT_THAT(sweep.out, ::testing::ContainsRegex("queries/s, replicas: +1 +2\n"));
  EXPECT_THAT(sweep.out, ::testing::ContainsRegex("\n\\+ capture +[0-9,]+ +[0-9,]+\n"));
  EXPECT_THAT(sweep.out, ::testing::ContainsRegex("\np99, ms +1 +2\n"));
}

TEST_F(ServeWdlProgram, tells_how_it_goes) {
  auto const a_line = ::testing::ContainsRegex(
      "pool  [0-9,]+ q/s  p50 [0-9.]+ ms  p99 [0-9.]+ ms  in the pool [0-9]+\n");
  Ended ended;
  for (auto const* const seconds : {"1.2", "5", "20", "80"}) {  // a busy machine may need longer
    ended = run(small() + Words{"--quiet=false", "--seconds", seconds});
    if (::testing::Matches(a_line)(ended.err)) {
      break;
    }
  }
  EXPECT_THAT(ended.err, a_line);
}

}  // namespace
}  // namespace msstream::testing
