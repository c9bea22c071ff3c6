// SPDX-License-Identifier: Apache-2.0
#include "cli/outputs.hpp"

#include "base/temporary_folder.hpp"
#include "cli/options.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <functional>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace msstream::cli {

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::read_all;
using ::testing::StartsWith;
using testing::TemporaryFolder;

namespace fs = std::filesystem;

/// Returns the message with which check_outputs() refuses the output options, or an empty string.
std::string refusal_of(std::vector<OutputOption> const& outputs,
                       std::vector<InputOption> const& inputs = {}) {
  try {
    check_outputs(outputs, inputs);
  } catch (UsageError const& error) {
    return error.what();
  }
  return {};
}

/// Returns paths that all name the file `name` of the folder, also by symbolic links. The file need
/// not exist.
std::vector<std::string> spellings(TemporaryFolder const& folder, std::string const& name) {
  fs::create_directory_symlink(folder.path(), folder / "itself");
  fs::create_symlink(name, folder / "link");
  return {(folder / name).string(),
          (folder / "." / name).string(),
          (folder / "itself/.." / folder.path().filename() / name).string(),
          (folder / "itself" / name).string(),
          (folder / "link").string(),
          fs::relative(folder / name).string()};
}

TEST(CheckOutputs, an_output_is_no_other_output_however_it_is_spelled) {
  TemporaryFolder const folder;
  auto const file = (folder / "file").string();
  auto const all = spellings(folder, "file");
  for (bool const exists : {false, true}) {
    for (auto const& spelling : all) {
      EXPECT_EQ(refusal_of({{"--save", file}, {"--report", spelling}}),
                "--report " + spelling + ": --save writes that file")
          << exists;
    }
    folder.write("file", "old");
  }
  fs::create_hard_link(file, folder / "hard");
  EXPECT_THAT(refusal_of({{"--save", file}, {"--report", (folder / "hard").string()}}),
              EndsWith("hard: --save writes that file"));
  EXPECT_EQ(refusal_of({{"--save", file}, {"--report", (folder / "other").string()}}), "");
  EXPECT_EQ(refusal_of({{"--save", ""}, {"--report", ""}}), "");
}

TEST(CheckOutputs, an_output_is_no_input_however_it_is_spelled) {
  TemporaryFolder const folder;
  auto const file = folder.write("file", "data").string();
  fs::create_hard_link(file, folder / "hard");
  auto all = spellings(folder, "file");
  all.push_back((folder / "hard").string());
  for (auto const& spelling : all) {
    EXPECT_EQ(refusal_of({{"--report", spelling}}, {{"--model", ""}, {"--data", file}}),
              "--report " + spelling + ": --data reads that file");
  }
  EXPECT_EQ(read_all(file), "data");
}

TEST(CheckOutputs, an_input_may_be_replaced_by_the_output_that_is_meant_to) {
  TemporaryFolder const folder;
  auto const model = folder.write("model", "old").string();
  std::vector<InputOption> const inputs{{"--resume", model, "--save"}};
  EXPECT_EQ(refusal_of({{"--save", model, OutputFile::Kind::regular}}, inputs), "");
  EXPECT_THAT(refusal_of({{"--report", model}}, inputs), EndsWith(": --resume reads that file"));
}

TEST(CheckOutputs, devices_are_streamed_to_and_may_be_named_twice) {
  TemporaryFolder const folder;
  auto const fifo = (folder / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(
      refusal_of({{"--report", "/dev/null"}, {"--trace", "/dev/null"}}, {{"--data", "/dev/null"}}),
      "");
  EXPECT_EQ(refusal_of({{"--report", fifo}}), "");
  EXPECT_THAT(refusal_of({{"--report", fifo}, {"--trace", fifo}}), HasSubstr("writes that file"));
  EXPECT_EQ(refusal_of({{"--save", "/dev/null", OutputFile::Kind::regular}}),
            "--save /dev/null: is a device; expected a regular file");
  EXPECT_THAT(refusal_of({{"--save", fifo, OutputFile::Kind::regular}}),
              EndsWith("is a FIFO; expected a regular file"));
}

TEST(CheckOutputs, leaves_nothing) {
  TemporaryFolder const folder;
  EXPECT_EQ(refusal_of({{"--report", (folder / "report").string()}}), "");
  EXPECT_THAT(folder.names(), IsEmpty());
  EXPECT_EQ(refusal_of({{"--report", (folder / "absent/report").string()}}),
            fmt::format("--report {}: there is no folder {}: No such file or directory",
                        (folder / "absent/report").string(),
                        (folder / "absent").string()));
}

TEST(Outputs, those_that_fail_are_told_and_the_others_written) {
  TemporaryFolder const folder;
  attempt_output("--save", [] { throw std::bad_alloc(); });
  attempt_output("--trace", [] {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  write_output("--report", folder / "absent/report", "x");
  write_output("--svg", folder / "picture", "<svg/>");
  write_output("--json", "", "x");
  EXPECT_EQ(read_all(folder / "picture"), "<svg/>");
  EXPECT_THAT(take_output_failures(),
              ElementsAre(StartsWith("--save: this machine has not enough free memory"),
                          AllOf(StartsWith("--trace: cannot start a thread"), HasSubstr("ulimit")),
                          AllOf(StartsWith("--report: cannot write "), HasSubstr("no folder"))));
  EXPECT_THAT(take_output_failures(), IsEmpty());
}

TEST(Outputs, signals_that_end_a_program_leave_no_temporary_file) {
  for (int const signal : {SIGINT, SIGTERM, SIGHUP}) {
    TemporaryFolder const folder;
    auto const path = folder.write("model", "old");
    int opened[2];
    ASSERT_EQ(::pipe(opened), 0);
    pid_t const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (int const number : {SIGINT, SIGTERM, SIGHUP}) {
        ::signal(number, SIG_DFL);
      }
      char const* argv[] = {"program"};
      ::_exit(run_program(1, argv, [&](Arguments const&) {
        OutputFile file(path);
        file.write("new");
        (void)!::write(opened[1], "!", 1);
        while (true) {
          ::pause();
        }
      }));
    }
    ::close(opened[1]);
    char byte = 0;
    EXPECT_EQ(::read(opened[0], &byte, 1), 1);
    ::close(opened[0]);
    EXPECT_EQ(folder.names().size(), 2U);
    ::kill(child, signal);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    EXPECT_EQ(read_all(path), "old");
    EXPECT_THAT(folder.names(), ElementsAre("model"));
  }
}

/// Returns the exit status of run_program() with `body` when standard output goes to `file`.
int status_with_stdout(char const* file, std::function<void()> const& body) {
  std::cout.flush();
  std::fflush(stdout);
  int const before = ::dup(STDOUT_FILENO);
  int const out = ::open(file, O_WRONLY);
  ::dup2(out, STDOUT_FILENO);
  ::close(out);
  char const* argv[] = {"program"};
  int const status = run_program(1, argv, [&](Arguments const&) { body(); });
  std::cout.clear();
  std::clearerr(stdout);
  ::dup2(before, STDOUT_FILENO);
  ::close(before);
  return status;
}

TEST(Outputs, a_standard_output_that_fails_is_status_one) {
  for (auto const& body : {std::function<void()>([] { print("text\n"); }),
                           std::function<void()>([] { std::cout << "text\n"; }),
                           std::function<void()>([] { std::printf("text\n"); }),
                           std::function<void()>([] { throw HelpRequested("usage\n"); })}) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(status_with_stdout("/dev/full", body), 1);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "program: error: cannot write to the standard output: No space left on device\n");
    EXPECT_EQ(status_with_stdout("/dev/null", body), 0);
  }
  EXPECT_EQ(status_with_stdout("/dev/full", [] {}), 0) << "nothing was written to it";
}

}  // namespace
}  // namespace msstream::cli
