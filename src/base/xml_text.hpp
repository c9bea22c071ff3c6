// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace msstream::detail {

/// Returns a text as SVG and HTML show it, in elements and in quoted attributes. Control
/// characters, which XML does not allow, become spaces.
[[nodiscard]] inline std::string xml_text(std::string_view raw) {
  std::string out;
  for (char const letter : raw) {
    switch (letter) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
    }
  }
  return out;
}

}  // namespace msstream::detail
