// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "doctor/line.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace msstream::doctor {

/// Takes what a run finds, as it finds it.
struct Findings {
  std::function<void(Lines)> add;
  /// Gets the name of each check before it, and the section of its lines.
  std::function<void(Section, std::string_view)> begin;

  /// Begins a check, runs it, and adds its lines. If it throws, adds a bad line with the message.
  void attempt(Section section,
               std::string const& id,
               std::string const& thing,
               std::function<Lines()> const& check) const;
  /// Returns a function that begins checks of one section.
  [[nodiscard]] std::function<void(std::string_view)> begin_in(Section section) const;
};

}  // namespace msstream::doctor
