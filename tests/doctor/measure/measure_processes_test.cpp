// SPDX-License-Identifier: Apache-2.0
// Measures processes with a script in place of the program, and another one in place of MPS.
#include "doctor/measure/measure_processes.hpp"

#include "base/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace msstream::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

TEST_F(DoctorProcesses, a_process_that_fails_is_an_error) {
  plan_.program = write_script("broken.sh", "exit 1\n");
  EXPECT_THROW(static_cast<void>(measured()), std::runtime_error);
  plan_.program = write_script("lost.sh", "echo ready; head -c 1 >/dev/null; echo many\n");
  EXPECT_THROW(static_cast<void>(measured()), std::runtime_error);
}

}  // namespace
}  // namespace msstream::doctor
