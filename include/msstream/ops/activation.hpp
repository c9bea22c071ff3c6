// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops {

/// The function that a dense layer applies to its outputs. relu is max(x, 0), and NaN stays NaN.
enum class Activation : std::uint8_t { none, relu };

}  // namespace msstream::ops
