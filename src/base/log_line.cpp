// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/log_line.hpp>

#include <iostream>

namespace msstream::detail {

void log_line(std::string const& line) {
  std::clog << line << std::endl;
}

}  // namespace msstream::detail
