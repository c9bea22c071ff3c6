// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/position_set.hpp>

#include <ostream>
#include <vector>

namespace msstream::order {

/// What a failing test prints.
inline void PrintTo(Position const& position, std::ostream* out) {
  *out << position.describe();
}

namespace testing {

inline std::vector<Position> positions(PositionSet const& set) {
  return {set.begin(), set.end()};
}

}  // namespace testing
}  // namespace msstream::order
