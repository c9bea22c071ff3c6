// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace msstream::detail {

/// Returns the text as a JSON string, including the quotes.
[[nodiscard]] inline std::string json_string(std::string_view text) {
  constexpr char const* hex = "0123456789abcdef";
  std::string json = "\"";
  for (char const letter : text) {
    auto const code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      json += '\\';
      json += letter;
    } else if (code < 0x20) {
      json += "\\u00";
      json += hex[code >> 4U];
      json += hex[code & 15U];
    } else {
      json += letter;
    }
  }
  return json + "\"";
}

}  // namespace msstream::detail
