// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/facts/environment.hpp"
#include "doctor/line.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace msstream::doctor {

/// A shared library without which programs of a build do not start.
struct NeededLibrary {
  std::string name = {};
  std::string problem = {};  ///< why it cannot be loaded; empty if it can
};

/// A tool that a variable names, and that is loaded into each program.
struct InjectedTool {
  std::string library = {};  ///< the value of the variable; empty if it is not set
  std::string problem = {};  ///< why the library is of no use; empty if it can be loaded
};

/// Tools that observe the process, and libraries that msstream uses if they are there.
struct LibraryFacts {
  bool is_cuda_build = false;
  std::vector<NeededLibrary> needed = {};  ///< of the toolkit, in a build for CUDA
  InjectedTool nvtx_tool = {};             ///< of NVTX_INJECTION64_PATH: gets NVTX ranges
  InjectedTool cuda_tool = {};             ///< of CUDA_INJECTION64_PATH: gets calls of CUDA
  bool nvtx_counters = false;              ///< the build has NVTX's counters

  bool has_cupti = false;
  std::string cupti_problem = {};  ///< why CUPTI cannot be loaded
  bool has_driver = false;         ///< without one, CUPTI cannot be tried
  /// The result of cuptiSubscribe(): 0 if it worked, empty if it was not tried.
  std::optional<int> cupti_subscribe = {};
  /// Whether the driver reserves performance counters for administrators; empty if unknown.
  std::optional<bool> counters_restricted = {};
  bool may_administrate = false;  ///< the process has CAP_SYS_ADMIN

  std::string module_loading = {};  ///< the value of CUDA_MODULE_LOADING

  bool nccl_built_in = false;
  std::optional<int> nccl_version = {};  ///< such as 22703 for 2.27.3, of what can be loaded
  bool mpi_built_in = false;
  std::string mpi_version = {};  ///< the first line of what MPI says; empty if it cannot be loaded
};

/// Result codes of cuptiSubscribe().
inline constexpr int kCuptiSuccess = 0;
inline constexpr int kCuptiManySubscribers = 39;  // CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED

/// Reads the libraries. Loads CUPTI, and subscribes for a moment if there is a driver; a build for
/// CUDA also loads the tools that variables name: do it after measurements. `driver_supports` is
/// the CUDA that the driver supports, such as 13000; 0 without one. `toolkit` is that of the build;
/// 0 in a build for the host.
[[nodiscard]] LibraryFacts read_libraries(Variables const& variables,
                                          int driver_supports,
                                          int toolkit,
                                          std::filesystem::path const& root = "/");
[[nodiscard]] Lines library_lines(LibraryFacts const& facts);

}  // namespace msstream::doctor
