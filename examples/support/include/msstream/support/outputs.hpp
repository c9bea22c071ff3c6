// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/output_file.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// The files that a program writes besides its work. An output that fails does not end the work,
/// and the other outputs are written: run_program() tells of all failures at the end, and its
/// status is 1.
namespace msstream::support {

/// An option that names a file to write; empty: none.
struct OutputOption {
  char const* name;
  std::string path;
  OutputKind kind = OutputKind::streamed;
};
/// An option that names a file to read; empty: none.
struct InputOption {
  char const* name;
  std::string path;
  /// The output that may replace this input, as the model that a run goes on from; or nullptr.
  char const* replaced_by = nullptr;
};
/// To be called before the work begins. Throws UsageError for an output that cannot be written, and
/// for one that is an input or another output, however it is spelled: see FileIdentity. A character
/// device, as /dev/null, may be named any number of times.
void check_outputs(std::vector<OutputOption> const& outputs,
                   std::vector<InputOption> const& inputs = {});

/// Calls `write`, which writes what `option` names; remembers what it throws.
void attempt_output(std::string_view option, std::function<void()> const& write);
/// Writes the file that `option` names, unless `path` is empty.
void write_output(std::string_view option,
                  std::filesystem::path const& path,
                  std::string_view content);
/// Writes to the standard output, and flushes it.
void print(std::string_view text);

/// The messages of what has failed since the last call, oldest first.
[[nodiscard]] std::vector<std::string> take_output_failures();

}  // namespace msstream::support
