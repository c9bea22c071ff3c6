// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>

#include <fmt/core.h>

#include <stdexcept>

namespace msstream {

RuntimeError::RuntimeError(std::string const& library,
                           int code,
                           std::string const& meaning,
                           std::string const& call,
                           std::source_location where)
    : std::runtime_error(fmt::format("{} error {} ({}) in {} at {}:{}",
                                     library,
                                     code,
                                     meaning,
                                     call,
                                     where.file_name(),
                                     where.line())),
      code_(code) {}

namespace detail {

void throw_invalid_argument(std::string_view message) {
  throw std::invalid_argument(std::string(message));
}

}  // namespace detail
}  // namespace msstream
