// SPDX-License-Identifier: Apache-2.0
#include "workload_options.hpp"

#include "cli/outputs.hpp"

#include <fmt/core.h>

#include <iostream>

namespace benchmarks::workloads {

namespace {

constexpr char const* kDescription =
    "Allocators under work on several streams, and what they make it wait for.\n"
    "\n"
    "B replays one trace of allocations and frees from one thread, with a write after each "
    "allocation and\n"
    "a check of it before each free, 30% of the frees on another stream. It says how much memory "
    "an\n"
    "allocator takes over what is live, the smallest limit that it can live with, and which calls "
    "of\n"
    "the runtime it makes.\n"
    "C gives 8 threads a stream each, on which they allocate, work for 100 us and free, and says "
    "how\n"
    "much longer that takes than with buffers that are there from the start.\n"
    "\n"
    "On the host runtime everything is smaller, and times mean little: it shows that this runs.";

template <class T>
void set_if_unset(T& option, T unset, T value) {
  option = option == unset ? value : option;
}

void check(WorkloadOptions const& options) {
  using cli::UsageError;
  if (options.parts.find_first_not_of("BC,") != std::string::npos ||
      options.parts.find_first_of("BC") == std::string::npos) {
    throw UsageError("--parts: expected B, C or B,C, found '" + options.parts + "'");
  }
  for (int const streams : options.streams) {
    if (streams < 1 || streams > 64) {
      throw UsageError(fmt::format("--streams: expected 1 to 64 of them, found {}", streams));
    }
  }
  cli::check_outputs({{"--json", options.json}});
  if (options.limit_factor != 0 && options.limit_factor < 1) {
    throw UsageError("--limit-factor: less than 1 cannot hold what is live");
  }
}

}  // namespace

WorkloadOptions parse_options(cli::Arguments const& arguments) {
  WorkloadOptions chosen;
  cli::Options options(
      kDescription,
      {{"memory_workloads", "the trace on 8 streams and on one, and the makespans"},
       {"memory_workloads --parts B --seeds 1,2,3", "the trace, with other draws"},
       {"memory_workloads --parts B --limit-factor 1.1", "what a tight limit costs"},
       {"memory_workloads --quick --json now.json", "a first look, kept"}});
  options.add("--parts", chosen.parts, "which workloads", "B, C or B,C");
  options.add_choice("--runtime",
                     chosen.runtime,
                     {{"auto", RuntimeChoice::automatic},
                      {"host", RuntimeChoice::host},
                      {"cuda", RuntimeChoice::cuda}},
                     "where; auto: on a GPU if there is one");
  options.add_flag("--quick", chosen.quick, "a fifth of the allocations and iterations");
  options.add("--json", chosen.json, "also write all numbers there", "a path");
  options.add("--commit", chosen.commit, "what the JSON says that was measured", "a name");

  options.group("B, the trace (0: 4096 MiB live, of up to 64 MiB, 20000 allocations on a GPU)");
  options.add("--seeds", chosen.seeds, "a trace for each");
  options.add("--streams", chosen.streams, "a trace for each");
  options.add("--live-mib", chosen.live_mib, "most that is live at a time", {0, 1 << 20});
  options.add("--largest-mib", chosen.largest_mib, "largest block", {0, 1 << 10});
  options.add("--allocations", chosen.allocations, "how many", {0, 1 << 22});
  options.add("--busy-us",
              chosen.busy_us,
              "how long each piece of work takes; -1: 4 on a GPU, else nothing",
              {-1, 1 << 20});
  options.add("--limit-factor",
              chosen.limit_factor,
              "run under this limit over live, and search for no smaller one; 0: run without, and "
              "search");

  options.group("C, the makespan (0: 1000 iterations, and a limit of 768 MiB, on a GPU)");
  options.add("--threads", chosen.threads, "threads, with a stream each", {1, 64});
  options.add("--iterations", chosen.iterations, "of each thread", {0, 1 << 20});
  options.add("--repeats", chosen.repeats, "of the whole", {1, 1000});
  options.add("--makespan-busy-us", chosen.makespan_busy_us, "work an iteration", {0, 1 << 20});
  options.add("--makespan-limit-mib",
              chosen.makespan_limit_mib,
              "limit of the second round; the first one has none",
              {0, 1 << 20});
  options.know_variables({"MSSTREAM_BUILD_PRESET",
                          "MSSTREAM_MAX_GROWTH_BYTES",
                          "MSSTREAM_MEMORY_HISTORY",
                          "MSSTREAM_MEMORY_POOLS",
                          "MSSTREAM_MEMORY_PRIVATE_POOLS",
                          "MSSTREAM_MEMORY_SOFT_LIMIT_BYTES",
                          "MSSTREAM_MEMORY_WAIT_MS",
                          "MSSTREAM_REDUCE_WAITS"});
  options.parse(arguments, std::cerr);
  check(chosen);
  return chosen;
}

WorkloadOptions with_defaults(WorkloadOptions options, bool on_gpu) {
  set_if_unset<std::int64_t>(options.live_mib, 0, on_gpu ? 4096 : 256);
  set_if_unset<std::int64_t>(options.largest_mib, 0, on_gpu ? 64 : 4);
  set_if_unset(options.allocations, 0, on_gpu ? 20'000 : 5'000);
  set_if_unset(options.busy_us, -1, on_gpu ? 4 : 0);
  set_if_unset(options.iterations, 0, on_gpu ? 1'000 : 200);
  set_if_unset<std::int64_t>(
      options.makespan_limit_mib, 0, options.threads * options.largest_mib * 3 / 2);
  if (options.quick) {
    options.allocations = (options.allocations + 4) / 5;
    options.iterations = (options.iterations + 4) / 5;
  }
  return options;
}

}  // namespace benchmarks::workloads
