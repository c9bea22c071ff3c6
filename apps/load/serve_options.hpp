// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/stream_options.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/serve/options.hpp>

#include <nlohmann/json_fwd.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace msstream::load {

/// The ownership of the weights: one set that all replicas share, or a copy for each replica.
enum class ServedWeights : std::uint8_t { shared, copied };

/// The settings of an InferencePool that a program's options choose.
struct ServeSetting {
  int replicas = 4;
  int depth = 2;
  int branches = 1;
  bool merge_streams = true;
  LaunchThreads launch_threads = LaunchThreads::none;
  int launch_thread_count = 0;
  int launch_spin_us = -1;
  PinnedMode pinned = PinnedMode::shared;
  PoolMode memory_pools = PoolMode::shared;
  ServedWeights weights = ServedWeights::shared;
  StreamPriority priority = StreamPriority::normal;
  int sm_partitions = 1;  ///< SM parts; 0: one per replica, or as many as the device can have
  bool no_capture = false;
  std::vector<std::int64_t> buckets = {};  ///< batch sizes; empty: one, the rows of a query
  std::int64_t queue = 1024;
  std::int64_t workspace_kib = 1024;
  std::int64_t max_batch_delay_us = 0;
  bool tf32 = false;

  [[nodiscard]] serve::InferencePoolOptions pool_options(std::vector<serve::Field> inputs,
                                                         std::int64_t outputs_per_row,
                                                         std::int64_t query_rows) const;
  /// Returns the buckets (batch sizes) of a pool for queries of `query_rows` rows.
  [[nodiscard]] std::vector<std::int64_t> buckets_for(std::int64_t query_rows) const;
  /// Returns the buckets (batch sizes) in which queries of `query_rows` rows run: the smallest that
  /// holds one, or, if queries are put together, also all larger ones.
  [[nodiscard]] std::vector<std::int64_t> run_in(std::int64_t query_rows) const;
  /// Returns the setting of the baseline: one replica, whose operations are issued eagerly on one
  /// stream.
  [[nodiscard]] ServeSetting baseline() const;
};

template <Runtime R>
[[nodiscard]] DeviceOptions<R> device_options(ServeSetting const& setting) {
  DeviceOptions<R> options;
  options.memory.mode = setting.memory_pools;
  options.memory.pinned_mode = setting.pinned;
  options.memory.private_pools = setting.replicas + 1;
  options.workspace_bytes = static_cast<std::size_t>(setting.workspace_kib) << 10U;
  if (setting.tf32) {
    options.matmul_precision = MatmulPrecision::tf32;
  }
  return options;
}

/// Returns the setting with its number of SM partitions. If the number is 0, it becomes one per
/// replica, or as many as the device can have.
template <Runtime R>
[[nodiscard]] ServeSetting fitted(ServeSetting setting, Device<R> const& device) {
  if (setting.sm_partitions == 0) {
    setting.sm_partitions = 1;
    if constexpr (PartitioningRuntime<R>) {
      setting.sm_partitions = std::min(setting.replicas, device.runtime().most_sm_parts());
    }
  }
  return setting;
}

/// The options of a program that serves a model and submits queries to it, with their defaults.
struct ServeOptions : ServeSetting {
  cli::RuntimeChoice runtime = cli::StreamOptions{}.runtime;
  std::int64_t batch = 64;
  int queries = 256;
  bool check = false;
  std::int64_t swap_ms = 0;
  double deadline_ms = 0;
  double warmup = 0.5;
  std::uint64_t seed = 1;

  bool lone = false;
  bool baseline_too = false;
  bool raw_loop = false;
  int raw_threads = 4;
  std::string report;
  std::string overlap;
  bool quiet = false;
};

/// Adds the options of a serving program, under titles of their own: the pool, queries,
/// comparisons, files.
void add_options(cli::Options& options, ServeOptions& chosen);
/// Reads the library's environment variables: stores those that have an option, and checks the
/// others. Throws UsageError for a bad value.
void read_library_variables(ServeOptions& chosen);
/// Checks the options of a serving program. Throws UsageError for values that contradict each other
/// or the build.
void check(ServeOptions const& chosen);
/// Throws UsageError if CUDA is chosen and no GPU is visible.
void require_runtime(ServeOptions const& chosen);

/// Returns the options as JSON, for a program's report.
[[nodiscard]] nlohmann::ordered_json describe(ServeSetting const& setting);
[[nodiscard]] nlohmann::ordered_json describe(ServeOptions const& chosen);

}  // namespace msstream::load
