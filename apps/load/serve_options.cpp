// SPDX-License-Identifier: Apache-2.0
#include "load/serve_options.hpp"

#include "cli/overlap_option.hpp"

#include <msstream/base/detail/env.hpp>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <utility>

namespace msstream::load {

namespace {

std::string_view name_of(StreamPriority priority) {
  switch (priority) {
    case StreamPriority::low:
      return "low";
    case StreamPriority::high:
      return "high";
    case StreamPriority::normal:
      break;
  }
  return "normal";
}

std::string_view name_of(PoolMode mode) {
  switch (mode) {
    case PoolMode::private_pools:
      return "private";
    case PoolMode::private_pools_one_limit:
      return "private-one-limit";
    case PoolMode::shared:
      break;
  }
  return "shared";
}

void add_pool_options(cli::Options& options, ServeSetting& chosen) {
  options.group("Pool");
  options.add<int>("--replicas",
                   chosen.replicas,
                   "replicas of the model, each on a stream group of its own",
                   {1, 255});
  options.add<int>("--depth", chosen.depth, "launches in flight a replica", {1, 64});
  options.add<int>("--branches",
                   chosen.branches,
                   "stream groups a replica, for what the model can do side by side",
                   {1, 64});
  options.add_flag("--merge-streams",
                   chosen.merge_streams,
                   "one stream a replica for compute and copies; =false: three");
  options.add_choice("--launch-threads",
                     chosen.launch_threads,
                     {{"none", LaunchThreads::none},
                      {"shared", LaunchThreads::shared},
                      {"per_group", LaunchThreads::per_group}},
                     "who launches: who submits, a few threads for all replicas, or one a replica");
  options.add<int>("--launch-thread-count",
                   chosen.launch_thread_count,
                   "how many when shared; 0 chooses",
                   {0, 64});
  options.add<int>("--launch-spin-us",
                   chosen.launch_spin_us,
                   "for how long a launch thread looks for more before it sleeps; -1 chooses",
                   {-1, 1'000'000});
  options.add_choice("--pinned",
                     chosen.pinned,
                     {{"shared", PinnedMode::shared}, {"per_group", PinnedMode::per_group}},
                     "pools of pinned memory: one, or one a replica");
  options.add_choice("--memory-pools",
                     chosen.memory_pools,
                     {{"shared", PoolMode::shared},
                      {"private", PoolMode::private_pools},
                      {"private-one-limit", PoolMode::private_pools_one_limit}},
                     "pools of device memory: one, one a replica with its part of the limit, or "
                     "one a replica under one limit");
  options.add_choice("--weights",
                     chosen.weights,
                     {{"shared", ServedWeights::shared}, {"copied", ServedWeights::copied}},
                     "one set for all replicas, or one a replica");
  options.add_choice("--priority",
                     chosen.priority,
                     {{"low", StreamPriority::low},
                      {"normal", StreamPriority::normal},
                      {"high", StreamPriority::high}},
                     "of the replicas' streams");
  options.add<int>("--sm-partitions",
                   chosen.sm_partitions,
                   "split the multiprocessors; replica i runs on part i mod so many; 0: one a "
                   "replica, as far as the device has them",
                   {0, 256});
  options.add_flag(
      "--no-capture", chosen.no_capture, "launch the operations one by one for each query");
  options.add<std::int64_t>("--buckets",
                            chosen.buckets,
                            "for how many rows there are buffers, ascending; without it --batch",
                            {1, 1 << 20});
  options.add<std::int64_t>(
      "--queue", chosen.queue, "queries that may wait; more are refused", {0, 1 << 20});
  options.add<std::int64_t>("--max-batch-delay-us",
                            chosen.max_batch_delay_us,
                            "for how long queries wait to be launched together, as far as they "
                            "fit into the largest bucket; 0: do not",
                            {0, 10'000'000});
  options.add<std::int64_t>("--workspace-kib",
                            chosen.workspace_kib,
                            "KiB that the products of each stream group may use besides tensors",
                            {0, 1 << 20});
  options.add_flag(
      "--tf32", chosen.tf32, "products of float32 matrices on the tensor cores, where there are");
}

}  // namespace

std::vector<std::int64_t> ServeSetting::buckets_for(std::int64_t query_rows) const {
  return buckets.empty() ? std::vector{query_rows} : buckets;
}

std::vector<std::int64_t> ServeSetting::run_in(std::int64_t query_rows) const {
  auto all = buckets_for(query_rows);
  all.erase(all.begin(), std::ranges::lower_bound(all, query_rows));
  if (max_batch_delay_us == 0) {
    all.resize(1);
  }
  return all;
}

serve::InferencePoolOptions ServeSetting::pool_options(std::vector<serve::Field> inputs,
                                                       std::int64_t outputs_per_row,
                                                       std::int64_t query_rows) const {
  return {.inputs = std::move(inputs),
          .outputs_per_row = outputs_per_row,
          .replicas = replicas,
          .depth = depth,
          .branches = branches,
          .buckets = buckets_for(query_rows),
          .queue_capacity = static_cast<std::size_t>(queue),
          .max_batch_delay = std::chrono::microseconds(max_batch_delay_us),
          .capture = !no_capture,
          .merge_streams = merge_streams,
          .stream_priority = priority,
          .sm_partitions = sm_partitions,
          .launch_threads = launch_threads,
          .launch_thread_count = launch_thread_count,
          .launch_spin_us = launch_spin_us};
}

ServeSetting ServeSetting::baseline() const {
  auto eager = *this;
  eager.replicas = 1;
  eager.branches = 1;
  eager.merge_streams = true;
  eager.launch_threads = LaunchThreads::none;
  eager.launch_thread_count = 0;
  eager.pinned = PinnedMode::shared;
  eager.memory_pools = PoolMode::shared;
  eager.weights = ServedWeights::shared;
  eager.sm_partitions = 1;
  eager.no_capture = true;
  eager.max_batch_delay_us = 0;
  return eager;
}

void add_options(cli::Options& options, ServeOptions& chosen) {
  add_pool_options(options, chosen);

  options.group("Queries");
  options.add<std::int64_t>("--batch", chosen.batch, "rows a query", {1, 1 << 20});
  options.add<int>(
      "--queries", chosen.queries, "different ones, made beforehand, asked in turn", {1, 100'000});
  options.add("--deadline-ms",
              chosen.deadline_ms,
              "what waits longer expires; 0: nothing does",
              cli::Range<double>{0, 1e6});
  options.add<std::int64_t>("--swap-ms",
                            chosen.swap_ms,
                            "put other weights in place so often, or as often as it can be done; "
                            "0: never",
                            {0, 1'000'000});
  options.add_flag("--check",
                   chosen.check,
                   "compare each answer, bit for bit, with what its version of the model says to "
                   "the query alone");
  options.add("--warmup",
              chosen.warmup,
              "seconds that are not measured, before",
              cli::Range<double>{0, 3600});
  options.add<std::uint64_t>("--seed", chosen.seed, "of weights, queries and arrivals");

  options.group("Comparisons");
  options.add_flag("--baseline",
                   chosen.baseline_too,
                   "then the same operations one by one on one stream, for the same clients");
  options.add_flag(
      "--raw-loop",
      chosen.raw_loop,
      "then a loop by hand: the same graphs launched on as many native streams, without "
      "a pool");
  options.add<int>("--raw-threads", chosen.raw_threads, "that launch in it", {1, 64});
  options.add_flag("--lone",
                   chosen.lone,
                   "before, one query at a time, to whose p50 the load's latency is compared");

  options.group("Files");
  options.add_choice("--runtime",
                     chosen.runtime,
                     {{"host", cli::RuntimeChoice::host}, {"cuda", cli::RuntimeChoice::cuda}},
                     "where to serve; cuda needs a build with it");
  options.add("--report", chosen.report, "all that is measured, as JSON", "a path");
  cli::add_overlap_option(options, chosen.overlap, "some queries after the load");
  options.add_flag("--quiet", chosen.quiet, "no progress, and no results but in files");
  cli::know_library_variables(options);
}

void read_library_variables(ServeOptions& chosen) {
  cli::StreamOptions unused;
  read_library_variables(unused);
  try {
    chosen.tf32 = DeviceOptions<Host>{}.matmul_precision == MatmulPrecision::tf32;
    chosen.pinned = AllocatorOptions{}.pinned_mode;
    chosen.sm_partitions = StreamPoolOptions{}.sm_partitions;
    chosen.memory_pools = AllocatorOptions{}.mode;
  } catch (std::invalid_argument const& error) {
    throw cli::UsageError(error.what());
  }
}

void check(ServeOptions const& chosen) {
  cli::StreamOptions streams;
  streams.runtime = chosen.runtime;
  streams.launch_threads = chosen.launch_threads;
  streams.launch_thread_count = chosen.launch_thread_count;
  check(streams);
  cli::check_overlap_option(chosen.overlap);
  auto const buckets = chosen.buckets_for(chosen.batch);
  if (std::ranges::adjacent_find(buckets, std::greater_equal{}) != buckets.end()) {
    throw cli::UsageError("--buckets: expected them in ascending order");
  }
  if (buckets.back() < chosen.batch) {
    throw cli::UsageError(
        fmt::format("--buckets: the largest holds {} rows; expected at least --batch, {}",
                    buckets.back(),
                    chosen.batch));
  }
  if (chosen.max_batch_delay_us > 0 && buckets.back() < 2 * chosen.batch) {
    throw cli::UsageError(
        fmt::format("--max-batch-delay-us puts queries together: the largest of --buckets holds {} "
                    "rows; expected at least two queries, {}",
                    buckets.back(),
                    2 * chosen.batch));
  }
  if (chosen.max_batch_delay_us > 0 && chosen.queue == 0) {
    throw cli::UsageError(
        "--max-batch-delay-us: queries wait for each other in the queue; expected "
        "--queue of at least 1");
  }
  if (chosen.raw_loop && chosen.no_capture) {
    throw cli::UsageError("--raw-loop replays what is captured: it does not go with --no-capture");
  }
}

void require_runtime(ServeOptions const& chosen) {
  cli::StreamOptions streams;
  streams.runtime = chosen.runtime;
  require_runtime(streams);
}

nlohmann::ordered_json describe(ServeSetting const& setting) {
  return {{"replicas", setting.replicas},
          {"depth", setting.depth},
          {"branches", setting.branches},
          {"merge_streams", setting.merge_streams},
          {"workspace_kib", setting.workspace_kib},
          {"launch_threads", cli::name_of(setting.launch_threads)},
          {"launch_thread_count", setting.launch_thread_count},
          {"launch_spin_us", setting.launch_spin_us},
          {"pinned", setting.pinned == PinnedMode::shared ? "shared" : "per_group"},
          {"memory_pools", name_of(setting.memory_pools)},
          {"weights", setting.weights == ServedWeights::shared ? "shared" : "copied"},
          {"priority", name_of(setting.priority)},
          {"sm_partitions", setting.sm_partitions},
          {"capture", !setting.no_capture},
          {"buckets", setting.buckets},
          {"queue", setting.queue},
          {"max_batch_delay_us", setting.max_batch_delay_us},
          {"tf32", setting.tf32}};
}

nlohmann::ordered_json describe(ServeOptions const& chosen) {
  nlohmann::ordered_json described = {{"runtime", name_of(chosen.runtime)}};
  described.update(describe(static_cast<ServeSetting const&>(chosen)));
  described["buckets"] = chosen.buckets_for(chosen.batch);
  described.update({{"batch", chosen.batch},
                    {"queries", chosen.queries},
                    {"check", chosen.check},
                    {"lone", chosen.lone},
                    {"raw_threads", chosen.raw_threads},
                    {"swap_ms", chosen.swap_ms},
                    {"deadline_ms", chosen.deadline_ms},
                    {"warmup", chosen.warmup},
                    {"seed", chosen.seed}});
  return described;
}

}  // namespace msstream::load
