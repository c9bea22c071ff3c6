// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <string>
#include <string_view>

namespace msstream::data::detail {

/// Returns what a user's conversion makes of a text; null if it returns or throws that it cannot
/// convert it. Writes what it throws to `reason`, unless that is null.
template <class Convert>
auto converted_by(Convert const& convert, std::string_view text, std::string* reason) {
  try {
    return convert(text);
  } catch (std::bad_alloc const&) {
    throw;
  } catch (std::exception const& error) {
    if (reason != nullptr) {
      *reason = error.what();
    }
  }
  return decltype(convert(text))();
}

}  // namespace msstream::data::detail
