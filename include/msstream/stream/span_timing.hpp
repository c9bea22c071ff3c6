// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <cstdint>

namespace msstream {

/// The meaning of an operation's recorded time. as_issued: from when the device reaches the
/// operation to its end, including time in which the operation waits for the host to launch its
/// remaining parts, or shares the device. held: the operation's own time alone, since a host
/// function holds each operation back until the host has launched all of it, and the host launches
/// the next one only when it is complete. With held, operations and host functions that wait for
/// work issued later, such as a collective with another rank on the same thread, never end.
enum class SpanTiming : std::uint8_t { as_issued, held };

}  // namespace msstream
