// SPDX-License-Identifier: Apache-2.0
// Runs the recorder in a program without a GPU, with a CUPTI that makes records up.
#include "run.hpp"

#include "overlap/record/settings.hpp"
#include "overlap/record/trace_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Json read_recording(fs::path const& file) {
  std::string text;
  gzFile const stream = gzopen(file.c_str(), "rb");
  std::array<char, 65'536> bytes;
  for (int count = 0; (count = gzread(stream, bytes.data(), bytes.size())) > 0;) {
    text.append(bytes.data(), static_cast<std::size_t>(count));
  }
  gzclose(stream);
  return Json::parse(text);
}

std::ptrdiff_t count_of(Json const& recording, std::string const& category) {
  auto const& events = recording.at("traceEvents");
  return std::count_if(events.begin(), events.end(), [&](Json const& event) {
    return event.value("cat", "") == category && event.at("ph") == "X";
  });
}

class OverlapRun : public testing::Test {
 protected:
  OverlapRun() {
    std::string pattern = testing::TempDir() + "overlap_run.XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~OverlapRun() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  void SetUp() override {
    if (std::string(MSSTREAM_OVERLAP_RECORDER).empty()) {
      GTEST_SKIP() << "this build has no recorder: it needs the header cupti.h";
    }
  }

  [[nodiscard]] msstream::overlap::RunOptions options(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), MSSTREAM_OVERLAP_FAKE_PROGRAM);
    return {.command = std::move(arguments),
            .output = folder_ / "out.json.gz",
            .cupti = MSSTREAM_OVERLAP_FAKE_CUPTI,
            .recorder = MSSTREAM_OVERLAP_RECORDER};
  }
  [[nodiscard]] std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (auto const& entry : fs::directory_iterator(folder_)) {
      found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  [[nodiscard]] Json recording() const { return read_recording(folder_ / "out.json.gz"); }

  /// Runs a program that waits for a signal, sends it to the tool once the program is ready, and
  /// returns the tool's exit status.
  int run_until_signal(std::string const& how, int signal) {
    std::array<int, 2> channel{};
    EXPECT_EQ(pipe2(channel.data(), O_CLOEXEC), 0);
    pid_t const tool = fork();
    if (tool == 0) {
      dup2(channel[1], STDOUT_FILENO);
      _exit(msstream::overlap::run(options({how})));
    }
    close(channel[1]);
    char byte = 0;
    EXPECT_EQ(read(channel[0], &byte, 1), 1);
    close(channel[0]);
    kill(tool, signal);
    int status = 0;
    waitpid(tool, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    return WEXITSTATUS(status);
  }

  fs::path folder_;
};

TEST_F(OverlapRun, a_program_that_ends_leaves_one_complete_file_and_its_status) {
  EXPECT_EQ(msstream::overlap::run(options({"exit", "5000"})), 7);
  ASSERT_EQ(files().size(), 1U);
  Json const json = recording();
  EXPECT_EQ(count_of(json, "kernel"), 5000);
  EXPECT_EQ(count_of(json, "cuda_runtime"), 5000);
  EXPECT_EQ(count_of(json, "cuda_driver"), 0);  // inside the runtime's calls
  EXPECT_EQ(count_of(json, "cuda_sync"), 5000);
  for (Json const& event : json.at("traceEvents")) {
    if (event.value("cat", "") == "cuda_sync") {
      ASSERT_EQ(event["args"]["wait_on_cuda_event_record_corr_id"],
                event["args"]["correlation"].get<int>() - 1);
    }
  }
  EXPECT_EQ(json.at("msstream_overlap_end").at("complete"), true);
  EXPECT_EQ(json.at("msstream_overlap_end").at("dropped_records"), 0);
}

TEST_F(OverlapRun, ends_with_the_program_where_ends_of_children_are_ignored) {
  auto* const before = ::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(msstream::overlap::run(options({"exit", "10"})), 7);
  EXPECT_EQ(::signal(SIGCHLD, before), SIG_IGN) << "stays as it was";
  EXPECT_EQ(count_of(recording(), "kernel"), 10);
}

TEST_F(OverlapRun, a_launch_is_a_call_a_kernel_and_two_ends_of_an_arrow) {
  EXPECT_EQ(msstream::overlap::run(options({"launches", "2000"})), 0);
  Json const json = recording();
  EXPECT_EQ(count_of(json, "kernel"), 2000);
  EXPECT_EQ(count_of(json, "cuda_runtime"), 2000);
  EXPECT_EQ(json.at("msstream_overlap_end").at("dropped_records"), 0);
}

TEST_F(OverlapRun, kinds_are_left_out_and_the_file_says_so) {
  setenv(msstream::overlap::record::variable::kWithout, "kernel+sync+no-such-kind", 1);
  EXPECT_EQ(msstream::overlap::run(options({"exit", "500"})), 7);
  unsetenv(msstream::overlap::record::variable::kWithout);
  Json const json = recording();
  EXPECT_EQ(count_of(json, "kernel"), 0);
  EXPECT_EQ(count_of(json, "cuda_sync"), 0);
  EXPECT_EQ(count_of(json, "cuda_runtime"), 500);
  EXPECT_NE(json.dump().find("recorded without: kernel"), std::string::npos);
  EXPECT_NE(json.dump().find("unknown kind: no-such-kind"), std::string::npos);
}

TEST_F(OverlapRun, threads_have_the_systems_numbers) {
  EXPECT_EQ(msstream::overlap::run(options({"exit", "10"})), 7);
  for (Json const& event : recording().at("traceEvents")) {
    if (event.value("cat", "") == "cuda_runtime") {
      ASSERT_EQ(event["tid"], event["pid"]) << "the program has one thread";
    }
  }
}

TEST_F(OverlapRun, ends_without_handlers_and_crashes_lose_nothing) {
  struct Case {
    char const* how;
    int status;
  };
  for (Case const& c :
       {Case{"_exit", 8}, Case{"abort", 128 + SIGABRT}, Case{"segv", 128 + SIGSEGV}}) {
    auto run_options = options({c.how});
    run_options.force = true;
    EXPECT_EQ(msstream::overlap::run(run_options), c.status) << c.how;
    EXPECT_EQ(count_of(recording(), "kernel"), 100) << c.how;
    EXPECT_EQ(recording().at("msstream_overlap_end").at("complete"), true) << c.how;
  }
}

TEST_F(OverlapRun, a_killed_program_leaves_a_file_that_says_so) {
  EXPECT_EQ(msstream::overlap::run(options({"kill"})), 128 + SIGKILL);
  ASSERT_EQ(files().size(), 1U);
  EXPECT_EQ(count_of(recording(), "kernel"), 100);
  EXPECT_EQ(recording().at("msstream_overlap_end").at("complete"), false);
}

TEST_F(OverlapRun, a_program_is_flushed_while_it_runs_only_if_it_uses_one_device) {
  std::string const driver = MSSTREAM_OVERLAP_FAKE_DRIVER;
  EXPECT_EQ(msstream::overlap::run(options({"flushes", "1", driver, "1"})), 15);
  auto of_two = options({"flushes", "1", driver, "2"});
  of_two.force = true;
  EXPECT_EQ(msstream::overlap::run(of_two), 14);
  EXPECT_EQ(count_of(recording(), "kernel"), 1) << "the end of the program flushes";
}

TEST_F(OverlapRun, signals_are_passed_on_and_complete_the_file) {
  EXPECT_EQ(run_until_signal("loop", SIGTERM), 128 + SIGTERM);
  EXPECT_EQ(recording().at("msstream_overlap_end").at("reason"), "signal 15");
}

TEST_F(OverlapRun, a_programs_own_handler_decides_how_it_ends) {
  EXPECT_EQ(run_until_signal("own-handler", SIGTERM), 11);
  EXPECT_EQ(recording().at("msstream_overlap_end").at("complete"), true);
}

TEST_F(OverlapRun, a_program_that_restores_a_signal_and_raises_it_completes_the_file) {
  EXPECT_EQ(run_until_signal("like-python", SIGINT), 128 + SIGINT);
  EXPECT_EQ(recording().at("msstream_overlap_end").at("complete"), true);
}

TEST_F(OverlapRun, each_child_that_uses_cuda_has_a_file) {
  EXPECT_EQ(msstream::overlap::run(options({"fork-first"})), 0);
  ASSERT_EQ(files().size(), 2U);
  for (fs::path const& file : files()) {
    EXPECT_EQ(count_of(read_recording(file), "kernel"), 100);
  }
}

TEST_F(OverlapRun, a_child_without_cuda_leaves_its_parents_file_alone) {
  EXPECT_EQ(msstream::overlap::run(options({"fork-later"})), 5);
  ASSERT_EQ(files().size(), 1U);
  EXPECT_EQ(count_of(recording(), "kernel"), 200);
}

TEST_F(OverlapRun, a_child_that_ends_soon_after_the_program_completes_its_file) {
  EXPECT_EQ(msstream::overlap::run(options({"child-ends-later"})), 4);
  ASSERT_EQ(files().size(), 1U) << "the folder of an unfinished file stays";
  EXPECT_EQ(count_of(recording(), "kernel"), 200);
  EXPECT_EQ(recording().at("msstream_overlap_end").at("complete"), true);
}

TEST_F(OverlapRun, what_keeps_a_recording_from_being_made_is_said) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(msstream::overlap::run(options({"without-cuda"})), 3);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("did not initialise CUDA"),
            std::string::npos);
  setenv("FAKE_CUPTI_CLIENT", "CUPTI for Another", 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(msstream::overlap::run(options({"exit"})), 7);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("CUPTI for Another"), std::string::npos);
  unsetenv("FAKE_CUPTI_CLIENT");
  EXPECT_TRUE(files().empty());
}

/// CUPTI does not record single calls of the driver that are enabled late.
TEST_F(OverlapRun, launches_by_the_driver_have_their_call) {
  EXPECT_EQ(msstream::overlap::run(options({"driver", "10"})), 13);
  Json const json = recording();
  EXPECT_EQ(count_of(json, "kernel"), count_of(json, "cuda_runtime") + 1);
  EXPECT_EQ(count_of(json, "cuda_driver"), 1);
}

TEST_F(OverlapRun, a_program_that_is_recorded_does_not_record_itself_too) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(msstream::overlap::run(options({"report", "100"})), 12);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("run records this program already"),
            std::string::npos);
  EXPECT_EQ(count_of(recording(), "kernel"), 100);
}

TEST_F(OverlapRun, an_existing_file_is_not_replaced_without_force) {
  std::ofstream(folder_ / "out.json.gz") << "mine";
  EXPECT_THROW((void)msstream::overlap::run(options({"exit"})), std::runtime_error);
  EXPECT_EQ(files().size(), 1U);
}

TEST(OverlapTraceFile, an_unfinished_piece_is_removed) {
  std::string const folder = testing::TempDir();
  fs::path const part = fs::path(folder) / "cut_here.part";
  using msstream::overlap::record::gzip_member;
  std::string const whole = gzip_member("{\"traceEvents\": [\n{}") + gzip_member(",\n{\"a\": 1}");
  std::string const broken = gzip_member(",\n{\"never\": \"whole\"}");
  std::ofstream(part, std::ios::binary) << whole << broken.substr(0, broken.size() - 3);
  auto const cut = msstream::overlap::record::complete_cut_file(part.string(), "]}");
  EXPECT_EQ(cut.error, "");
  EXPECT_EQ(cut.lost_bytes, broken.size() - 3);
  EXPECT_EQ(read_recording(cut.path).at("traceEvents").size(), 2U);
  fs::remove(cut.path);
}

}  // namespace
