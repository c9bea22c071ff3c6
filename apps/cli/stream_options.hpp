// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/options.hpp"

#include <msstream/stream/stream_pool.hpp>

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string_view>

/// The command-line options for the runtime and the streams, with their defaults, which programs
/// share.
namespace msstream::cli {

enum class RuntimeChoice : std::uint8_t { host, cuda };

/// The choice of a program's runtime, and of its stream groups.
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

/// Adds the options for the runtime and the streams, under the title "Streams".
void add_options(Options& options, StreamOptions& chosen);

/// Reads the library's environment variables: stores those that have an option, and checks the
/// others, since the library itself would refuse bad values only after the data is loaded. Throws
/// UsageError for a bad value.
void read_library_variables(StreamOptions& chosen);
/// Declares the environment variables that the library and the project's scripts read, so that they
/// are not reported as unknown.
void know_library_variables(Options& options);

/// Checks the options for the runtime and the streams. Throws UsageError for values that contradict
/// each other or the build.
void check(StreamOptions const& chosen);
/// Throws UsageError if CUDA is chosen and no GPU is visible.
void require_runtime(StreamOptions const& chosen);

/// Returns the options as JSON, for a program's report.
[[nodiscard]] nlohmann::ordered_json describe(StreamOptions const& chosen);

/// Returns the choice as users spell it on the command line, such as `cuda` or `per_group`.
[[nodiscard]] std::string_view name_of(RuntimeChoice choice);
[[nodiscard]] std::string_view name_of(LaunchThreads choice);

}  // namespace msstream::cli
