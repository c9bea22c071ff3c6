// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

namespace msstream::overlap {

/// Returns the file of a line of Python that is named as "train.py(42): log_loss"; empty if a text
/// is no such name.
[[nodiscard]] inline std::optional<std::string_view> file_of_python_line(std::string_view name) {
  auto const end = name.find("): ");
  if (end == std::string_view::npos || end == 0) {
    return std::nullopt;
  }
  auto const begin = name.find_last_not_of("0123456789", end - 1);
  if (begin == std::string_view::npos || begin == 0 || begin + 1 >= end || name[begin] != '(') {
    return std::nullopt;
  }
  return name.substr(0, begin);
}

}  // namespace msstream::overlap
