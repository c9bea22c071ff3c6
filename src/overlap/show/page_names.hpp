// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "overlap/recording/recording.hpp"
#include "overlap/show/text.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace msstream::overlap {

/// The names that the page shows, numbered by their first use. 0 is the empty name. Names are
/// printable and at most kLongest characters long.
class PageNames {
 public:
  static constexpr std::size_t kLongest = 600;

  explicit PageNames(Names const& names) : names_(names), numbers_(names.size(), 0) {}

  [[nodiscard]] std::uint64_t number_of(NameId name) {
    auto& number = numbers_.at(name);
    if (number == 0 && !names_[name].empty()) {
      number = add(printable(names_[name]));
    }
    return number;
  }
  /// Returns the number of a range's name, with its source line if that is known.
  [[nodiscard]] std::uint64_t number_of(Range const& range) {
    if (range.source == 0) {
      return number_of(range.name);
    }
    auto const key = (std::uint64_t{range.name} << 32U) | range.source;
    auto& number = with_source_[key];
    if (number == 0) {
      number = add(printable(names_[range.name]) + " (" + printable(names_[range.source]) + ")");
    }
    return number;
  }
  [[nodiscard]] std::vector<std::string> const& texts() const noexcept { return texts_; }

 private:
  std::uint64_t add(std::string const& text) {
    texts_.push_back(fit_to(text, kLongest));
    return texts_.size() - 1;
  }

  Names const& names_;
  std::vector<std::uint64_t> numbers_;  ///< by NameId; 0 before its first use
  std::unordered_map<std::uint64_t, std::uint64_t> with_source_;
  std::vector<std::string> texts_{std::string()};
};

}  // namespace msstream::overlap
