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
    plan_.program = write_script("worker.sh",
                                 "echo ready; head -c 1 >/dev/null\n"
                                 "case $CUDA_MPS_PIPE_DIRECTORY in */pipe) echo $(($3 + 1000));; "
                                 "*) echo $3;; esac\n");
    plan_.processes = 3;
    plan_.device = 0;
  }
  void TearDown() override { ::setenv("PATH", path_.c_str(), 1); }

  [[nodiscard]] std::string write_script(std::string_view name, std::string const& text) const {
    auto const file = folder_.write(name, "#!/bin/sh\n" + text);
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file.string();
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
  EXPECT_EQ(facts.one_group, 1);
  EXPECT_EQ(facts.groups, 3);    // one process with three groups
  EXPECT_EQ(facts.separate, 3);  // three processes with one group each
  EXPECT_FALSE(facts.with_mps.has_value());
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
  EXPECT_EQ(measured().with_mps, 3 * 1001.0);
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
  plan_.program =
      write_script("exclusive.sh",
                   "mkdir \"${0%/*}/held\" || exit 1\n"
                   "echo ready; head -c 1 >/dev/null; rmdir \"${0%/*}/held\"; echo $3\n");
  auto const facts = measured();
  EXPECT_EQ(facts.groups, 3);
  EXPECT_FALSE(facts.separate.has_value());
  auto const lines = process_lines(facts);
  EXPECT_EQ(the_line(lines, "groups").quantity->number, 3);
  auto const line = the_line(lines, "processes");
  EXPECT_EQ(line.level, Level::bad);
  EXPECT_THAT(line.advice, HasSubstr("exclusive compute mode"));
}

TEST_F(DoctorProcesses, a_failure_with_a_daemon_that_runs_is_a_reason) {
  plan_.program = write_script("no_mps.sh",
                               "[ \"$CUDA_MPS_PIPE_DIRECTORY\" ] || exit 1\n"
                               "echo ready; head -c 1 >/dev/null; echo $3\n");
  plan_.mps.is_running = true;
  auto const facts = measured();
  EXPECT_EQ(facts.separate, 3);
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
  plan_.program = write_script("lost.sh", "echo ready; head -c 1 >/dev/null; echo many\n");
  EXPECT_THROW(static_cast<void>(measured()), std::runtime_error);
}

}  // namespace
}  // namespace msstream::doctor
