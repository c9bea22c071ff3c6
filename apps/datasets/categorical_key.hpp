// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/counter_random.hpp"

#include <bit>
#include <cstdint>
#include <string_view>

namespace msstream::datasets {

/// Returns the key of a categorical value: FNV-1a over its bytes, then a finaliser, because the
/// upper bits of FNV of short strings hardly differ. Keys are equal on every machine and must not
/// change, since saved models depend on them.
[[nodiscard]] constexpr std::int64_t string_key(std::string_view value) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (char const character : value) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001B3ULL;
  }
  return std::bit_cast<std::int64_t>(mix64(hash));
}

/// The key of an unknown value, which is empty or `?`.
inline constexpr std::int64_t unknown_key = string_key("");

/// Returns the key of a categorical value, which is one key for both spellings of an unknown value,
/// empty and `?`.
[[nodiscard]] constexpr std::int64_t categorical_key(std::string_view value) noexcept {
  return value == "?" ? unknown_key : string_key(value);
}

}  // namespace msstream::datasets
