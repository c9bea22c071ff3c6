// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/detail/counter_random.hpp>

#include <bit>
#include <cstdint>
#include <string_view>

namespace msstream::data {

/// Returns the key of a string: FNV-1a over its bytes, then the finaliser of MurmurHash3, because
/// the upper bits of FNV of short strings hardly differ. Keys are equal on every machine and must
/// not change, since saved models depend on them.
[[nodiscard]] constexpr std::int64_t string_key(std::string_view value) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  for (char const character : value) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001B3ULL;
  }
  return std::bit_cast<std::int64_t>(detail::mix64(hash));
}

/// Returns the row that a key has in a table of `buckets` rows: the remainder of the key, taken as
/// an unsigned number. `buckets` is at least 1.
[[nodiscard]] constexpr std::int64_t bucket_of(std::int64_t key, std::int64_t buckets) noexcept {
  return static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(key) %
                                   static_cast<std::uint64_t>(buckets));
}

}  // namespace msstream::data
