// SPDX-License-Identifier: Apache-2.0
#include "run.hpp"

#include "overlap/record/settings.hpp"
#include "run_files.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

namespace msstream::overlap {

namespace fs = std::filesystem;

namespace {

constexpr char kInjection[] = "CUDA_INJECTION64_PATH";
constexpr char kNvtxInjection[] = "NVTX_INJECTION64_PATH";
constexpr char kPreload[] = "LD_PRELOAD";
#ifndef MSSTREAM_RECORDER_FROM_BIN
#define MSSTREAM_RECORDER_FROM_BIN "../lib/msstream"
#endif

constexpr char kRecorderName[] = "libmsstream_overlap_record.so";

/// Signals that are passed on. The terminal sends its own to the program as well.
constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

std::string_view profiler_of(std::string_view library) {
  if (library.find("ToolsInjection") != std::string_view::npos) {
    return "Nsight Systems";
  }
  if (library.find("cuda-injection") != std::string_view::npos ||
      library.find("TreeLauncher") != std::string_view::npos) {
    return "Nsight Compute";
  }
  if (library.find("sanitizer") != std::string_view::npos) {
    return "compute-sanitizer";
  }
  return "another tool";
}

fs::path find_recorder(fs::path const& chosen) {
  if (!chosen.empty()) {
    if (!fs::exists(chosen)) {
      throw std::runtime_error(fmt::format("there is no {}", chosen.string()));
    }
    return fs::absolute(chosen);
  }
  std::error_code error;
  fs::path const here = fs::read_symlink("/proc/self/exe", error).parent_path();
  fs::path const installed = here / MSSTREAM_RECORDER_FROM_BIN;
  for (fs::path const& folder : {here, installed}) {
    if (fs::exists(folder / kRecorderName)) {
      return fs::canonical(folder / kRecorderName);
    }
  }
  throw std::runtime_error(
      fmt::format("{} is neither in {} nor in {}: recording needs a build with CUDA "
                  "(MSSTREAM_CUDA=ON) or with the headers of CUPTI",
                  kRecorderName,
                  here.string(),
                  installed.lexically_normal().string()));
}

void check(RunOptions const& options) {
  if (options.command.empty() || options.command.front().empty()) {
    throw std::invalid_argument(
        "run: expected a program, as in: msstream-overlap run -- python train.py");
  }
  if (options.skip_ms < 0 || options.duration_ms < 0) {
    throw std::invalid_argument("run: expected times of at least 0");
  }
  if (options.memory_mib < 1 || options.memory_mib > 65'536) {
    throw std::invalid_argument(
        fmt::format("run: expected 1 to 65536 MiB of memory, not {}", options.memory_mib));
  }
  if (char const* const other = std::getenv(kInjection); other != nullptr && *other != 0) {
    throw std::runtime_error(
        fmt::format("{} already records CUDA programs started here: {} is {}; only one can",
                    profiler_of(other),
                    kInjection,
                    other));
  }
}

std::vector<std::pair<std::string, std::string>> variables_of(RunOptions const& options,
                                                              fs::path const& recorder,
                                                              RunFiles const& files) {
  namespace variable = record::variable;
  std::vector<std::pair<std::string, std::string>> variables = {
      {kInjection, recorder.string()},
      {variable::kFolder, files.folder().string()},
      {variable::kPlain, files.plain() ? "1" : "0"},
      {variable::kSkip, std::to_string(options.skip_ms)},
      {variable::kDuration, std::to_string(options.duration_ms)},
      {variable::kRange, options.range},
      {variable::kGraphNodes, options.graph_nodes ? "1" : "0"},
      {variable::kMemory, std::to_string(options.memory_mib)},
      {variable::kCupti, options.cupti.empty() ? "" : fs::absolute(options.cupti).string()}};
  if (std::getenv(kNvtxInjection) == nullptr) {
    variables.emplace_back(kNvtxInjection, recorder.string());
  }
  if (options.preload) {
    char const* const others = std::getenv(kPreload);
    // Behind the others: a sanitizer's library must come first.
    variables.emplace_back(kPreload,
                           others == nullptr || *others == 0
                               ? recorder.string()
                               : fmt::format("{}:{}", others, recorder.string()));
  }
  return variables;
}

/// Starts the program; returns its process number, or the errno of the failure.
std::pair<pid_t, int> start(std::vector<std::string> const& command,
                            std::vector<std::pair<std::string, std::string>> const& variables,
                            sigset_t const& signals_before,
                            sighandler_t child_handler_before) {
  std::array<int, 2> channel{};
  if (::pipe2(channel.data(), O_CLOEXEC) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe");
  }
  std::vector<char*> arguments;
  for (std::string const& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  pid_t const child = ::fork();
  if (child == 0) {
    for (auto const& [name, value] : variables) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
    ::signal(SIGCHLD, child_handler_before);
    ::sigprocmask(SIG_SETMASK, &signals_before, nullptr);
    ::execvp(arguments.front(), arguments.data());
    int const error = errno;
    [[maybe_unused]] auto const written = ::write(channel[1], &error, sizeof error);
    ::_exit(127);
  }
  int const fork_error = errno;
  ::close(channel[1]);
  int error = child < 0 ? fork_error : 0;
  if (child > 0) {
    ssize_t count = 0;
    do {
      count = ::read(channel[0], &error, sizeof error);
    } while (count < 0 && errno == EINTR);
    error = count == sizeof error ? error : 0;
  }
  ::close(channel[0]);
  return {child, error};
}

/// Waits for the program and passes signals on; returns its wait status. SIGCHLD must not be
/// ignored: the system would then forget how the program ended.
int wait_for(pid_t child, sigset_t const& watched) {
  for (;;) {
    int status = 0;
    pid_t const ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) {
      return status;
    }
    siginfo_t info{};
    int const signal = ::sigwaitinfo(&watched, &info);
    // A signal of the terminal reached the program too; one that a process sent did not.
    bool const sent_by_process = info.si_code <= 0;
    if (signal > 0 && signal != SIGCHLD && sent_by_process) {
      ::kill(child, signal);
    }
  }
}

}  // namespace

int run(RunOptions const& options) {
  check(options);
  fs::path const recorder = find_recorder(options.recorder);
  std::string const& program = options.command.front();
  RunFiles files(options.output, program, options.force);

  sigset_t watched;
  sigset_t before;
  sigemptyset(&watched);
  sigaddset(&watched, SIGCHLD);
  for (int const signal : kPassedOn) {
    sigaddset(&watched, signal);
  }
  ::sigprocmask(SIG_BLOCK, &watched, &before);
  // The parent process may have ignored it, which this one inherits.
  auto* const handler_before = ::signal(SIGCHLD, SIG_DFL);
  auto const [child, error] =
      start(options.command, variables_of(options, recorder, files), before, handler_before);
  int const status = child > 0 ? wait_for(child, watched) : 0;

  std::string const reason = WIFSIGNALED(status)
                                 ? fmt::format("signal {} ended the program", WTERMSIG(status))
                                 : std::string("the process ended before it completed the file");
  RunFiles::Outcome const outcome = files.collect(reason);
  ::signal(SIGCHLD, handler_before);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  auto const say = [](std::string const& message) {
    fmt::print(stderr, "msstream-overlap: {}\n", message);
  };
  if (error != 0) {
    say(fmt::format("cannot start {}: {}", program, std::generic_category().message(error)));
    return error == ENOENT ? 127 : 126;
  }
  for (std::string const& message : outcome.messages) {
    say(message);
  }
  if (!outcome.cuda_was_initialised) {
    say(fmt::format("{} did not initialise CUDA: nothing was recorded", program));
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace msstream::overlap
