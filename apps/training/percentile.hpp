// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace msstream::training {

/// Returns the value that `percent` of the values do not exceed, interpolated between the two
/// nearest. Throws std::invalid_argument if there are no values, and for a percentage outside [0,
/// 100].
[[nodiscard]] double percentile(std::span<double const> values, double percent);

}  // namespace msstream::training
