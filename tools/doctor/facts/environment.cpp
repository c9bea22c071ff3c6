// SPDX-License-Identifier: Apache-2.0
#include "doctor/facts/environment.hpp"

#include "cli/options.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/comm/communicator.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/runtime/checker.hpp>
#include <msstream/runtime/sim.hpp>
#include <msstream/stream/stream_pool_options.hpp>

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <utility>

namespace msstream::doctor {
namespace {

/// Returns the message about a value that the library refuses; empty if it accepts all. Makes each
/// options object whose members read variables.
std::string refusal() {
  try {
    static_cast<void>(DeviceOptions());
    static_cast<void>(StreamPoolOptions());
    static_cast<void>(comm::CommunicatorOptions());
    static_cast<void>(CheckerOptions());
    static_cast<void>(Sim::Options());
    static_cast<void>(env::flag("MSSTREAM_CHECK", false));
    static_cast<void>(env::integer("MSSTREAM_COMM_PORT", 0, 0, 65'535));
    static_cast<void>(env::integer("MSSTREAM_HOST_KERNEL_THREADS", 1, 1, 1024));
    return {};
  } catch (std::exception const& error) {
    return error.what();
  }
}

bool is_set(Variables const& variables, std::string_view name) {
  auto const found = variables.find(name);
  return found != variables.end() && !found->second.empty();
}

std::string value_of(Variables const& variables, std::string_view name) {
  auto const found = variables.find(name);
  return found == variables.end() ? std::string() : found->second;
}

/// A variable of CUDA or of its libraries that changes how fast programs are, or what they do.
struct Hint {
  std::string_view name;
  std::string_view value;  ///< the value that the hint is about; empty for every value
  Level level;
  std::string_view advice;
};
constexpr std::array kHints{
    Hint{"CUDA_LAUNCH_BLOCKING",
         "1",
         Level::slow,
         "Each launch waits until its kernel has ended, so that nothing overlaps. Unset it, except "
         "to find a fault."},
    Hint{"CUDA_FORCE_PTX_JIT",
         "1",
         Level::slow,
         "CUDA compiles each kernel when a program starts. Unset it."},
    Hint{"CUDA_CACHE_DISABLE",
         "1",
         Level::note,
         "Kernels that CUDA compiles at run time are compiled again in each run."},
    Hint{"CUDA_VISIBLE_DEVICES", "", Level::note, "Programs see these devices only."},
    Hint{"CUDA_DISABLE_PERF_BOOST", "1", Level::note, "The device stays at lower clocks."},
    Hint{"NVIDIA_TF32_OVERRIDE",
         "",
         Level::note,
         "It changes the precision of matrix products, whatever the program asks for."},
    Hint{"NCCL_P2P_DISABLE",
         "1",
         Level::slow,
         "NCCL copies between GPUs through the memory of the host. Unset it, unless the computer "
         "needs it."},
    Hint{"NCCL_SHM_DISABLE", "1", Level::slow, "NCCL uses the network within a host. Unset it."},
    Hint{"NCCL_IB_DISABLE", "1", Level::note, "NCCL uses TCP between hosts."},
};

/// The variables of the doctor's own options.
constexpr std::array<std::string_view, 7> kOwn{"MSSTREAM_DEVICE",
                                               "MSSTREAM_FAIL_ON",
                                               "MSSTREAM_JSON",
                                               "MSSTREAM_PROCESSES",
                                               "MSSTREAM_QUICK",
                                               "MSSTREAM_START_MPS",
                                               "MSSTREAM_TIME_LIMIT"};

Lines msstream_lines(EnvironmentFacts const& facts) {
  Lines lines;
  std::string set;
  Lines unknown;
  for (auto const& [name, value] : facts.variables) {
    if (!name.starts_with("MSSTREAM_") || value.empty()) {
      continue;
    }
    set += (set.empty() ? "" : ", ") + name + "=" + value;
    if (std::ranges::binary_search(known_variables(), std::string_view(name)) ||
        name.starts_with("MSSTREAM_OVERLAP_") || std::ranges::count(kOwn, name) > 0) {
      continue;
    }
    auto known = known_variables();
    constexpr std::string_view kPrefix = "MSSTREAM_";
    for (auto& other : known) {
      other.remove_prefix(kPrefix.size());
    }
    auto const nearest = cli::nearest_name(std::string_view(name).substr(kPrefix.size()), known);
    unknown.push_back(
        {Section::environment,
         "unknown-variable",
         name,
         Level::note,
         value,
         fmt::format("The library does not read it{}. It has an effect only if it names an option "
                     "of a program, as MSSTREAM_BATCH does for --batch.",
                     nearest.empty() ? "" : fmt::format("; did you mean MSSTREAM_{}?", nearest))});
  }
  lines.push_back({Section::environment,
                   "msstream-variables",
                   "variables of msstream",
                   Level::ok,
                   set.empty() ? "none set" : set});
  for (auto const& [name, message] : facts.refused) {
    auto const colon = message.find(": ");
    lines.push_back(
        {Section::environment,
         "refused-variable",
         name,
         Level::bad,
         value_of(facts.variables, name),
         fmt::format("Programs end with an error: {}. Correct or unset it.",
                     colon == std::string::npos ? message : message.substr(colon + 2))});
  }
  lines.insert(lines.end(), unknown.begin(), unknown.end());
  auto const check = value_of(facts.variables, "MSSTREAM_CHECK");
  if (check == "1" || check == "true" || check == "yes" || check == "on") {
    lines.push_back({Section::environment,
                     "checking",
                     "MSSTREAM_CHECK",
                     Level::slow,
                     check,
                     "Programs check the order of all work, which costs several times the time of "
                     "each operation. Unset it when no race is looked for."});
  }
  return lines;
}

Line queues_line(Variables const& variables) {
  Line line{Section::environment, "max-connections", "CUDA_DEVICE_MAX_CONNECTIONS"};
  auto const value = value_of(variables, line.thing);
  line.value = value.empty() ? "not set (CUDA's default is 8)" : value;
  auto const number = cli::parse_option<int>(value, {1, 32});
  if (!value.empty() && !number) {
    return judged(std::move(line),
                  Level::bad,
                  "Expected an integer from 1 to 32, the hardware queues that streams share.");
  }
  if (number) {
    line.quantity = {static_cast<double>(*number), "queues"};
  }
  if (number && *number < 8) {
    return judged(std::move(line),
                  Level::slow,
                  "So few queues make independent streams wait for each other. Set it to 32, "
                  "unless a library needs a small number, as Megatron-LM needs 1.");
  }
  return line;
}

}  // namespace

std::vector<std::string_view> const& known_variables() {
  static std::vector<std::string_view> const kNames = [] {
    std::vector<std::string_view> names{"MSSTREAM_BUILD_PRESET",
                                        "MSSTREAM_CHECK",
                                        "MSSTREAM_CHECK_MODE",
                                        "MSSTREAM_CHECK_REPORT",
                                        "MSSTREAM_COMM_PEER_ACCESS",
                                        "MSSTREAM_COMM_PORT",
                                        "MSSTREAM_COMM_TIMEOUT_S",
                                        "MSSTREAM_HOST_KERNEL_THREADS",
                                        "MSSTREAM_LAUNCH_SPIN_US",
                                        "MSSTREAM_LAUNCH_THREADS",
                                        "MSSTREAM_LAUNCH_THREAD_COUNT",
                                        "MSSTREAM_MATMUL_PRECISION",
                                        "MSSTREAM_MAX_GROWTH_BYTES",
                                        "MSSTREAM_MEMORY_HISTORY",
                                        "MSSTREAM_MEMORY_KEEP_BYTES",
                                        "MSSTREAM_MEMORY_LIMIT_BYTES",
                                        "MSSTREAM_MEMORY_LIMIT_PERCENT",
                                        "MSSTREAM_MEMORY_POOLS",
                                        "MSSTREAM_MEMORY_PRIVATE_POOLS",
                                        "MSSTREAM_MEMORY_RETURN_AFTER_MS",
                                        "MSSTREAM_MEMORY_SOFT_LIMIT_BYTES",
                                        "MSSTREAM_MEMORY_WAIT_MS",
                                        "MSSTREAM_MERGE_STREAMS",
                                        "MSSTREAM_OVERLAP_CUPTI",
                                        "MSSTREAM_OVERLAP_RECORDER",
                                        "MSSTREAM_PINNED_KEEP_BYTES",
                                        "MSSTREAM_PINNED_LIMIT_BYTES",
                                        "MSSTREAM_PINNED_POOLS",
                                        "MSSTREAM_PROPAGATE_GROUPS",
                                        "MSSTREAM_REDUCE_WAITS",
                                        "MSSTREAM_SIM_SCHEDULE",
                                        "MSSTREAM_SM_PARTITIONS",
                                        "MSSTREAM_SPARED_SMS",
                                        "MSSTREAM_STREAM_ASSIGNMENT",
                                        "MSSTREAM_STREAM_GROUPS",
                                        "MSSTREAM_TEST_DATA",
                                        "MSSTREAM_TUNE_PRODUCTS",
                                        "MSSTREAM_WORKSPACE_BYTES"};
    std::ranges::sort(names);
    return names;
  }();
  return kNames;
}

EnvironmentFacts read_environment() {
  EnvironmentFacts facts;
  constexpr std::array<std::string_view, 5> kPrefixes{
      "MSSTREAM_", "CUDA_", "NVIDIA_", "NCCL_", "NVTX_"};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    std::string_view const entry = *variable;
    auto const equals = entry.find('=');
    if (equals != std::string_view::npos &&
        std::ranges::any_of(kPrefixes, [&](auto prefix) { return entry.starts_with(prefix); })) {
      facts.variables.emplace(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }
  // The library reports one value at a time, and its message begins with the variable's name.
  for (auto message = refusal(); !message.empty(); message = refusal()) {
    auto const name = message.substr(0, message.find(':'));
    if (!is_set(facts.variables, name) || std::getenv(name.c_str()) == nullptr) {
      facts.refused.emplace_back("MSSTREAM_*", message);  // a message of another form
      break;
    }
    facts.refused.emplace_back(name, message);
    ::unsetenv(name.c_str());
  }
  return facts;
}

Lines environment_lines(EnvironmentFacts const& facts) {
  auto lines = msstream_lines(facts);
  lines.push_back(queues_line(facts.variables));
  for (auto const& hint : kHints) {
    auto const value = value_of(facts.variables, hint.name);
    if (!value.empty() && (hint.value.empty() || value == hint.value)) {
      lines.push_back({Section::environment,
                       "cuda-variable",
                       std::string(hint.name),
                       hint.level,
                       value,
                       std::string(hint.advice)});
    }
  }
  return lines;
}

}  // namespace msstream::doctor
