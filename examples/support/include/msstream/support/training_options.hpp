// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/kernels/optimizer.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/support/options.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

/// Options that several training programs have; the values here are the defaults.
namespace msstream::support {

enum class RuntimeChoice : std::uint8_t { host, cuda };

/// Where to train, and on how many groups.
struct StreamOptions {
#if MSSTREAM_CUDA
  RuntimeChoice runtime = RuntimeChoice::cuda;
#else
  RuntimeChoice runtime = RuntimeChoice::host;
#endif
  int stream_groups = 4;
  bool merge_streams = false;
  bool no_reduce_waits = false;
  LaunchThreads launch_threads = LaunchThreads::none;
  int launch_thread_count = 0;
};

/// How parameters move.
struct UpdateOptions {
  ops::OptimizerKind optimizer = ops::OptimizerKind::adam;
  float learning_rate = 1e-3F;
};

/// Under the title "Streams".
void add_options(Options& options, StreamOptions& chosen);
/// Under the title that was set last.
void add_options(Options& options, UpdateOptions& chosen);

/// The library's own variables that stand for options, which it would read, and refuse, only after
/// the data is loaded. Throws UsageError.
void read_library_variables(StreamOptions& chosen);
/// So that what the library and the project's scripts read is not reported as unknown.
void know_library_variables(Options& options);

/// Throws UsageError for values that contradict each other or the build.
void check(StreamOptions const& chosen);
/// Throws UsageError when CUDA is asked for and no GPU is visible.
void require_runtime(StreamOptions const& chosen);

/// The options as a report shows them.
[[nodiscard]] nlohmann::ordered_json describe(StreamOptions const& chosen);
[[nodiscard]] nlohmann::ordered_json describe(UpdateOptions const& chosen);

/// What users call them.
[[nodiscard]] std::string_view name_of(RuntimeChoice choice);
[[nodiscard]] std::string_view name_of(LaunchThreads choice);
[[nodiscard]] std::string_view name_of(ops::OptimizerKind kind);

}  // namespace msstream::support
