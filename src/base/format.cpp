// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/format.hpp>

#include <fmt/format.h>

namespace msstream::detail {

fmt::appender format_text(fmt::formatter<fmt::string_view> const& specification,
                          fmt::string_view text,
                          fmt::format_context& context) {
  return specification.format(text, context);
}

}  // namespace msstream::detail
