// SPDX-License-Identifier: Apache-2.0
#include "load/serve_program.hpp"

namespace msstream::testing {
namespace {

class ServeMlp : public ServeProgramTest {
 protected:
  ServeMlp() : ServeProgramTest(MSSTREAM_SERVE_MLP) {}

  [[nodiscard]] static Words small() {
    return {"--runtime",
            runtime(),
            "--layers",
            "24,16,8",
            "--batch",
            "4",
            "--threads",
            "3",
            "--iterations",
            "40",
            "--replicas",
            "2",
            "--queries",
            "7",
            "--warmup",
            "0.01",
            "--quiet"};
  }
};

TEST_P(ServeMlp, report_says_how_the_run_was_and_went) {
  auto const report = report_of(small() + Words{"--depth", "1"});
  auto const& options = report["options"];
  EXPECT_EQ(options["runtime"], runtime());
  EXPECT_EQ(options["layers"], nlohmann::json({24, 16, 8}));
  EXPECT_EQ(options["threads"], 3);
  EXPECT_EQ(options["iterations"], 40);
  EXPECT_EQ(options["replicas"], 2);
  EXPECT_EQ(options["depth"], 1);
  EXPECT_EQ(options["buckets"], nlohmann::json({4}));
  auto const& result = report["result"];
  expect_complete_result(result);
  EXPECT_EQ(result["answered"], 3 * 40);
  EXPECT_EQ(result["asked"], 3 * 40);
  EXPECT_EQ(result["operations_a_query"], 4) << "a copy, two layers, a copy";
  EXPECT_EQ(result["pool"]["captured_steps"], 2);
  EXPECT_EQ(result["refused"], 0);
  EXPECT_EQ(result["checked"], 0);
  EXPECT_EQ(result["memory"]["weights_bytes"], (24 * 16 + 16 + 16 * 8 + 8) * 4);
  EXPECT_NEAR(result["rows_per_s"].get<double>(), 4 * result["queries_per_s"].get<double>(), 1e-3);
  EXPECT_LE(result["in_flight"], 3);
}

TEST_P(ServeMlp, is_compared_with_one_stream_and_with_a_raw_loop) {
  expect_comparisons(small());
}

TEST_P(ServeMlp, says_why_its_streams_did_not_overlap) {
  auto const file = path("why.json");
  EXPECT_EQ(report_of(small() + Words{"--overlap", file})["result"]["answered"], 3 * 40);
  auto const why = nlohmann::json::parse(read_all(file))["reports"].at(0);
  std::int64_t sum = 0;
  for (auto const& time : why["devices"].at(0)["times"]) {
    sum += time["time_ns"].get<std::int64_t>();
  }
  EXPECT_GT(sum, 0);
  EXPECT_EQ(why["window"]["length_ns"], sum);
  auto const refused = run({"--overlap", path("why.png")});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, ::testing::HasSubstr("ends with .html, .json or .txt"));
}

TEST_P(ServeMlp, is_compared_with_lone_queries) {
  expect_lone_queries(small());
}

TEST_P(ServeMlp, answers_are_those_of_lone_runs) {
  expect_answers_of_lone_runs(small());
}

INSTANTIATE_TEST_SUITE_P(Runtimes, ServeMlp, kRuntimes, name_of_runtime);

class ServeMlpProgram : public ServeMlp {};

TEST_F(ServeMlpProgram, mistakes_are_named) {
  expect_mistakes_are_named();
  expect_usage_error({"--layers", "24"}, "expected at least two widths");
  expect_usage_error({"--iterations", "0"}, "expected an integer from 1 to");
}

TEST_F(ServeMlpProgram, help_tells_of_every_option) {
  expect_help({"threads", "iterations", "layers"});
}

TEST_F(ServeMlpProgram, quiet_is_quiet) {
  expect_quiet(small());
}

TEST_F(ServeMlpProgram, results_go_to_stdout) {
  expect_table(small(),
               "2 layers, 4 rows a query; 3 threads, 40 queries each; 2 replicas, captured");
}

}  // namespace
}  // namespace msstream::testing
