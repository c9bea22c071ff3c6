// SPDX-License-Identifier: Apache-2.0
#include "cli/stream_options.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace msstream::cli {

void add_options(Options& options, StreamOptions& chosen) {
  options.group("Streams");
  options.add_choice("--runtime",
                     chosen.runtime,
                     {{"host", RuntimeChoice::host}, {"cuda", RuntimeChoice::cuda}},
                     "where to train; cuda needs a build with it");
  options.add<int>("--stream-groups",
                   chosen.stream_groups,
                   "stream groups to spread the branches over",
                   {1, 256});
  options.add_flag(
      "--merge-streams", chosen.merge_streams, "one stream a group for compute and copies");
  options.add_flag(
      "--no-reduce-waits", chosen.no_reduce_waits, "issue every wait, also those known to hold");
  options.add_choice("--launch-threads",
                     chosen.launch_threads,
                     {{"none", LaunchThreads::none},
                      {"shared", LaunchThreads::shared},
                      {"per_group", LaunchThreads::per_group}},
                     "who launches: this thread, a few for all groups, or one a group");
  options.add<int>("--launch-thread-count",
                   chosen.launch_thread_count,
                   "how many when shared; 0 chooses",
                   {0, 64});
}

void read_library_variables(StreamOptions& chosen) {
  try {
    chosen.no_reduce_waits = !env::flag("MSSTREAM_REDUCE_WAITS", true);
    (void)AllocatorOptions{};
    (void)DeviceOptions<Host>{};
    (void)env::integer("MSSTREAM_SM_PARTITIONS", 1, 1, 256);
    (void)env::integer("MSSTREAM_SPARED_SMS", 0, 0, 1024);
    (void)env::integer("MSSTREAM_LAUNCH_SPIN_US", -1, -1, 1'000'000);
    (void)env::integer("MSSTREAM_HOST_KERNEL_THREADS", 1, 1, 1024);
  } catch (std::invalid_argument const& error) {
    throw UsageError(error.what());
  }
}

void know_library_variables(Options& options) {
  options.know_variables({"MSSTREAM_MEMORY_LIMIT_BYTES",
                          "MSSTREAM_MEMORY_LIMIT_PERCENT",
                          "MSSTREAM_MEMORY_SOFT_LIMIT_BYTES",
                          "MSSTREAM_MAX_GROWTH_BYTES",
                          "MSSTREAM_MEMORY_POOLS",
                          "MSSTREAM_MEMORY_PRIVATE_POOLS",
                          "MSSTREAM_PINNED_POOLS",
                          "MSSTREAM_PINNED_LIMIT_BYTES",
                          "MSSTREAM_PINNED_KEEP_BYTES",
                          "MSSTREAM_MEMORY_KEEP_BYTES",
                          "MSSTREAM_MEMORY_RETURN_AFTER_MS",
                          "MSSTREAM_MEMORY_WAIT_MS",
                          "MSSTREAM_MEMORY_HISTORY",
                          "MSSTREAM_REDUCE_WAITS",
                          "MSSTREAM_CHECK",
                          "MSSTREAM_CHECK_MODE",
                          "MSSTREAM_STREAM_ASSIGNMENT",
                          "MSSTREAM_PROPAGATE_GROUPS",
                          "MSSTREAM_MATMUL_PRECISION",
                          "MSSTREAM_WORKSPACE_BYTES",
                          "MSSTREAM_TUNE_PRODUCTS",
                          "MSSTREAM_SM_PARTITIONS",
                          "MSSTREAM_SPARED_SMS",
                          "MSSTREAM_LAUNCH_SPIN_US",
                          "MSSTREAM_HOST_KERNEL_THREADS",
                          "MSSTREAM_CHECK_REPORT",
                          "MSSTREAM_BUILD_PRESET",
                          "MSSTREAM_TEST_DATA",
                          "MSSTREAM_COMM_PORT",
                          "MSSTREAM_COMM_TIMEOUT_S",
                          // by which `msstream-overlap run` tells its recorder what to record
                          "MSSTREAM_OVERLAP_CUPTI",
                          "MSSTREAM_OVERLAP_DURATION_MS",
                          "MSSTREAM_OVERLAP_FOLDER",
                          "MSSTREAM_OVERLAP_GRAPH_NODES",
                          "MSSTREAM_OVERLAP_MEMORY_MIB",
                          "MSSTREAM_OVERLAP_PLAIN",
                          "MSSTREAM_OVERLAP_RANGE",
                          "MSSTREAM_OVERLAP_SKIP_MS",
                          "MSSTREAM_OVERLAP_TRIAL"});
}

void check(StreamOptions const& chosen) {
  if (chosen.launch_thread_count != 0 && chosen.launch_threads != LaunchThreads::shared) {
    throw UsageError(
        "--launch-thread-count goes with --launch-threads shared; per_group means one thread a "
        "group");
  }
#if !MSSTREAM_CUDA
  if (chosen.runtime == RuntimeChoice::cuda) {
    throw UsageError(
        "--runtime cuda: this build has no CUDA; configure with MSSTREAM_CUDA=ON, or use host");
  }
#endif
}

void require_runtime([[maybe_unused]] StreamOptions const& chosen) {
#if MSSTREAM_CUDA
  if (chosen.runtime == RuntimeChoice::cuda && Cuda::device_count() == 0) {
    throw UsageError(
        fmt::format("--runtime cuda: {}; --runtime host needs none", Cuda::why_no_device()));
  }
#endif
}

nlohmann::ordered_json describe(StreamOptions const& chosen) {
  return {{"runtime", name_of(chosen.runtime)},
          {"stream_groups", chosen.stream_groups},
          {"merge_streams", chosen.merge_streams},
          {"reduce_waits", !chosen.no_reduce_waits},
          {"launch_threads", name_of(chosen.launch_threads)},
          {"launch_thread_count", chosen.launch_thread_count}};
}

std::string_view name_of(RuntimeChoice choice) {
  return choice == RuntimeChoice::cuda ? "cuda" : "host";
}

std::string_view name_of(LaunchThreads choice) {
  switch (choice) {
    case LaunchThreads::shared:
      return "shared";
    case LaunchThreads::per_group:
      return "per_group";
    case LaunchThreads::none:
      break;
  }
  return "none";
}

}  // namespace msstream::cli
