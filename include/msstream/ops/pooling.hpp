// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops {

/// The reduction of the rows of one bag to one output row. w is the weight of an id, or 1 without
/// weights.
///
/// sum: Σ w·row. mean: Σ w·row / Σ w. sqrtn: Σ w·row / sqrt(Σ w²). max: the largest element of each
/// column, without weights; NaN is larger than any number. none: no reduction, one output row per
/// id, times w. A bag without a valid id gives 0, unless it has a default id. A bag whose divisor
/// is 0 gives 0.
enum class Pooling : std::uint8_t { sum, mean, sqrtn, max, none };

}  // namespace msstream::ops
