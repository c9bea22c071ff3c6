// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Formatting of the types of this library with fmt, as in `fmt::format("{:>12}", tensor.shape())`.
/// Optional: no other public header includes it or fmt.

#include <msstream/base/described.hpp>

#include <fmt/core.h>

namespace msstream::detail {

/// Writes a text with the width and alignment that `specification` has.
fmt::appender format_text(fmt::formatter<fmt::string_view> const& specification,
                          fmt::string_view text,
                          fmt::format_context& context);

}  // namespace msstream::detail

/// Formats the result of `to_string()` or `name_of()` as a string.
template <msstream::detail::Printed T>
struct fmt::formatter<T, char> : fmt::formatter<fmt::string_view> {
  fmt::appender format(T const& value, fmt::format_context& context) const {
    return msstream::detail::format_text(*this, msstream::detail::text_of(value), context);
  }
};
