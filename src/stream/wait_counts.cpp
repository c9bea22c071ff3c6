// SPDX-License-Identifier: Apache-2.0
#include <msstream/stream/wait_counts.hpp>

#include <fmt/core.h>

namespace msstream {

std::string to_string(WaitCounts const& counts) {
  return fmt::format(
      "{} waits needed, {} issued, {} elided", counts.needed, counts.issued, counts.elided);
}

}  // namespace msstream
