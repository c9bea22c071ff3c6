// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace msstream::doctor {

/// A GPU architecture for which code was compiled, such as 90, 90a or 100f.
struct Architecture {
  int number = 0;  ///< ten times the compute capability, such as 90
  /// `a` for code of this compute capability alone; `f` for code of its family; 0 for plain code.
  char suffix = '\0';

  friend bool operator==(Architecture const&, Architecture const&) = default;
};

/// For which devices the kernels of a build are compiled.
struct BuiltKernels {
  std::vector<Architecture> machine_code = {};
  std::vector<Architecture> ptx = {};  ///< which the driver compiles when a program starts
};

/// Returns what a build contains for `list`, a value of CMAKE_CUDA_ARCHITECTURES apart by commas or
/// semicolons, such as `75-real,90`. `compiled` are the architectures that nvcc says it compiled
/// for, such as 90: they stand for the entries `native`, `all` and `all-major`. Leaves out entries
/// that it does not know.
[[nodiscard]] BuiltKernels built_kernels(std::string_view list, std::vector<int> const& compiled);

/// How kernels get to a device.
enum class KernelPath {
  machine_code,  ///< the build has it
  ptx,           ///< the driver compiles them when a program starts
  none,          ///< they do not run
};
/// Returns how the kernels get to a device of a compute capability, such as 90 for 9.0, with a
/// driver that compiles PTX.
[[nodiscard]] KernelPath path_to(int capability, BuiltKernels const& built);

/// Writes what a build contains, such as `sm_75, sm_90 and PTX of compute_90`; empty if nothing.
[[nodiscard]] std::string text_of(BuiltKernels const& built);

}  // namespace msstream::doctor
