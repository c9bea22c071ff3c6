// SPDX-License-Identifier: Apache-2.0
#include "doctor/findings.hpp"

#include "cli/failure_text.hpp"

#include <exception>

namespace msstream::doctor {

void Findings::attempt(Section section,
                       std::string const& id,
                       std::string const& thing,
                       std::function<Lines()> const& check) const {
  begin(section, thing);
  try {
    add(check());
  } catch (...) {
    add({failed_line(section, id, thing, cli::failure_text(std::current_exception()))});
  }
}

std::function<void(std::string_view)> Findings::begin_in(Section section) const {
  return [begin = begin, section](std::string_view check) { begin(section, check); };
}

}  // namespace msstream::doctor
