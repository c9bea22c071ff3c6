// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"

#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace msstream::doctor {

/// Returns the only line of a check. Throws std::out_of_range if there is none, or more than one.
inline Line the_line(Lines const& lines, std::string_view id) {
  Line const* found = nullptr;
  for (auto const& line : lines) {
    if (line.id == id) {
      if (found != nullptr) {
        throw std::out_of_range("two lines " + std::string(id));
      }
      found = &line;
    }
  }
  if (found == nullptr) {
    throw std::out_of_range("no line " + std::string(id));
  }
  return *found;
}

/// Returns the level of the only line of a check.
inline Level level_of(Lines const& lines, std::string_view id) {
  return the_line(lines, id).level;
}

inline std::ostream& operator<<(std::ostream& out, Level level) {
  return out << name_of(level);
}

}  // namespace msstream::doctor
