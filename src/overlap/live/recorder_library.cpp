// SPDX-License-Identifier: Apache-2.0
#include "overlap/live/recorder_library.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#ifndef MSSTREAM_BUILD_FOLDER
#define MSSTREAM_BUILD_FOLDER ""
#define MSSTREAM_RECORDER_FOLDER ""
#endif

namespace msstream::overlap {
namespace {

namespace fs = std::filesystem;

constexpr char kRecorderFile[] = "libmsstream_overlap_record.so";
constexpr char kRecorderVariable[] = "MSSTREAM_OVERLAP_RECORDER";

std::string_view variable(char const* name) {
  char const* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// Returns the files that may be the recorder, the likeliest first.
std::vector<fs::path> candidates() {
  if (auto const chosen = variable(kRecorderVariable); !chosen.empty()) {
    return {chosen};
  }
  std::vector<fs::path> files;
  // A program that is recorded as a whole has the recorder already.
  if (auto const injected = variable("CUDA_INJECTION64_PATH"); injected.ends_with(kRecorderFile)) {
    files.emplace_back(injected);
  }
  std::error_code error;
  fs::path const here = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (char const* const folder : {".", "../lib/msstream", "../lib64/msstream"}) {
    files.push_back(here / folder / kRecorderFile);
  }
  // The folder of a build is looked into by its own programs only: others may not trust it.
  constexpr std::string_view kBuild = MSSTREAM_BUILD_FOLDER;
  if (!kBuild.empty() && here.string().starts_with(std::string(kBuild) + "/")) {
    files.push_back(fs::path(kBuild) / "tools/overlap" / kRecorderFile);
  }
  if (constexpr std::string_view kInstalled = MSSTREAM_RECORDER_FOLDER; !kInstalled.empty()) {
    files.push_back(fs::path(kInstalled) / kRecorderFile);
  }
  return files;
}

}  // namespace

RecorderLibrary RecorderLibrary::load() {
  RecorderLibrary library;
  auto const files = candidates();
  for (auto const& file : files) {
    std::error_code error;
    if (!fs::exists(file, error)) {
      continue;
    }
    void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) {
      library.why_not = fmt::format("the recorder cannot be loaded: {}", dlerror());
      return library;
    }
    library.start =
        reinterpret_cast<record::StartInProgram>(dlsym(handle, record::kStartInProgram));
    library.stop = reinterpret_cast<record::StopInProgram>(dlsym(handle, record::kStopInProgram));
    if (library.start == nullptr || library.stop == nullptr) {
      library.why_not = fmt::format("{} is of an older msstream", file.string());
    }
    return library;
  }
  library.why_not =
      files.size() == 1
          ? fmt::format("there is no {}, which {} names", files.front().string(), kRecorderVariable)
          : fmt::format("the recorder {} was not found; {} can name its file",
                        kRecorderFile,
                        kRecorderVariable);
  return library;
}

}  // namespace msstream::overlap
