// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream {

/// The time when a group's libraries are created, which takes memory from the driver. at_once:
/// together with the group; when_needed: at their first use, which may wait for work in flight.
enum class LibrariesMade : std::uint8_t { at_once, when_needed };

}  // namespace msstream
