// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/facts/environment.hpp"
#include "doctor/line.hpp"

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace msstream::doctor {

/// A CUDA toolkit, as its files tell. CUDA writes version 13.0 as 13000.
struct Toolkit {
  std::string folder = {};  ///< such as /usr/local/cuda-13.0, without links
  int version = 0;          ///< 0 if its files do not tell
  std::string nvcc = {};  ///< its compiler; empty without one, as in an image with libraries alone
  std::vector<std::string> named_by = {};  ///< such as `PATH`, `CUDA_HOME`, `/usr/local/cuda`
  /// The newest major versions of compilers that its headers accept; 0 if they do not tell.
  int most_gcc = 0;
  int most_clang = 0;
};

/// The compiler of host code that CMake takes.
struct HostCompiler {
  std::string path = {};
  bool is_clang = false;
  int major = 0;  ///< its major version; 0 if its files do not tell
};

/// The header of a library that a build can use.
struct FoundHeader {
  std::string file = {};      ///< empty if it was not found
  std::string version = {};   ///< as the header says; empty if it does not
  bool is_looked_for = true;  ///< CMake finds it without an option
};

/// The CUDA toolkits and compilers of the computer, which builds for CUDA need.
struct ToolkitFacts {
  std::vector<Toolkit> toolkits = {};
  std::optional<std::size_t> chosen = {};  ///< the toolkit whose nvcc CMake takes, by its place
  std::string chosen_by = {};              ///< `CUDACXX`, `PATH` or `CUDA_PATH`
  /// Variables that name a folder or a compiler where there is none: the name, and the value.
  std::vector<std::pair<std::string, std::string>> wrong_variables = {};
  HostCompiler compiler = {};
  FoundHeader cupti = {};
  FoundHeader nccl = {};
};

/// Returns the variables of the process that say where compilers are.
[[nodiscard]] Variables toolkit_variables();
/// Looks for toolkits where the variables and /usr/local/cuda* name them, and for the compiler and
/// the headers that CMake would take. Reads files, and starts no program.
[[nodiscard]] ToolkitFacts read_toolkits(Variables const& variables,
                                         std::filesystem::path const& root = "/");

/// Returns the lines. `driver_supports` is the CUDA that the driver supports, such as 13000; 0
/// without one.
[[nodiscard]] Lines toolkit_lines(ToolkitFacts const& facts, int driver_supports);
/// Returns how to get a build for CUDA on this computer, in sentences.
[[nodiscard]] std::string way_to_cuda_build(ToolkitFacts const& facts, int driver_supports);

}  // namespace msstream::doctor
