// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msstream::ops {

/// The reporting of an id outside [0, rows), and of a bag whose offsets do not ascend within the
/// ids or values. With every policy such an id contributes nothing, and such a bag is empty.
enum class OutOfRange : std::uint8_t {
  drop,   ///< ignores the id, in the sum and in the mean's count; the bag is empty
  trap,   ///< like drop, and the next host synchronisation throws std::out_of_range
  count,  ///< like drop, and increments a counter
};

}  // namespace msstream::ops
