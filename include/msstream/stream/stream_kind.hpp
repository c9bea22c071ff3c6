// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <cstdint>

namespace msstream {

/// The kinds of streams of a stream group: for kernels, and for copies to and from the device.
enum class StreamKind : std::uint8_t { compute, h2d, d2h };

}  // namespace msstream
