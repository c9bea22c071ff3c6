// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/order/detail/position_set.hpp>

#include <vector>

namespace msstream::order::testing {

inline std::vector<Position> positions(PositionSet const& set) {
  return {set.begin(), set.end()};
}

}  // namespace msstream::order::testing
