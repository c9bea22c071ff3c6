// SPDX-License-Identifier: Apache-2.0
// Measures processes with a script in place of the program, and another one in place of MPS.
#include "doctor/measure/measure_processes.hpp"

#include "base/temporary_folder.hpp"
#include "doctor/measure/own_folder.hpp"
#include "find_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace msstream::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Makes a folder the one of temporary files for the test.
class SetTemporary {
 public:
  explicit SetTemporary(std::filesystem::path const& folder) {
    std::filesystem::create_directories(folder);
    if (auto const* const former = std::getenv("TMPDIR")) {
      former_ = former;
    }
    ::setenv("TMPDIR", folder.c_str(), 1);
  }
  SetTemporary(SetTemporary const&) = delete;
  SetTemporary& operator=(SetTemporary const&) = delete;
  ~SetTemporary() {
    if (former_) {
      ::setenv("TMPDIR", former_->c_str(), 1);
    } else {
      ::unsetenv("TMPDIR");
    }
  }

 private:
  std::optional<std::string> former_;
};

class DoctorProcesses : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::getenv("PATH");
    ::setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1);
    // Says how many groups it has, and whether MPS is on.
    plan_.program =
        write_worker("worker.sh", "case $CUDA_MPS_PIPE_DIRECTORY in */pipe) more=1000;; esac\n");
    plan_.processes = 3;
    plan_.device = 0;
  }
  void TearDown() override { ::setenv("PATH", path_.c_str(), 1); }

  [[nodiscard]] std::string write_script(std::string_view name, std::string const& text) const {
    auto const file = folder_.write(name, "#!/bin/sh\n" + text);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file.string();
  }
  /// Makes a worker that runs `text` first. Its first operation takes 7 ms. It does as many
  /// operations as it has groups and `more`, and ten times the kernels.
  [[nodiscard]] std::string write_worker(std::string_view name, std::string const& text) const {
    return write_script(name,
                        "more=0\n" + text +
                            "echo ready 7; head -c 1 >/dev/null; echo $(($3 + more)) 5 9\n"
                            "echo ready 7; head -c 1 >/dev/null; echo $((10 * $3 + more)) 20 30\n");
  }
  /// Makes a control program of MPS that writes its calls to a file.
  void add_mps(std::string const& status_of_start = "0") const {
    static_cast<void>(write_script("nvidia-cuda-mps-control",
                                   "if [ \"$1\" = -d ]; then echo start >>" + log() + "; exit " +
                                       status_of_start + "; fi\nread x; echo $x >>" + log() +
                                       "\n"));
  }
  [[nodiscard]] std::string log() const { return (folder_ / "calls").string(); }
  [[nodiscard]] std::string calls() const { return msstream::testing::read_all(log()); }
  [[nodiscard]] ProcessFacts measured() const {
    return measure_processes(plan_, [](std::string_view) {});
  }

  msstream::testing::TemporaryFolder folder_;
  std::string path_;
  ProcessPlan plan_;
};

TEST_F(DoctorProcesses, rates_of_processes_add_up) {
  plan_.device = -1;
  auto const facts = measured();
  EXPECT_EQ(facts.one_group.launches.per_second, 1);
  EXPECT_EQ(facts.groups.launches.per_second, 3);     // one process with three groups
  EXPECT_EQ(facts.separate->launches.per_second, 3);  // three processes with one group each
  EXPECT_EQ(facts.separate->kernels.per_second, 30);
  EXPECT_EQ(facts.separate->kernels.p50_us, 20);
  EXPECT_FALSE(facts.with_mps.has_value());
}

TEST_F(DoctorProcesses, the_slowest_process_counts) {
  // Each worker takes a number of its own.
  plan_.program =
      write_script("uneven.sh",
                   "for i in 1 2 3; do mkdir \"${0%/*}/$3-$i\" 2>/dev/null && break; done\n"
                   "echo ready ${i}00; head -c 1 >/dev/null; echo 1 $i ${i}0\n"
                   "echo ready 1; head -c 1 >/dev/null; echo 1 $i ${i}0\n");
  plan_.device = -1;
  plan_.processes = 2;
  auto const facts = measured();
  EXPECT_EQ(facts.separate->first_ms, 300);  // after that of one group: the second and the third
  EXPECT_EQ(facts.separate->launches.p99_us, 30);
}

TEST_F(DoctorProcesses, the_memory_that_a_set_takes_is_what_is_missing) {
  // Each set takes one more MiB than the one before it.
  int calls = 0;
  plan_.free_bytes = [&] {
    ++calls;
    return std::optional(1e9 - (calls % 2 == 0 ? calls / 2 * 1048576.0 : 0));
  };
  auto const facts = measured();
  EXPECT_EQ(facts.groups.bytes, 2 * 1048576.0);
  EXPECT_EQ(facts.separate->bytes, 3 * 1048576.0);
  auto const lines = process_lines(facts);
  EXPECT_EQ(the_line(lines, "processes-memory").value,
            "3.0 MiB, 1.0 MiB a process, 1.0 MiB more than the groups");
  EXPECT_EQ(the_line(lines, "groups-memory").quantity->number, 2 * 1048576.0);
  plan_.free_bytes = [] { return std::optional<double>(); };
  EXPECT_EQ(the_line(process_lines(measured()), "groups-memory").value, "unknown");
}

TEST_F(DoctorProcesses, no_daemon_is_started_unless_that_is_asked) {
  add_mps();
  auto const facts = measured();
  EXPECT_FALSE(facts.with_mps.has_value());
  EXPECT_THAT(facts.without_mps_reason, HasSubstr("--start-mps"));
  EXPECT_THAT(calls(), IsEmpty());
}

TEST_F(DoctorProcesses, a_daemon_that_was_started_is_ended) {
  add_mps();
  plan_.start_mps = true;
  EXPECT_EQ(measured().with_mps->launches.per_second, 3 * 1001.0);
  EXPECT_EQ(calls(), "start\nquit\n");
}

TEST_F(DoctorProcesses, a_daemon_that_does_not_start_is_a_reason) {
  add_mps("1");
  plan_.start_mps = true;
  auto const facts = measured();
  EXPECT_FALSE(facts.with_mps.has_value());
  EXPECT_THAT(facts.without_mps_reason, HasSubstr("does not start"));
}

TEST_F(DoctorProcesses, groups_are_kept_if_several_processes_fail) {
  // As in exclusive compute mode: a process fails while another one runs.
  plan_.program = write_worker("exclusive.sh",
                               "mkdir \"${0%/*}/held\" || exit 1\n"
                               "trap 'rmdir \"${0%/*}/held\"' EXIT\n");
  auto const facts = measured();
  EXPECT_EQ(facts.groups.launches.per_second, 3);
  EXPECT_FALSE(facts.separate.has_value());
  auto const lines = process_lines(facts);
  EXPECT_EQ(the_line(lines, "groups").quantity->number, 3);
  auto const line = the_line(lines, "processes");
  EXPECT_EQ(line.level, Level::bad);
  EXPECT_THAT(line.advice, HasSubstr("exclusive compute mode"));
}

TEST_F(DoctorProcesses, a_failure_with_a_daemon_that_runs_is_a_reason) {
  plan_.program = write_worker("no_mps.sh", "[ \"$CUDA_MPS_PIPE_DIRECTORY\" ] || exit 1\n");
  plan_.mps.is_running = true;
  auto const facts = measured();
  EXPECT_EQ(facts.separate->launches.per_second, 3);
  EXPECT_FALSE(facts.with_mps.has_value());
  EXPECT_THAT(facts.without_mps_reason, HasSubstr("processes fail"));
}

TEST_F(DoctorProcesses, no_folder_is_left) {
  SetTemporary const there(folder_ / "tmp");
  add_mps();
  plan_.start_mps = true;
  static_cast<void>(measured());
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tmp"));
  add_mps("1");
  static_cast<void>(measured());
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tmp"));
}

TEST_F(DoctorProcesses, a_folder_is_removed_also_if_the_process_is_killed) {
  SetTemporary const there(folder_ / "tmp");
  // The shell of the folder has the write end until it ends, so that the read below waits for it.
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  pid_t const child = ::fork();
  if (child == 0) {
    OwnFolder const folder;
    ::raise(SIGKILL);
  }
  ::close(ends[1]);
  ::waitpid(child, nullptr, 0);
  char byte = 0;
  EXPECT_EQ(::read(ends[0], &byte, 1), 0);
  ::close(ends[0]);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tmp"));
}

TEST_F(DoctorProcesses, a_process_that_fails_is_an_error) {
  plan_.program = write_script("broken.sh", "exit 1\n");
  EXPECT_THROW(static_cast<void>(measured()), std::runtime_error);
  for (auto const* const script : {"echo ready 7; head -c 1 >/dev/null; echo many\n",
                                   "echo ready 7; head -c 1 >/dev/null; echo 1 2\n",
                                   "echo ready; head -c 1 >/dev/null; echo 1 2 3\n",
                                   "echo ready 7; head -c 1 >/dev/null; echo 1 2 3\n"}) {
    plan_.program = write_script("lost.sh", script);
    EXPECT_THROW(static_cast<void>(measured()), std::runtime_error) << script;
  }
}

/// Returns what a GPU does whose groups overlap, and whose processes do not without MPS.
ProcessFacts gpu_facts() {
  ProcessFacts facts;
  facts.processes = 4;
  facts.is_cuda = true;
  facts.one_group = {{100'000, 600, 700}, {30'000, 30, 40}, 300, 4e8};
  facts.groups = {{150'000, 1200, 1500}, {110'000, 32, 45}, 310, 4.1e8};
  facts.separate = ProcessSet{{120'000, 600, 9000}, {30'000, 120, 2000}, 900, 1.6e9};
  facts.with_mps = ProcessSet{{200'000, 600, 900}, {105'000, 33, 50}, 700, 1e9};
  return facts;
}

TEST(DoctorProcessLines, processes_that_take_turns_are_told_and_mps_is_compared) {
  auto const lines = process_lines(gpu_facts());
  EXPECT_EQ(lines.size(), 16U);
  EXPECT_EQ(level_of(lines, "groups-kernels"), Level::ok);
  EXPECT_THAT(the_line(lines, "groups-kernels").value,
              HasSubstr("3.67 times one group, median 32 µs, p99 45 µs"));
  auto const line = the_line(lines, "processes-kernels");
  EXPECT_EQ(line.level, Level::note);
  EXPECT_THAT(line.value, HasSubstr("0.27 times the groups"));
  EXPECT_THAT(line.advice, HasSubstr("one process at a time"));
  auto const mps = the_line(lines, "processes-mps-kernels");
  EXPECT_EQ(mps.level, Level::ok);
  EXPECT_THAT(mps.value, HasSubstr("3.50 times the kernels without MPS"));
  EXPECT_THAT(mps.advice, HasSubstr("may end all"));
}

TEST(DoctorProcessLines, rates_of_operations_are_compared_with_groups) {
  auto facts = gpu_facts();
  auto lines = process_lines(facts);
  EXPECT_EQ(lines.front().thing, "1 process, 1 group, on the GPU");
  EXPECT_EQ(the_line(lines, "groups").value, "150,000 operations/s, 1.50 times one group");
  EXPECT_EQ(the_line(lines, "processes").value, "120,000 operations/s, 0.80 times the groups");
  facts.with_mps.reset();
  facts.without_mps_reason = "there is none";
  lines = process_lines(facts);
  EXPECT_EQ(lines.size(), 13U);
  EXPECT_EQ(the_line(lines, "processes-mps").advice, "there is none");
  EXPECT_EQ(level_of(lines, "processes-mps"), Level::note);
}

TEST(DoctorProcessLines, what_a_set_costs_is_judged) {
  auto facts = gpu_facts();
  facts.with_mps->kernels.per_second = 50'000;
  facts.separate->first_ms = 2500;
  facts.groups.kernels.per_second = 31'000;
  auto lines = process_lines(facts);
  EXPECT_EQ(level_of(lines, "processes-start"), Level::note);
  EXPECT_EQ(level_of(lines, "processes-mps-start"), Level::ok);
  EXPECT_THAT(the_line(lines, "groups-kernels").advice, HasSubstr("do not overlap"));
  facts.groups.kernels.per_second = 110'000;
  lines = process_lines(facts);
  EXPECT_THAT(the_line(lines, "processes-mps-kernels").advice, HasSubstr("Even with MPS"));
  facts.is_cuda = false;  // threads share the processors, so that nothing can be said
  facts.groups.kernels.per_second = 31'000;
  lines = process_lines(facts);
  EXPECT_EQ(lines.size(), 9U);
  EXPECT_EQ(level_of(lines, "groups-kernels"), Level::ok);
}

}  // namespace
}  // namespace msstream::doctor
