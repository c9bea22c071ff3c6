// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/world.hpp>

#include <functional>
#include <string_view>

namespace msstream::comm::detail {

/// A function that returns the value of an environment variable; empty if it is not set.
using Variables = std::function<std::string_view(char const* variable)>;

/// Returns the world that World::from_environment() describes, of the given variables.
[[nodiscard]] World world_of(Variables const& variables);

/// Finds the other processes of a world that a launcher of MPI has started, or throws.
using FindProcesses = World (*)(World const& of_environment);
/// Returns the function by which World::from_environment() finds processes; null without MPI.
[[nodiscard]] FindProcesses& find_processes() noexcept;

}  // namespace msstream::comm::detail
