// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/string_key.hpp>

#include <cstdint>
#include <string_view>

namespace msstream::datasets {

/// The key of an unknown value, which is empty or `?`.
inline constexpr std::int64_t unknown_key = data::string_key("");

/// Returns the key of a categorical value, which is one key for both spellings of an unknown value,
/// empty and `?`.
[[nodiscard]] constexpr std::int64_t categorical_key(std::string_view value) noexcept {
  return value == "?" ? unknown_key : data::string_key(value);
}

}  // namespace msstream::datasets
