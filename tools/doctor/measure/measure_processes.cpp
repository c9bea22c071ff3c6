// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/measure_processes.hpp"

#include "cli/failure_text.hpp"
#include "cli/option_value.hpp"
#include "doctor/facts/system_files.hpp"
#include "doctor/measure/child.hpp"
#include "doctor/measure/median.hpp"
#include "doctor/measure/own_folder.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace msstream::doctor {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;
using ChildVariables = std::map<std::string, std::string>;

constexpr char const* kPipeFolder = "CUDA_MPS_PIPE_DIRECTORY";
constexpr char const* kLogFolder = "CUDA_MPS_LOG_DIRECTORY";
constexpr char const* kControl = "nvidia-cuda-mps-control";

/// A daemon of MPS of this process alone, with a folder of its own. A shell ends it and removes the
/// folder when its standard input ends, which happens also when this process is killed.
class MpsDaemon {
 public:
  MpsDaemon() : folder_(make_own_folder()) {
    variables_ = {{kPipeFolder, (folder_ / "pipe").string()},
                  {kLogFolder, (folder_ / "log").string()}};
    try {
      start();
    } catch (...) {
      shell_.reset();
      remove_folder();
      throw;
    }
  }
  MpsDaemon(MpsDaemon const&) = delete;
  MpsDaemon& operator=(MpsDaemon const&) = delete;
  ~MpsDaemon() {
    static_cast<void>(shell_->wait(Clock::now() + kLimit));
    remove_folder();
  }
  [[nodiscard]] ChildVariables const& variables() const { return variables_; }

 private:
  static constexpr std::chrono::seconds kLimit{20};

  void start() {
    for (auto const& [name, path] : variables_) {
      fs::create_directories(path);
    }
    constexpr char const* kScript =
        "nvidia-cuda-mps-control -d >/dev/null 2>&1 || "
        "{ echo failed; exit 1; }; echo started; cat >/dev/null; "
        "echo quit | nvidia-cuda-mps-control >/dev/null 2>&1; rm -rf -- \"$0\"";
    shell_ = std::make_unique<Child>(
        std::vector<std::string>{"/bin/sh", "-c", kScript, folder_.string()},
        Child::Options{variables_, true});
    if (shell_->read_line(Clock::now() + kLimit) != "started") {
      throw std::runtime_error(fmt::format("{} -d does not start", kControl));
    }
  }
  void remove_folder() const {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  fs::path folder_;
  ChildVariables variables_;
  std::unique_ptr<Child> shell_;
};

/// Waits until all processes are warm. Returns how many ms the slowest one took for its first
/// operation.
double wait_until_ready(std::vector<std::unique_ptr<Child>> const& workers,
                        Clock::time_point deadline) {
  double first_ms = 0;
  for (auto const& worker : workers) {
    auto const line = worker->read_line(deadline);
    auto const words = words_of(line);
    auto const ms = words.size() == 2 && words[0] == "ready"
                        ? cli::parse_option<double>(words[1], {0})
                        : std::nullopt;
    if (!ms) {
      throw std::runtime_error(fmt::format("a process did not get ready: it wrote '{}'", line));
    }
    first_ms = std::max(first_ms, *ms);
  }
  return first_ms;
}

/// Begins a load and waits for its end. The rate is that of all processes together; the median is
/// that of the processes' medians, and p99 that of the slowest process.
LoadRate rate_of_load(std::vector<std::unique_ptr<Child>> const& workers,
                      Clock::time_point deadline) {
  for (auto const& worker : workers) {
    worker->write("g");
  }
  LoadRate all;
  std::vector<double> medians;
  for (auto const& worker : workers) {
    auto const line = worker->read_line(deadline);
    std::vector<double> numbers;
    for (auto const& word : words_of(line)) {
      if (auto const number = cli::parse_option<double>(word, {0})) {
        numbers.push_back(*number);
      }
    }
    if (numbers.size() != 3) {
      throw std::runtime_error(fmt::format("a process failed: it wrote '{}'", line));
    }
    all.per_second += numbers[0];
    medians.push_back(numbers[1]);
    all.p99_us = std::max(all.p99_us, numbers[2]);
  }
  all.p50_us = median_of(std::move(medians));
  return all;
}

/// Loads the device by `processes` processes with `groups` groups each.
ProcessSet measure_set(ProcessPlan const& plan,
                       int processes,
                       int groups,
                       ChildVariables const& variables) {
  auto const deadline = Clock::now() + std::chrono::seconds(60) + 2 * plan.length;
  auto const free_before = plan.free_bytes();
  std::vector<std::unique_ptr<Child>> workers;
  for (int i = 0; i < processes; ++i) {
    std::chrono::nanoseconds const now = Clock::now().time_since_epoch();
    workers.push_back(
        std::make_unique<Child>(std::vector<std::string>{plan.program,
                                                         "worker",
                                                         fmt::format("{}", plan.device),
                                                         fmt::format("{}", groups),
                                                         fmt::format("{}", plan.length.count()),
                                                         fmt::format("{}", now.count())},
                                Child::Options{variables}));
  }
  ProcessSet set;
  set.first_ms = wait_until_ready(workers, deadline);
  auto const free_now = plan.free_bytes();
  if (free_before && free_now) {
    set.bytes = std::max(0.0, *free_before - *free_now);
  }
  set.launches = rate_of_load(workers, deadline);
  static_cast<void>(wait_until_ready(workers, deadline));
  set.kernels = rate_of_load(workers, deadline);
  for (auto const& worker : workers) {
    if (int const status = worker->wait(deadline); status != 0) {
      throw std::runtime_error(fmt::format("a process ended with status {}", status));
    }
  }
  return set;
}

bool is_on_path(std::string_view program) {
  auto const* const path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "" : path;
  while (!folders.empty()) {
    auto const colon = folders.find(':');
    std::error_code ignored;
    if (fs::exists(fs::path(folders.substr(0, colon)) / program, ignored)) {
      return true;
    }
    folders.remove_prefix(colon == std::string_view::npos ? folders.size() : colon + 1);
  }
  return false;
}

}  // namespace

ProcessFacts measure_processes(ProcessPlan const& plan,
                               std::function<void(std::string_view)> const& begin) {
  ProcessFacts facts;
  facts.processes = plan.processes;
  facts.is_cuda = plan.device >= 0;
  // CUDA looks for a daemon in the folder that the variable names, and finds none in an empty one.
  std::optional<OwnFolder> empty;
  ChildVariables without;
  if (facts.is_cuda) {
    empty.emplace();
    without = {{kPipeFolder, empty->path().string()}};
  }
  begin("one group");
  facts.one_group = measure_set(plan, 1, 1, without);
  begin("groups of one process");
  facts.groups = measure_set(plan, 1, plan.processes, without);
  begin("processes");
  try {
    facts.separate = measure_set(plan, plan.processes, 1, without);
  } catch (...) {
    facts.without_separate_reason = cli::failure_text(std::current_exception());
  }
  if (!facts.is_cuda) {
    return facts;
  }
  if (plan.mps.is_running) {
    begin("processes with MPS");
    try {
      facts.with_mps = measure_set(plan, plan.processes, 1, {});
    } catch (std::exception const& error) {
      facts.without_mps_reason =
          fmt::format("A daemon runs, but processes fail with it: {}.", error.what());
    }
  } else if (!is_on_path(kControl)) {
    facts.without_mps_reason = fmt::format(
        "{} is not on the PATH. It comes with the driver, but containers often lack it.", kControl);
  } else if (!plan.start_mps) {
    facts.without_mps_reason =
        "No daemon runs. --start-mps starts one for the measurement, and "
        "ends it again.";
  } else {
    begin("processes with MPS");
    try {
      MpsDaemon const daemon;
      facts.with_mps = measure_set(plan, plan.processes, 1, daemon.variables());
    } catch (std::exception const& error) {
      facts.without_mps_reason =
          fmt::format("MPS does not work here: {}. Containers may forbid it.", error.what());
    }
  }
  return facts;
}

}  // namespace msstream::doctor
