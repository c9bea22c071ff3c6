// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/ops/optimizer_rule.hpp>
#include <msstream/stream/stream_pool.hpp>
#include <msstream/support/options.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <string_view>

/// Options that several training programs share, with their defaults.
namespace msstream::support {

enum class RuntimeChoice : std::uint8_t { host, cuda };

/// The runtime to train on, and its stream groups.
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

/// The update rule of the parameters.
struct UpdateOptions {
  ops::OptimizerKind optimizer = ops::OptimizerKind::adam;
  float learning_rate = 1e-3F;
};

/// Adds the options under the title "Streams".
void add_options(Options& options, StreamOptions& chosen);
/// Adds the options under the title that was set last.
void add_options(Options& options, UpdateOptions& chosen);

/// Reads the environment variables of the library that stand for options. The library itself would
/// refuse bad values only after the data is loaded. Throws UsageError.
void read_library_variables(StreamOptions& chosen);
/// Names the variables that the library and the project's scripts read, so that they are not
/// reported as unknown.
void know_library_variables(Options& options);

/// Checks the options. Throws UsageError for values that contradict each other or the build.
void check(StreamOptions const& chosen);
/// Checks the runtime. Throws UsageError if CUDA is chosen and no GPU is visible.
void require_runtime(StreamOptions const& chosen);

/// Returns the options as a report shows them.
[[nodiscard]] nlohmann::ordered_json describe(StreamOptions const& chosen);
[[nodiscard]] nlohmann::ordered_json describe(UpdateOptions const& chosen);

/// Returns the name of a choice for users.
[[nodiscard]] std::string_view name_of(RuntimeChoice choice);
[[nodiscard]] std::string_view name_of(LaunchThreads choice);
[[nodiscard]] std::string_view name_of(ops::OptimizerKind kind);

}  // namespace msstream::support
