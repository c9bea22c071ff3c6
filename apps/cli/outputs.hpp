// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/output_file.hpp>

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// The output files of a program. If an output fails, the work continues and the other outputs are
/// written. run_program() reports all failures at the end and returns status 1.
namespace msstream::cli {

/// An option that names a file to write. If the path is empty, no file is written.
struct OutputOption {
  char const* name;
  std::string path;
  OutputFile::Kind kind = OutputFile::Kind::streamed;
};
/// An option that names a file to read. If the path is empty, no file is read.
struct InputOption {
  char const* name;
  std::string path;
  /// The option of the output that may replace this input, such as the model that a run resumes
  /// from; or nullptr.
  char const* replaced_by = nullptr;
};
/// Checks the outputs, before the work begins. Throws UsageError for an output that cannot be
/// written, and for one that is an input or another output, however its path is spelled: see
/// FileIdentity. A character device, such as /dev/null, may be named any number of times.
void check_outputs(std::vector<OutputOption> const& outputs,
                   std::vector<InputOption> const& inputs = {});

/// Calls `write`, which writes the file that `option` names. If `write` throws, records the
/// failure, which run_program() reports at the end.
void attempt_output(std::string_view option, std::function<void()> const& write);
/// Writes the file that `option` names, unless `path` is empty.
void write_output(std::string_view option,
                  std::filesystem::path const& path,
                  std::string_view content);
/// Writes to the standard output, and flushes it. Records a failure, which run_program() reports at
/// the end.
void print(std::string_view text);

/// Returns the messages of all failed outputs since the last call, oldest first.
[[nodiscard]] std::vector<std::string> take_output_failures();

}  // namespace msstream::cli
