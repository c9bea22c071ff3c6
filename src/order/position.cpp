// SPDX-License-Identifier: Apache-2.0
#include <msstream/order/position.hpp>

#include <fmt/core.h>

namespace msstream::order {

std::string to_string(Position const& position) {
  return fmt::format("stream {} @ {}", position.stream, position.number);
}

}  // namespace msstream::order
