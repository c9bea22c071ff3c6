// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/page_columns.hpp"

#include <cstddef>

namespace msstream::overlap {

void append_base64(std::string& out, std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  out.reserve(out.size() + (bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    auto const rest = bytes.substr(i, 3);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = (group << 8U) | (k < rest.size() ? static_cast<unsigned char>(rest[k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= rest.size() ? kDigits[(group >> (18U - 6U * k)) & 63U] : '=';
    }
  }
}

}  // namespace msstream::overlap
