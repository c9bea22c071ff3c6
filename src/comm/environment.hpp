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

}  // namespace msstream::comm::detail
