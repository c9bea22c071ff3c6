// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>
#include <msstream/data/detail/counter_random.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace msstream::data {

namespace detail {

/// Returns the first min(8, size) bytes of the value as a little-endian number.
[[nodiscard]] constexpr std::uint64_t first_word(std::string_view value) noexcept {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < value.size() && i < 8; ++i) {
    word |= static_cast<std::uint64_t>(static_cast<unsigned char>(value[i])) << (8 * i);
  }
  return word;
}

}  // namespace detail

/// Returns the key of a string, which is equal on every machine and must not change, since saved
/// models depend on it.
///
/// The key is made of words of 8 bytes, little-endian; the last one, of 0 to 8 bytes, is filled up
/// with zeros. h begins as (length + 1) * 0x9E3779B97F4A7C15 modulo 2^64. For each word, h becomes
/// mix64(h ^ word), where mix64 is the finaliser of MurmurHash3. So strings of equal length up to 8
/// have different keys.
[[nodiscard]] constexpr std::int64_t string_key(std::string_view value) noexcept {
  std::uint64_t hash = (value.size() + 1) * 0x9E3779B97F4A7C15ULL;
  for (; value.size() > 8; value.remove_prefix(8)) {
    hash = detail::mix64(hash ^ detail::first_word(value));
  }
  return std::bit_cast<std::int64_t>(detail::mix64(hash ^ detail::first_word(value)));
}

/// Returns the row that a key has in a table of `buckets` rows: the remainder of the key, taken as
/// an unsigned number. `buckets` is at least 1.
[[nodiscard]] constexpr std::int64_t bucket_of(std::int64_t key, std::int64_t buckets) noexcept {
  return static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(key) %
                                   static_cast<std::uint64_t>(buckets));
}

}  // namespace msstream::data
