// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/start_thread.hpp>

#include <fmt/core.h>

namespace msstream::detail {

void throw_no_thread(std::system_error const& error, std::string_view purpose) {
  throw std::system_error(
      error.code(),
      fmt::format("cannot start a thread for {} (see the limits of processes, ulimit -u, and of "
                  "memory, ulimit -v)",
                  purpose));
}

}  // namespace msstream::detail
