// SPDX-License-Identifier: Apache-2.0
#include <msstream/step/prefetch.hpp>

#include <fmt/core.h>

#include <stdexcept>

namespace msstream::detail {

void throw_bad_ahead(int ahead) {
  throw std::invalid_argument(fmt::format("Prefetch: ahead is {}; expected at least 1", ahead));
}

}  // namespace msstream::detail
