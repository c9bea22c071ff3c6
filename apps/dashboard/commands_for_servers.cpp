// SPDX-License-Identifier: Apache-2.0
#include "dashboard/server.hpp"

#include <fmt/core.h>

namespace msstream::dashboard {

std::string commands_for_servers(std::string const& program) {
  // CMake looks again for what it has not found.
  return fmt::format(
      "apt-get install libmicrohttpd-dev && cmake '{0}' && cmake --build '{0}' --target {1}",
      MSSTREAM_BUILD_FOLDER,
      program);
}

}  // namespace msstream::dashboard
