// SPDX-License-Identifier: Apache-2.0
// Runs msstream-doctor: its options, its outputs and its exit statuses.
#include "base/json_schema.hpp"
#include "base/run_program.hpp"
#include "base/temporary_folder.hpp"
#include "doctor/facts/device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <pty.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#ifndef MSSTREAM_DOCTOR_TOOL
#define MSSTREAM_DOCTOR_TOOL ""
#define MSSTREAM_HANGING_NVML_FOLDER ""
#endif

namespace msstream::doctor {
namespace {

using msstream::testing::Ended;
using msstream::testing::Words;
using msstream::testing::operator+;
using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class DoctorTool : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string_view(MSSTREAM_DOCTOR_TOOL).empty()) {
      GTEST_SKIP() << "this build has no msstream-doctor";
    }
  }
  [[nodiscard]] static Ended run(Words const& arguments, Words const& environment = {}) {
    return msstream::testing::run_program(
        MSSTREAM_DOCTOR_TOOL, arguments, {.environment = environment});
  }
  /// Returns what the program writes to a terminal, which is its standard output and error.
  [[nodiscard]] static std::string run_on_terminal(Words const& arguments) {
    auto words = Words{MSSTREAM_DOCTOR_TOOL} + arguments;
    auto const argv = msstream::testing::detail::pointers_to(words);
    int terminal = -1;
    pid_t const child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    if (child == 0) {
      ::setenv("TERM", "xterm", 1);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    std::string shown;
    std::array<char, 512> block{};
    for (ssize_t count = 0; (count = ::read(terminal, block.data(), block.size())) > 0;) {
      shown.append(block.data(), static_cast<std::size_t>(count));
    }
    ::close(terminal);
    ::waitpid(child, nullptr, 0);
    return shown;
  }
  /// Returns what a report says is wrong only on this computer: bad lines that no option causes.
  [[nodiscard]] static int status_of(json const& report) {
    return report["summary"]["bad"].get<int>() > 0 ? 1 : 0;
  }
};

/// Returns the headings of a report as the terminal shows it, and below each the things of its
/// lines: all but levels, values and advice. Leaves out the lines about toolkits, of which a
/// computer has any number.
std::vector<std::string> shape_of(std::string const& text) {
  std::vector<std::string> shape;
  std::istringstream lines(text);
  std::regex const entry("^  (?:ok|note|slow|bad) +(.*?)(?:  .*)?$");
  bool is_left_out = false;
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_match(line, found, entry)) {
      if (!is_left_out) {
        shape.push_back("  " + found[1].str());
      }
    } else if (!line.empty() && line.front() != ' ' && line.find(',') == std::string::npos) {
      shape.push_back(line);
      is_left_out = line == "Toolkit for builds";
    }
  }
  return shape;
}

TEST_F(DoctorTool, a_report_obeys_the_schema_and_has_its_status) {
  auto const ended = run({"--json", "-"});
  auto const report = json::parse(ended.out);
  auto const schema =
      json::parse(msstream::testing::read_all(MSSTREAM_SOURCE_FOLDER "/docs/doctor.schema.json"));
  EXPECT_THAT(msstream::testing::schema_mistakes(report, schema), IsEmpty());
  EXPECT_EQ(ended.status, status_of(report)) << ended.err;
  EXPECT_THAT(ended.err, IsEmpty());
  std::set<std::string> ids;
  for (auto const& line : report["lines"]) {
    ids.insert(line["id"].get<std::string>());
    EXPECT_NE(line["value"], "") << line;
  }
  for (auto const* const id : {"processors",
                               "instruction-set",
                               "numa",
                               "memory",
                               "locked-memory",
                               "open-files",
                               "shared-memory",
                               "huge-pages",
                               "msstream-variables",
                               "build",
                               "driver",
                               "devices",
                               "toolkit",
                               "nvtx",
                               "cupti",
                               "nccl",
                               "mpi",
                               "module-loading",
                               "threads-at-once",
                               "thread-wake-up",
                               "memory-copy",
                               "host-issue"}) {
    EXPECT_THAT(ids, Contains(id));
  }
}

TEST_F(DoctorTool, a_build_for_cuda_starts_without_libraries_of_the_toolkit) {
#if MSSTREAM_CUDA
  // The loader lists what it would load.
  auto const needed = run({}, {"LD_TRACE_LOADED_OBJECTS=1"}).out;
  EXPECT_THAT(needed, HasSubstr("libc.so"));
  if (needed.find("libmsstream.so") != std::string::npos) {
    GTEST_SKIP() << "the shared library of the build needs them";
  }
  EXPECT_THAT(needed, Not(HasSubstr("libcudart")));
  EXPECT_THAT(needed, Not(HasSubstr("libcublas")));
  EXPECT_THAT(needed, Not(HasSubstr("libnccl")));
#else
  GTEST_SKIP() << "this build needs no CUDA";
#endif
}

TEST_F(DoctorTool, a_quick_report_measures_nothing) {
  auto const ended = run({"--quick"});
  EXPECT_THAT(ended.out, HasSubstr("\nHost\n"));
  EXPECT_THAT(ended.out, Not(HasSubstr("Measured")));
  EXPECT_THAT(ended.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(ended.err, IsEmpty());
}

TEST_F(DoctorTool, a_file_gets_what_the_text_says) {
  msstream::testing::TemporaryFolder const folder;
  auto const file = (folder / "report.json").string();
  auto const ended = run({"--quick", "--json", file});
  EXPECT_THAT(ended.out, HasSubstr(" bad\n"));
  EXPECT_EQ(json::parse(msstream::testing::read_all(file))["quick"], true);
}

TEST_F(DoctorTool, refused_values_fail_and_are_all_named) {
  auto const ended =
      run({"--quick"}, {"MSSTREAM_STREAM_GROUPS=0", "MSSTREAM_LAUNCH_THREADS=sometimes"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.out, HasSubstr("bad   MSSTREAM_STREAM_GROUPS"));
  EXPECT_THAT(ended.out, HasSubstr("an integer from 1 to 256, found '0'"));
  EXPECT_THAT(ended.out, HasSubstr("bad   MSSTREAM_LAUNCH_THREADS"));
}

TEST_F(DoctorTool, fail_on_chooses_the_level) {
  Words const slow{"CUDA_LAUNCH_BLOCKING=1"};
  auto const usual = run({"--quick", "--json", "-"}, slow);
  EXPECT_EQ(usual.status, status_of(json::parse(usual.out)));
  EXPECT_EQ(run({"--quick", "--fail-on", "slow"}, slow).status, 1);
}

TEST_F(DoctorTool, mistakes_in_arguments_have_status_2) {
  for (Words const& wrong : {Words{"--device", "-1"},
                             Words{"--device", "1023"},
                             Words{"--fail-on", "never"},
                             Words{"--processes", "1"},
                             Words{"--start-mps"},
                             Words{"--quik"},
                             Words{"--list", "--json", "-"},
                             Words{"--list", "--json", "a.json"},
                             Words{"--list", "--processes", "2"},
                             Words{"--list", "--quick"},
                             Words{"--list", "--device", "1"},
                             Words{"--quick", "--processes", "2"},
                             Words{"--time-limit", "-1"},
                             Words{"--json", "/no/such/folder/a.json"},
                             Words{"worker", "0"}}) {
    auto const ended = run(wrong);
    EXPECT_EQ(ended.status, 2) << wrong.front() << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("error: "));
    EXPECT_THAT(ended.out, IsEmpty());
  }
  EXPECT_THAT(run({"--list", "--json", "-"}).err,
              HasSubstr("--list: expected no --json beside it"));
  EXPECT_THAT(run({"--quik"}).err, HasSubstr("did you mean --quick?"));
}

TEST_F(DoctorTool, mps_is_refused_where_processes_use_none) {
  // Also on a computer with a GPU, the process has none.
  auto const ended = run({"--processes", "2", "--start-mps"}, {"CUDA_VISIBLE_DEVICES=-1"});
  EXPECT_EQ(ended.status, 2) << ended.out;
  EXPECT_THAT(ended.err, HasSubstr("error: --start-mps: "));
  EXPECT_THAT(ended.err, HasSubstr("use no MPS"));
  EXPECT_THAT(ended.out, IsEmpty());
}

TEST_F(DoctorTool, help_version_and_list_have_status_0) {
  auto const help = run({"--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.out, HasSubstr("Examples:"));
  EXPECT_THAT(run({"--version"}).out, HasSubstr("msstream-doctor "));
  // A variable of a build, such as this one, ends no run.
  for (auto const* const version : {"MSSTREAM_VERSION=0.1.0", "MSSTREAM_VERSION=1"}) {
    auto const ended = run({"--quick", "--fail-on", "bad"}, {version, "MSSTREAM_LIST=1"});
    EXPECT_NE(ended.status, 2) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("\nHost\n"));
    EXPECT_THAT(ended.out, HasSubstr("note  MSSTREAM_VERSION"));
  }
  auto const list = run({"--list"});
  EXPECT_EQ(list.status, 0);
  EXPECT_THAT(list.out, Not(IsEmpty()));
}

TEST_F(DoctorTool, a_list_on_a_terminal_has_a_line_of_its_own) {
  auto const shown = run_on_terminal({"--list"});
  std::string const progress = "looking at: the driver";
  auto const at = shown.find(progress);
  ASSERT_NE(at, std::string::npos) << shown;
  EXPECT_EQ(shown.substr(at + progress.size(), 5), "\r\x1b[2K") << shown;
}

TEST_F(DoctorTool, threads_that_cannot_start_are_bad_lines) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space that the test limits";
#endif
  // Each stack of a thread takes 4 GiB of the address space, of which there are 2 GiB.
  auto const limited = [](Words const& arguments) {
    return msstream::testing::run_program(
        "/bin/sh",
        Words{"-c",
              "ulimit -s 4194304 && ulimit -v 2097152 && exec \"$0\" \"$@\"",
              MSSTREAM_DOCTOR_TOOL} +
            arguments);
  };
  auto const ended = limited({"--json", "-"});
  if (ended.out.empty() && ended.err.find("ulimit") != std::string::npos) {
    GTEST_SKIP() << "the stack has a hard limit";
  }
  EXPECT_EQ(ended.status, 1) << ended.err;
  std::map<std::string, std::string> levels;
  auto const report = json::parse(ended.out);
  for (auto const& line : report["lines"]) {
    levels[line["id"]] = line["level"];
  }
  for (auto const* const id : {"time-limit", "threads-at-once", "thread-wake-up", "host-issue"}) {
    EXPECT_EQ(levels[id], "bad") << id;
  }
  for (auto const* const id : {"address-space", "driver", "memory-copy", "mpi"}) {
    EXPECT_EQ(levels.count(id), 1U) << id;
  }
}

TEST_F(DoctorTool, a_driver_that_does_not_answer_is_given_up) {
  auto const ended = msstream::testing::run_program(
      "/bin/sh",
      {"-c",
       "LD_LIBRARY_PATH=" MSSTREAM_HANGING_NVML_FOLDER ":$LD_LIBRARY_PATH exec \"$0\" \"$@\"",
       MSSTREAM_DOCTOR_TOOL,
       "--time-limit",
       "1",
       "--json",
       "-"});
  EXPECT_EQ(ended.status, 1) << ended.err;
  auto const report = json::parse(ended.out);
  auto const& last = report["lines"].back();
  EXPECT_EQ(last["id"], "time-limit");
  EXPECT_EQ(last["section"], "driver");
  EXPECT_EQ(last["value"], "the driver");
  EXPECT_EQ(report["lines"][0]["section"], "host");  // what was found before
}

TEST_F(DoctorTool, processes_are_measured_beside_groups) {
  auto const ended = run({"--processes", "2", "--json", "-"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  auto const report = json::parse(ended.out);
  std::map<std::string, double> numbers;
  for (auto const& line : report["lines"]) {
    numbers[line["id"]] = line.value("number", 0.0);
  }
  for (auto const* const set : {"one-group", "groups", "processes"}) {
    for (auto const* const part : {"", "-kernels", "-start"}) {
      EXPECT_GT(numbers[std::string(set) + part], 0) << set << part;
    }
  }
}

TEST_F(DoctorTool, the_page_shows_the_lines_of_a_build_for_the_host) {
  auto const page = msstream::testing::read_all(MSSTREAM_SOURCE_FOLDER "/docs/doctor.md");
  std::string_view const opening = "```text msstream-doctor\n";
  auto const begin = page.find(opening);
  ASSERT_NE(begin, std::string::npos);
  auto const from = begin + opening.size();
  auto const block = page.substr(from, page.find("```", from) - from);
  auto const ended = run({});
  if (!ended.out.starts_with(block.substr(0, block.find('\n'))) ||
      ended.out.find("\nDevices\n") != std::string::npos) {
    GTEST_SKIP() << "the page shows a build for the host, without a GPU";
  }
  EXPECT_GT(shape_of(block).size(), 25U);
  EXPECT_EQ(shape_of(block), shape_of(ended.out));
}

TEST(DoctorMps, a_daemon_that_has_ended_is_not_running) {
  msstream::testing::TemporaryFolder const folder;
  auto const pipes = folder / "tmp/nvidia-mps";
  EXPECT_FALSE(read_mps(folder.path()).is_running);
  std::filesystem::create_directories(pipes);
  std::ofstream(pipes / "control") << "";
  std::ofstream(pipes / "nvidia-cuda-mps-control.pid") << ::getpid();
  EXPECT_TRUE(read_mps(folder.path()).is_running);
  std::ofstream(pipes / "nvidia-cuda-mps-control.pid") << 2'000'000'000;  // beyond all processes
  EXPECT_FALSE(read_mps(folder.path()).is_running);
}

}  // namespace
}  // namespace msstream::doctor
