// SPDX-License-Identifier: Apache-2.0
#include "cli/outputs.hpp"
#include "cli/report.hpp"
#include "makespan.hpp"
#include "replay.hpp"
#include "report.hpp"
#include "workload_options.hpp"

#include <msstream/runtime/cuda.hpp>

#include <fmt/core.h>

#include <stdexcept>

namespace benchmarks::workloads {
namespace {

constexpr double kForeignFrees = 0.3;
constexpr std::size_t kSmallestBlock = 256;
/// The size of a preallocated buffer: it holds all tags of a block, and no more.
constexpr std::size_t kOwnBufferBytes = 8192;

std::size_t from_mib(std::int64_t mib) {
  return static_cast<std::size_t>(mib) << 20U;
}

Arena choose_arena(RuntimeChoice choice) {
#if MSSTREAM_CUDA
  bool const has_gpu = ms::Cuda::device_count() > 0;
  if (choice == RuntimeChoice::cuda && !has_gpu) {
    throw cli::UsageError("--runtime cuda: no GPU is visible; --runtime host needs none");
  }
  if (choice != RuntimeChoice::host && has_gpu) {
    return cuda_arena();
  }
#else
  if (choice == RuntimeChoice::cuda) {
    throw cli::UsageError("--runtime cuda: this build has no CUDA; see MSSTREAM_CUDA");
  }
#endif
  return host_arena();
}

/// The number of bisection steps: seven narrow the limit to 4% of the live bytes, eleven to 0.3%.
constexpr int kTries = 11;
constexpr int kQuickTries = 7;

void run_trace(WorkloadOptions const& options,
               Arena const& arena,
               TraceShape const& shape,
               Report& report) {
  auto const trace = make_trace(shape);
  Task task{.streams = shape.streams,
            .blocks = trace.blocks,
            .limit_bytes = 0,
            .own_buffer_bytes = kOwnBufferBytes,
            .busy = std::chrono::microseconds(options.busy_us)};
  bool const limited = options.limit_factor != 0;
  std::vector<TraceResult> results;
  for (auto const& entrant : arena.entrants) {
    bool const allocates = !entrant.preallocated.empty();
    if (limited && allocates && !entrant.takes_limit) {
      continue;
    }
    Task of_entrant = task;
    if (limited && allocates) {
      of_entrant.limit_bytes = static_cast<std::size_t>(options.limit_factor *
                                                        static_cast<double>(trace.peak_live_bytes));
    }
    results.push_back({entrant.name, allocates, replay(trace, entrant, of_entrant), std::nullopt});
    if (entrant.takes_limit && !limited) {
      results.back().smallest_limit =
          smallest_limit(trace, entrant, task, options.quick ? kQuickTries : kTries);
    }
  }
  report.add_trace(shape, trace, options.limit_factor, results);
}

void run_traces(WorkloadOptions const& options, Arena const& arena, Report& report) {
  Report::explain_trace();
  for (int const streams : options.streams) {
    for (auto const seed : options.seeds) {
      run_trace(options,
                arena,
                {.streams = streams,
                 .allocations = options.allocations,
                 .live_bytes = from_mib(options.live_mib),
                 .sizes = {kSmallestBlock, from_mib(options.largest_mib)},
                 .foreign_frees = kForeignFrees,
                 .seed = seed},
                report);
    }
  }
}

void run_makespans(WorkloadOptions const& options, Arena const& arena, Report& report) {
  Report::explain_makespan();
  for (auto const limit_mib : {std::int64_t{0}, options.makespan_limit_mib}) {
    MakespanPlan const plan{.threads = options.threads,
                            .iterations = options.iterations,
                            .repeats = options.repeats,
                            .sizes = {kSmallestBlock, from_mib(options.largest_mib)},
                            .limit_bytes = from_mib(limit_mib),
                            .busy = std::chrono::microseconds(options.makespan_busy_us),
                            .seed = options.seeds.front()};
    report.add_makespans(plan, measure_makespans(arena.entrants, plan));
  }
}

void run(cli::Arguments const& arguments) {
  auto const asked = parse_options(arguments);
  auto const arena = choose_arena(asked.runtime);
  auto const options = with_defaults(asked, arena.runtime != "host");
  Report report(arena, options.commit, options.quick);
  if (options.has_part('B')) {
    run_traces(options, arena, report);
  }
  if (options.has_part('C')) {
    run_makespans(options, arena, report);
  }
  if (!options.json.empty()) {
    cli::attempt_output("--json", [&] { cli::write_report(options.json, report.json()); });
  }
  if (report.our_wrong_tags() != 0) {
    throw std::runtime_error(
        fmt::format("{} tags were overwritten while their block was in use: msstream has given "
                    "memory out too early",
                    report.our_wrong_tags()));
  }
}

}  // namespace
}  // namespace benchmarks::workloads

/// Runs the workloads of docs/benchmarks.md that use memory on several streams: B, a trace, and C,
/// makespans. Workload A is the program allocator_benchmark.
int main(int argc, char** argv) {
  return msstream::cli::run_program(argc, argv, benchmarks::workloads::run);
}
