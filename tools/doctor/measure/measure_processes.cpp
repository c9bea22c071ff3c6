// SPDX-License-Identifier: Apache-2.0
#include "doctor/measure/measure_processes.hpp"

#include "cli/failure_text.hpp"
#include "cli/option_value.hpp"
#include "doctor/measure/child.hpp"
#include "doctor/measure/own_folder.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
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

/// Returns the operations a second of `processes` processes with `groups` groups each, in all.
double rate_of(ProcessPlan const& plan,
               int processes,
               int groups,
               ChildVariables const& variables) {
  auto const deadline = Clock::now() + std::chrono::seconds(60) + plan.length;
  std::vector<std::string> const command{plan.program,
                                         "worker",
                                         fmt::format("{}", plan.device),
                                         fmt::format("{}", groups),
                                         fmt::format("{}", plan.length.count())};
  std::vector<std::unique_ptr<Child>> workers;
  for (int i = 0; i < processes; ++i) {
    workers.push_back(std::make_unique<Child>(command, Child::Options{variables}));
  }
  for (auto const& worker : workers) {
    if (worker->read_line(deadline) != "ready") {
      throw std::runtime_error("a process did not get ready");
    }
  }
  for (auto const& worker : workers) {
    worker->write("g");
  }
  double rate = 0;
  for (auto const& worker : workers) {
    auto const line = worker->read_line(deadline);
    auto const number = cli::parse_option<double>(line, {0});
    if (!number || worker->wait(deadline) != 0) {
      throw std::runtime_error(fmt::format("a process failed: it wrote '{}'", line));
    }
    rate += *number;
  }
  return rate;
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
  facts.one_group = rate_of(plan, 1, 1, without);
  begin("groups of one process");
  facts.groups = rate_of(plan, 1, plan.processes, without);
  begin("processes");
  try {
    facts.separate = rate_of(plan, plan.processes, 1, without);
  } catch (...) {
    facts.without_separate_reason = cli::failure_text(std::current_exception());
  }
  if (!facts.is_cuda) {
    return facts;
  }
  if (plan.mps.is_running) {
    begin("processes with MPS");
    try {
      facts.with_mps = rate_of(plan, plan.processes, 1, {});
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
      facts.with_mps = rate_of(plan, plan.processes, 1, daemon.variables());
    } catch (std::exception const& error) {
      facts.without_mps_reason =
          fmt::format("MPS does not work here: {}. Containers may forbid it.", error.what());
    }
  }
  return facts;
}

}  // namespace msstream::doctor
