// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/duration_text.hpp"

#include <fmt/core.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::overlap {

/// Counts things of one kind, such as events without a time, and keeps what the first one is.
class Counted {
 public:
  /// Counts one thing. `describe` returns what it is, and is called for the first one only.
  template <std::invocable Describe>
  void add(Describe const& describe) {
    if (++count_ == 1) {
      first_ = describe();
    }
  }

  [[nodiscard]] bool any() const noexcept { return count_ != 0; }
  /// Returns the count with its noun and the first thing, as `1 row has no time: kernel 7` or `2
  /// rows have no time, the first one: kernel 7`; empty if there is none.
  [[nodiscard]] std::string text(std::string_view one, std::string_view several) const {
    auto const counted = any() ? count_text(count_, one, several) : std::string();
    return first_.empty()
               ? counted
               : fmt::format("{}{}: {}", counted, count_ == 1 ? "" : ", the first one", first_);
  }
  /// Appends the text, if there is one.
  void note(std::vector<std::string>& notes, std::string_view one, std::string_view several) const {
    if (any()) {
      notes.push_back(text(one, several));
    }
  }

 private:
  std::uint64_t count_ = 0;
  std::string first_;
};

}  // namespace msstream::overlap
