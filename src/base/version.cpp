// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/same_library.hpp>
#include <msstream/base/version.hpp>

char const MSSTREAM_LIBRARY_SYMBOL = 0;

namespace msstream {

std::string_view version() noexcept {
  return MSSTREAM_VERSION_STRING;
}

}  // namespace msstream
