// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor_command.hpp"

#include "cli/outputs.hpp"
#include "doctor/examination.hpp"
#include "doctor/facts/environment.hpp"
#include "doctor/facts/nvml.hpp"
#include "doctor/measure/measure_processes.hpp"
#include "doctor/report.hpp"
#include "doctor/report_writer.hpp"

#include <fmt/core.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace msstream::doctor {
namespace {

/// The longest time that a check may take: the start of a driver with many GPUs takes some ten
/// seconds without persistence mode, and --processes starts programs one after the other.
constexpr std::chrono::seconds kLimitOfCheck{60};
constexpr std::chrono::seconds kLimitOfProcesses{300};

struct Chosen {
  std::string json;
  bool is_quick = false;
  int device = 0;
  bool lists = false;
  Level fail_on = Level::bad;
  int processes = 0;
  bool starts_mps = false;
  int time_limit_s = 0;
  bool shows_version = false;
};

/// Throws UsageError for options of which one would be ignored.
void refuse_contradictions(Chosen const& chosen) {
  auto const refuse = [](bool is_wrong, char const* option, char const* other, char const* why) {
    if (is_wrong) {
      throw cli::UsageError(fmt::format("{}: expected no {} beside it{}", option, other, why));
    }
  };
  refuse(chosen.lists && !chosen.json.empty(), "--list", "--json", ", since a list is text");
  refuse(chosen.lists && chosen.processes > 0, "--list", "--processes", "");
  refuse(chosen.lists && chosen.is_quick, "--list", "--quick", ", since a list measures nothing");
  refuse(chosen.lists && chosen.device != 0, "--list", "--device", ", since all GPUs are listed");
  refuse(chosen.is_quick && chosen.processes > 0, "--quick", "--processes", ", since it measures");
}

Chosen parse(cli::Arguments const& arguments) {
  Chosen chosen;
  cli::Options options(
      "Says what this computer can do for msstream, and what to change: driver, toolkits, devices, "
      "limits, variables, libraries, and measured copies, launches and overlap.\n\n"
      "Each line begins with its level: ok; note (works, worth knowing); slow (works, and costs "
      "time that a change could save); bad (does not work). Below it is what to do. "
      "Changes no setting, and takes at most 512 MiB of a GPU (beside a context) and some "
      "seconds.\n\n"
      "Exit status: 0; 1 if a line has the level of --fail-on or a worse one, or an output cannot "
      "be written; 2 for mistakes in the arguments.",
      {{"msstream-doctor", "look at everything, and measure GPU 0"},
       {"msstream-doctor --quick", "measure nothing: under a second"},
       {"msstream-doctor --list && msstream-doctor --device 1", "choose another GPU"},
       {"msstream-doctor --json report.json", "keep the results, such as for a bug report"},
       {"msstream-doctor --json - | jq '.lines[] | select(.level == \"slow\")'",
        "what costs time, for a script"},
       {"msstream-doctor --quick --fail-on slow", "a check before a job starts"},
       {"msstream-doctor --processes 4",
        "is it better to start 4 processes, or 4 groups in one?"}});
  options.group("What to look at");
  options.add_flag("--quick", chosen.is_quick, "measure nothing");
  options.add<int>("--device", chosen.device, "the number of the GPU to measure", {0, 1023});
  options.add_flag("--list", chosen.lists, "list the GPUs, and end");
  options.only_on_command_line("--list");
  options.add<int>("--time-limit",
                   chosen.time_limit_s,
                   "the longest time in s that a check may take, before the program ends with what "
                   "it has found; 0 for 60, or for 300 with --processes",
                   {0, 86'400});
  options.group("Several processes on one GPU");
  options.add<int>("--processes",
                   chosen.processes,
                   "measure this many processes beside as many groups of one process, and nothing "
                   "else: rates, times of kernels, start, memory; 0 for not",
                   {0, 64});
  options.add_flag("--start-mps",
                   chosen.starts_mps,
                   "with --processes: start a daemon of CUDA's Multi-Process Service for the "
                   "measurement, if none runs, and end it");
  options.group("Output");
  options.add("--json",
              chosen.json,
              "write the report as JSON; - for the standard output, in "
              "place of the text",
              "a path or -");
  options.add_choice<Level>("--fail-on",
                            chosen.fail_on,
                            {{"note", Level::note}, {"slow", Level::slow}, {"bad", Level::bad}},
                            "the level from which the exit status is 1");
  options.add_flag("--version", chosen.shows_version, "print the version, and end");
  options.only_on_command_line("--version");
  // The section on variables reports unknown ones.
  std::ostringstream ignored;
  options.parse(arguments, ignored);
  if (chosen.processes == 1) {
    throw cli::UsageError("--processes: expected 0 or an integer from 2 to 64, found 1");
  }
  if (chosen.starts_mps && chosen.processes == 0) {
    throw cli::UsageError("--start-mps: expected --processes N beside it");
  }
  if (chosen.starts_mps && MSSTREAM_CUDA == 0) {
    throw cli::UsageError(
        "--start-mps: this build is for the host alone, whose processes use no MPS; expected a "
        "build for CUDA");
  }
  refuse_contradictions(chosen);
  if (!chosen.json.empty() && chosen.json != "-") {
    cli::check_outputs({{"--json", chosen.json}});
  }
  return chosen;
}

void print_list(Computer const& computer) {
  std::string text;
  for (auto const& device : computer.devices) {
    text += summary_of(device) + "\n";
  }
  if (text.empty()) {
    text = "no GPU that programs can use\n";
    for (auto const& line : driver_lines(computer.driver)) {
      if (line.level == Level::bad || line.id == "nvml") {
        text += fmt::format("{}: {}. {}\n", line.thing, line.value, line.advice);
      }
    }
  }
  cli::print(text);
}

void require_device(Chosen const& chosen, Computer const& computer) {
  if (chosen.starts_mps && !computer.has_usable_device()) {
    throw cli::UsageError(
        "--start-mps: there is no GPU that programs can use, and processes on the host runtime "
        "use no MPS");
  }
  int const count = static_cast<int>(computer.devices.size());
  if (chosen.device >= count && chosen.device != 0) {
    throw cli::UsageError(
        count == 0 ? fmt::format("--device: there is no GPU, found {}", chosen.device)
                   : fmt::format("--device: expected an integer from 0 to {}, found {}; --list "
                                 "lists the GPUs",
                                 count - 1,
                                 chosen.device));
  }
}

/// Returns how many bytes of a device are free, as NVML says; nothing if it does not.
std::optional<double> free_bytes_of(NvmlFacts const& nvml, std::string_view bus_id) {
  for (auto const& device : nvml.devices) {
    if (device.bus_id == bus_id) {
      return device.free_bytes;
    }
  }
  return std::nullopt;
}

/// Looks at what was chosen. Returns false if that was printed, and there is no report.
bool look(Chosen const& chosen, EnvironmentFacts const& environment, ReportWriter& writer) {
  auto const findings = writer.findings();
  if (!chosen.lists && chosen.processes == 0) {
    examine_host(environment, findings);  // before calls of a driver, which may hang
  }
  findings.begin(Section::driver, "the driver");
  auto const computer = read_computer();
  if (chosen.lists) {
    writer.end_check();
    print_list(computer);
    return false;
  }
  require_device(chosen, computer);
  if (computer.has_usable_device()) {
    writer.set_device(chosen.device);
  }
  if (chosen.processes > 0) {
    ProcessPlan plan;
    plan.processes = chosen.processes;
    plan.device = computer.has_usable_device() ? chosen.device : -1;
    plan.start_mps = chosen.starts_mps;
    plan.mps = read_mps();
    if (plan.device >= 0) {
      auto const& bus_id = computer.devices.at(static_cast<std::size_t>(plan.device)).bus_id;
      plan.free_bytes = [bus_id] { return free_bytes_of(read_nvml(), bus_id); };
    }
    writer.add(process_lines(measure_processes(plan, findings.begin_in(Section::processes))));
  } else {
    examine({chosen.device, chosen.is_quick}, computer, environment, findings);
  }
  return true;
}

std::chrono::seconds limit_of(Chosen const& chosen) {
  return chosen.time_limit_s > 0 ? std::chrono::seconds(chosen.time_limit_s)
         : chosen.processes > 0  ? kLimitOfProcesses
                                 : kLimitOfCheck;
}

}  // namespace

int doctor_command(cli::Arguments const& arguments) {
  auto const chosen = parse(arguments);
  if (chosen.shows_version) {
    cli::print(fmt::format("msstream-doctor {}\n", version()));
    return 0;
  }
  // Changes the environment, so that it comes before threads.
  auto const environment = read_environment();
  Report report;
  report.is_cuda_build = MSSTREAM_CUDA != 0;
  report.is_quick = chosen.is_quick;
  ReportWriter writer({chosen.json, chosen.fail_on, limit_of(chosen)}, std::move(report));
  try {
    if (!look(chosen, environment, writer)) {
      return 0;
    }
  } catch (cli::UsageError const&) {
    throw;
  } catch (...) {
    writer.add_failure(std::current_exception());  // the report has what was found before
  }
  return writer.finish();
}

}  // namespace msstream::doctor
