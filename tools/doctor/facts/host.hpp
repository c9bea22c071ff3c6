// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace msstream::doctor {

/// The processors of the computer, and those for which the library was compiled.
struct HostFacts {
  std::string model = {};            ///< the name of the processor; empty if unknown
  int online = 1;                    ///< processors that run
  int allowed = 1;                   ///< those on which this process may run
  std::optional<double> quota = {};  ///< processors' worth of time that a control group allows
  int numa_nodes = 1;
  int allowed_nodes = 1;                ///< nodes with a processor on which this process may run
  std::set<std::string> features = {};  ///< instruction sets, as /proc/cpuinfo names them
  std::string governor = {};            ///< how the frequency is chosen; empty if unknown
  std::vector<std::string> compiled_for = {};  ///< instruction sets that the kernels use
  bool is_native = false;  ///< the kernels are compiled for the processor of the build alone
};

[[nodiscard]] HostFacts read_host(std::filesystem::path const& root = "/");
[[nodiscard]] Lines host_lines(HostFacts const& facts);

/// Returns how many processors' worth of work the process may do: at least 1.
[[nodiscard]] double usable_processors(HostFacts const& facts) noexcept;

}  // namespace msstream::doctor
