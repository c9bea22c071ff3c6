// SPDX-License-Identifier: Apache-2.0
#include "cli/outputs.hpp"

#include "cli/failure_text.hpp"
#include "cli/options.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/base/detail/file_identity.hpp>
#include <msstream/runtime/default_runtime.hpp>

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

namespace msstream::cli {

namespace {

struct OutputFailures {
  std::mutex mutex;
  std::vector<std::string> messages;
  bool print_failed = false;
};
OutputFailures& output_failures() {
  static OutputFailures all;
  return all;
}

bool is_character_device(std::string const& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISCHR(status.st_mode);
}

/// The variable that names the file to which the library of a checking build writes its findings,
/// unless the program writes them.
constexpr char const* kCheckReport = "MSSTREAM_CHECK_REPORT";

std::string_view name_of_output(OutputOption const& output) {
  return output.name;
}

/// Returns the identity of an output's file; nothing for a device, which may be named any number of
/// times.
std::optional<detail::FileIdentity> told_apart(std::string const& path) {
  return path.empty() || is_character_device(path) ? std::nullopt : detail::identity_of(path);
}

}  // namespace

void check_outputs(std::vector<OutputOption> const& outputs,
                   std::vector<InputOption> const& inputs) {
  auto all = outputs;
  if (MSSTREAM_CHECKED &&
      std::ranges::find(all, std::string_view("--check-report"), name_of_output) == all.end()) {
    all.push_back({kCheckReport, std::string(env::value_of(kCheckReport))});
  }
  std::map<detail::FileIdentity, char const*> writers;
  for (auto const& [name, path, kind] : all) {
    auto const refuse = [&, name = name, &path = path](std::string_view reason) {
      throw UsageError(fmt::format("{} {}: {}", name, path, reason));
    };
    if (path.empty()) {
      continue;
    }
    // Compares the files before trying to write them, since a message about contradicting options
    // is more useful.
    if (auto const identity = told_apart(path)) {
      if (auto const [other, is_first] = writers.emplace(*identity, name); !is_first) {
        refuse(fmt::format("{} writes that file", other->second));
      }
      for (auto const& input : inputs) {
        bool const may_replace =
            input.replaced_by != nullptr && std::string_view(input.replaced_by) == name;
        if (!may_replace && told_apart(input.path) == identity) {
          refuse(fmt::format("{} reads that file", input.name));
        }
      }
    }
    if (auto const problem = output_problem(path, kind); !problem.empty()) {
      refuse(problem);
    }
  }
}

void attempt_output(std::string_view option, std::function<void()> const& write) {
  try {
    write();
  } catch (...) {
    auto message = fmt::format("{}: {}", option, failure_text(std::current_exception()));
    auto& failures = output_failures();
    std::lock_guard const guard(failures.mutex);
    failures.messages.push_back(std::move(message));
  }
}

void write_output(std::string_view option,
                  std::filesystem::path const& path,
                  std::string_view content) {
  if (!path.empty()) {
    attempt_output(option, [&] { write_file(path, content, OutputFile::Kind::streamed); });
  }
}

void print(std::string_view text) {
  errno = 0;
  std::cout << text << std::flush;
  // Checks C's stdout, too: output by its functions, such as printf(), may also have failed.
  if (std::cout && std::ferror(stdout) == 0) {
    return;
  }
  int const error = errno;
  auto& failures = output_failures();
  std::lock_guard const guard(failures.mutex);
  if (!std::exchange(failures.print_failed, true)) {
    failures.messages.push_back(
        "cannot write to the standard output" +
        (error == 0 ? std::string() : ": " + std::generic_category().message(error)));
  }
}

std::vector<std::string> take_output_failures() {
  auto& failures = output_failures();
  std::lock_guard const guard(failures.mutex);
  failures.print_failed = false;
  return std::exchange(failures.messages, {});
}

}  // namespace msstream::cli
