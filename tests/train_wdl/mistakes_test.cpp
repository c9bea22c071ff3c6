// SPDX-License-Identifier: Apache-2.0
#include "datasets/data_files.hpp"
#include "train_wdl/program.hpp"

#include <fmt/core.h>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class TrainWdlMistakes : public TrainWdlTest {
 protected:
  /// Expects that the program refuses the arguments with exit status 2, an error line that contains
  /// `message`, and a hint to use --help.
  static void expect_usage_error(Words const& arguments,
                                 std::string const& message,
                                 Words const& environment = {}) {
    auto const ended = train_wdl(arguments, {.environment = environment});
    EXPECT_EQ(ended.status, 2) << ::testing::PrintToString(arguments + environment);
    EXPECT_THAT(ended.err,
                AllOf(StartsWith("train_wdl: error: "),
                      HasSubstr(message),
                      HasSubstr("\nTry 'train_wdl --help'.\n")));
    EXPECT_THAT(ended.out, IsEmpty());
  }
  /// Expects that the program fails with exit status 1 and an error of one line, which only
  /// indented lines may follow.
  static void expect_failure(Words const& arguments,
                             std::string const& message,
                             Words const& environment = {}) {
    auto const ended = train_wdl(small() + arguments, {.environment = environment});
    EXPECT_EQ(ended.status, 1) << ::testing::PrintToString(arguments + environment);
    EXPECT_THAT(ended.err, AllOf(StartsWith("train_wdl: error: "), HasSubstr(message)));
    EXPECT_THAT(ended.err, ::testing::MatchesRegex("[^\n]*\n(  [^\n]*\n)*"));
  }
  /// Returns a data file with Criteo's columns: a header, and rows that are good except for the
  /// value `bad` in row `bad_row`.
  [[nodiscard]] static std::string criteo(int rows, int bad_row = -1, std::string const& bad = "") {
    std::string rows_text = "Id,Label";
    for (int i = 1; i <= 13; ++i) {
      rows_text += fmt::format(",I{}", i);
    }
    for (int i = 1; i <= 26; ++i) {
      rows_text += fmt::format(",C{}", i);
    }
    for (int row = 0; row < rows; ++row) {
      rows_text += fmt::format("\n{},{}", row, row % 2);
      for (int i = 1; i <= 13; ++i) {
        rows_text += fmt::format(",{}", row == bad_row && i == 3 ? bad : "1");
      }
      for (int i = 1; i <= 26; ++i) {
        rows_text += fmt::format(",ab{}", row % 7);
      }
    }
    return rows_text + "\n";
  }
};

TEST_F(TrainWdlMistakes, unknown_options_are_named_with_the_one_that_was_meant) {
  expect_usage_error({"--nope"}, "unknown argument '--nope'");
  expect_usage_error({"--stream-group", "2"}, "did you mean --stream-groups?");
  expect_usage_error({"train.csv"}, "unknown argument 'train.csv'");
}

TEST_F(TrainWdlMistakes, bad_values_are_named_with_what_is_accepted) {
  std::vector<std::pair<Words, std::string>> const cases = {
      {{"--rows", "abc"}, "--rows: expected an integer from 1 to 1000000000, found 'abc'"},
      {{"--rows", "0"}, "found '0'"},
      {{"--rows", "1e3"}, "found '1e3'"},
      {{"--rows", "99999999999999999999"}, "--rows: expected an integer"},
      {{"--batch", "-5"}, "--batch: expected an integer from 1"},
      {{"--batch"}, "--batch: expected an integer from 1 to 1048576, found nothing"},
      {{"--stream-groups", "0"}, "--stream-groups: expected an integer from 1 to 256, found '0'"},
      {{"--stream-groups", "257"}, "found '257'"},
      {{"--layers", "8,,4"}, "--layers: expected one or more integers"},
      {{"--layers", "8,0"}, "found '8,0'"},
      {{"--layers", ""}, "--layers: expected one or more integers"},
      {{"--lr", "nan"}, "--lr: expected a number"},
      {{"--lr", "-1"}, "found '-1'"},
      {{"--seed", "-1"}, "--seed: expected"},
      {{"--optimizer", "rmsprop"}, "expected one of adam, adagrad, sgd, found 'rmsprop'"},
      {{"--launch-threads", "many"}, "expected one of none, shared, per_group, found 'many'"},
      {{"--launch-threads", "private"}, "expected one of none, shared, per_group, found 'private'"},
      {{"--runtime", "tpu"}, "--runtime: expected one of host"},
      {{"--quiet=perhaps"}, "--quiet: expected true or false"},
      {{"--data", ""}, "--data: expected a path"},
  };
  for (auto const& [arguments, message] : cases) {
    expect_usage_error(arguments, message);
  }
#if !MSSTREAM_CUDA
  expect_usage_error({"--runtime", "cuda"}, "--runtime cuda: this build has no CUDA");
#endif
}

TEST_F(TrainWdlMistakes, options_that_contradict_each_other_are_both_named) {
  expect_usage_error({"--launch-thread-count", "2"}, "goes with --launch-threads shared");
  expect_usage_error({"--launch-thread-count", "2", "--launch-threads", "per_group"},
                     "goes with --launch-threads shared");
  expect_usage_error({"--holdout", "1"}, "--holdout 1");
  expect_usage_error({"--format", "census"}, "give --data");
  expect_usage_error({"--check-report", path("file")}, "goes with --check");
  expect_usage_error({"--step-trace", path("step.png")},
                     "expected a path that ends with .json, .dot or .svg");
  expect_usage_error({"--check", "--waits"}, "--waits and --step-trace do not go with --check");
  expect_usage_error({"--save", "/dev/null"}, "is a device; expected a regular file");
  for (std::string const option : {"--save", "--report", "--trace", "--check-report"}) {
    Words const check = {"--check"};
    expect_usage_error(check + Words{option, path("nowhere/file")},
                       option + " " + path("nowhere/file"));
    expect_usage_error(check + Words{option, folder.path().string()},
                       "is a folder; expected a file");
    std::string const other = option == "--save" ? "--report" : "--save";
    expect_usage_error(check + Words{option, path("file"), other, path("./file")},
                       " writes that file");
    expect_usage_error(check + Words{option, "/proc/file"}, "cannot create a file in /proc");
  }
}

TEST_F(TrainWdlMistakes, bad_variables_are_named_before_any_work) {
  Words const no_data = {"--data", path("missing")};
  std::vector<std::pair<std::string, std::string>> const cases = {
      {"MSSTREAM_STREAM_GROUPS=0",
       "MSSTREAM_STREAM_GROUPS: expected an integer from 1 to 256, found '0'"},
      {"MSSTREAM_LAUNCH_THREADS=private",
       "MSSTREAM_LAUNCH_THREADS: expected one of none, shared, per_group, found 'private'"},
      {"MSSTREAM_MERGE_STREAMS=2", "MSSTREAM_MERGE_STREAMS"},
      {"MSSTREAM_LAUNCH_THREAD_COUNT=65", "MSSTREAM_LAUNCH_THREAD_COUNT"},
      {"MSSTREAM_MEMORY_LIMIT_BYTES=lots",
       "MSSTREAM_MEMORY_LIMIT_BYTES: expected an integer of at least 0, found 'lots'"},
      {"MSSTREAM_MEMORY_LIMIT_BYTES=-1",
       "MSSTREAM_MEMORY_LIMIT_BYTES: expected an integer of at least 0, found '-1'"},
      {"MSSTREAM_MAX_GROWTH_BYTES=1",
       "MSSTREAM_MAX_GROWTH_BYTES: expected an integer of at least 65536, found '1'"},
      {"MSSTREAM_REDUCE_WAITS=maybe", "MSSTREAM_REDUCE_WAITS: expected true or false"},
      {"MSSTREAM_LAUNCH_SPIN_US=x",
       "MSSTREAM_LAUNCH_SPIN_US: expected an integer from -1 to 1000000, found 'x'"},
      {"MSSTREAM_SM_PARTITIONS=0", "MSSTREAM_SM_PARTITIONS: expected an integer from 1 to 256"},
      {"MSSTREAM_SPARED_SMS=-1", "MSSTREAM_SPARED_SMS: expected an integer from 0 to 1024"},
      {"MSSTREAM_HOST_KERNEL_THREADS=0", "MSSTREAM_HOST_KERNEL_THREADS: expected an integer"},
      {"MSSTREAM_WORKSPACE_BYTES=1 MB", "MSSTREAM_WORKSPACE_BYTES: expected an integer"},
      {"MSSTREAM_MATMUL_PRECISION=half", "MSSTREAM_MATMUL_PRECISION: expected one of"},
      {"MSSTREAM_SAVE=/dev/null", "is a device; expected a regular file"},
      {"MSSTREAM_CHECK_MODE=shout",
       "MSSTREAM_CHECK_MODE: expected one of throw, log, count, found 'shout'"},
  };
  for (auto const& [variable, message] : cases) {
    expect_usage_error(no_data, message, {variable});
  }
}

TEST_F(TrainWdlMistakes, variables_set_options_and_the_command_line_wins) {
  Words const environment = {
      "MSSTREAM_STREAM_GROUPS=3", "MSSTREAM_REDUCE_WAITS=0", "MSSTREAM_LAYERS=8", "MSSTREAM_SEED="};
  auto const report = report_of(small() + Words{"--steps", "2"}, {.environment = environment});
  EXPECT_EQ(report["options"]["stream_groups"], 3);
  EXPECT_EQ(report["options"]["layers"], (nlohmann::json{16, 8}));
  EXPECT_EQ(report["options"]["seed"], 1);
  EXPECT_EQ(report["options"]["reduce_waits"], false);
  EXPECT_EQ(report["waits"]["elided"], 0);
  auto const misspelt =
      train_wdl(small() + Words{"--steps", "1"}, {.environment = {"MSSTREAM_STREAM_GROUP=3"}});
  EXPECT_EQ(misspelt.status, 0);
  EXPECT_THAT(
      misspelt.err,
      HasSubstr("unknown variable MSSTREAM_STREAM_GROUP; did you mean MSSTREAM_STREAM_GROUPS?"));
}

TEST_F(TrainWdlMistakes, variables_of_the_library_are_none) {
  auto const ended = train_wdl(small() + Words{"--steps", "1"},
                               {.environment = {"MSSTREAM_MEMORY_POOLS=private",
                                                "MSSTREAM_MEMORY_KEEP_BYTES=0",
                                                "MSSTREAM_OVERLAP_SKIP_MS=0"}});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.err, ::testing::Not(HasSubstr("unknown variable")));
}

TEST_F(TrainWdlMistakes, help_tells_of_every_option) {
  auto const ended = train_wdl({"--help"});
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.err, IsEmpty());
  for (std::string const option : {"data",
                                   "format",
                                   "rows",
                                   "holdout",
                                   "reader-threads",
                                   "runtime",
                                   "stream-groups",
                                   "merge-streams",
                                   "no-reduce-waits",
                                   "launch-threads",
                                   "launch-thread-count",
                                   "tables",
                                   "embedding-dim",
                                   "layers",
                                   "buckets",
                                   "batch",
                                   "epochs",
                                   "steps",
                                   "optimizer",
                                   "lr",
                                   "update-each-table",
                                   "seed",
                                   "ranks",
                                   "parallel",
                                   "reproducible",
                                   "check",
                                   "check-report",
                                   "save",
                                   "resume",
                                   "report",
                                   "trace",
                                   "dashboard",
                                   "quiet"}) {
    EXPECT_THAT(ended.out, HasSubstr(fmt::format("  --{} ", option)));
  }
  EXPECT_EQ(train_wdl({"-h"}).out, ended.out);
}

TEST_F(TrainWdlMistakes, data_that_cannot_be_read_is_named_with_the_place) {
  expect_failure({"--data", path("missing.csv")},
                 path("missing.csv") + ": cannot open: No such file");
  auto const bad = folder.write("bad.csv", criteo(50, 36, "x7")).string();
  expect_failure({"--data", bad}, bad + ":38: column 5 (I3): expected");
  auto const gz = gzipped(criteo(2000));
  auto const cut = folder.write("cut.csv.gz", gz.substr(0, gz.size() / 2)).string();
  expect_failure({"--data", cut}, cut);
  expect_failure({"--data", folder.write("empty.csv", "").string()}, "empty.csv");
  expect_failure({"--data", folder.path().string()}, folder.path().string());
  auto const good = folder.write("good.csv.gz", gzipped(criteo(400))).string();
  EXPECT_EQ(
      report_of(small() + Words{"--data", good, "--batch", "64", "--steps", "2"})["losses"].size(),
      2U);
}

TEST_F(TrainWdlMistakes, data_without_an_end_or_of_no_text_is_named) {
  expect_failure({"--data", "/dev/zero"}, "/dev/zero:1: expected text, found a NUL byte");
  expect_failure({"--resume", "/dev/zero"}, "/dev/zero: expected a regular file");
  auto const large = folder.write("large.csv", criteo(50, 36, "1e999")).string();
  expect_failure({"--data", large}, large + ":38: column 5 (I3): expected");
}

TEST_F(TrainWdlMistakes, quotes_change_nothing) {
  auto const plain = criteo(400);
  std::string quoted = "\xEF\xBB\xBF\"";
  for (char const character : plain.substr(0, plain.size() - 1)) {
    quoted += character == ','    ? "\",\""
              : character == '\n' ? "\"\r\n\""
                                  : std::string(1, character);
  }
  quoted += "\"\r\n";
  auto const losses_of = [&](std::string const& bytes) {
    auto const data = folder.write("data.csv", bytes).string();
    return report_of(small() + Words{"--data", data, "--batch", "64", "--steps", "3"})["losses"];
  };
  EXPECT_EQ(losses_of(quoted), losses_of(plain));
}

TEST_F(TrainWdlMistakes, a_standard_output_that_fails_is_told) {
  auto const ended =
      run_program("/bin/sh",
                  Words{"-c", "\"$@\" > /dev/full", "sh", MSSTREAM_TRAIN_WDL} + small() +
                      Words{"--steps", "1", "--quiet=false", "--save", path("m")});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err,
              ::testing::EndsWith("train_wdl: error: cannot write to the standard output: No space "
                                  "left on device\n"));
  EXPECT_TRUE(std::filesystem::exists(path("m")));
}

TEST_F(TrainWdlMistakes, too_little_memory_is_said_with_who_holds_what) {
  expect_failure({}, "under a limit of 100000", {"MSSTREAM_MEMORY_LIMIT_BYTES=100000"});
}

}  // namespace
}  // namespace msstream::testing
