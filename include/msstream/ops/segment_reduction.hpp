// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops {

/// The reduction of the rows of one segment to one row. sqrtn is the sum divided by the square root
/// of the number of rows.
enum class SegmentReduction : std::uint8_t { sum, mean, sqrtn, max, min, prod };

}  // namespace msstream::ops
