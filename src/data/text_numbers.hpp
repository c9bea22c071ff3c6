// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/detail/counter_random.hpp>
#include <msstream/data/detail/text_values.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

/// Conversions of short texts, eight bytes at a time in a 64-bit word (SWAR). All return what the
/// byte-wise functions return.
namespace msstream::data::detail {

/// Returns the first min(8, size) bytes of the text in the lower bytes of a word. `end` is the end
/// of the memory that may be read, at or behind the end of the text.
[[nodiscard]] inline std::uint64_t load_word(std::string_view text, char const* end) noexcept {
  std::uint64_t word = 0;
  if (end - text.data() >= 8) [[likely]] {
    std::memcpy(&word, text.data(), 8);
  } else {
    std::memcpy(&word, text.data(), text.size() < 8 ? text.size() : 8);
  }
  return word;
}

/// Returns the number that 1 to 8 decimal digits spell; -1 if a byte is no digit.
[[nodiscard]] inline std::int64_t digits(std::string_view text, char const* end) noexcept {
  // Moves the digits to the upper bytes, and puts zeros ('0') in front of them. One shift by 8 and
  // one by the rest, since a shift by 64 is undefined.
  auto const unused = 8U * static_cast<unsigned>(8 - text.size());
  std::uint64_t word = load_word(text, end) << unused;
  word |= (0x3030303030303030ULL >> 8U) >> (56U - unused);
  std::uint64_t const low = word & 0x0F0F0F0F0F0F0F0FULL;
  // A digit has the upper half 3, also after 6 is added. A carry into the next byte would need an
  // upper half of 15.
  std::uint64_t const upper = 0xF0F0F0F0F0F0F0F0ULL;
  std::uint64_t const wrong = ((word & upper) ^ 0x3030303030303030ULL) |
                              (((word + 0x0606060606060606ULL) & upper) ^ 0x3030303030303030ULL);
  if (wrong != 0) [[unlikely]] {
    return -1;
  }
  // Joins neighbours: 8 digits, 4 numbers of two digits, 2 of four, 1 of eight.
  std::uint64_t const twos = (low * 10 + (low >> 8U)) & 0x00FF00FF00FF00FFULL;
  std::uint64_t const fours = (twos * 100 + (twos >> 16U)) & 0x0000FFFF0000FFFFULL;
  return static_cast<std::int64_t>((fours * 10'000 + (fours >> 32U)) & 0xFFFFFFFFULL);
}

/// Returns the number that the whole text spells; nothing if there is none.
[[nodiscard]] inline std::optional<std::int64_t> to_int64(std::string_view text,
                                                          char const* end) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    bool const negative = text.starts_with('-');
    auto const unsigned_text = text.substr(negative ? 1 : 0);
    if (unsigned_text.size() - 1 < 8) [[likely]] {
      auto const value = digits(unsigned_text, end);
      if (value >= 0) [[likely]] {
        return negative ? -value : value;
      }
      return std::nullopt;
    }
  }
  return parse_number<std::int64_t>(text);
}

/// Returns the finite number that the whole text spells, rounded to the nearest float; nothing if
/// there is none.
[[nodiscard]] inline std::optional<float> to_float32(std::string_view text,
                                                     char const* end) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    bool const negative = text.starts_with('-');
    auto const unsigned_text = text.substr(negative ? 1 : 0);
    if (unsigned_text.size() - 1 < 8) [[likely]] {
      auto const value = digits(unsigned_text, end);
      if (value >= 0) [[likely]] {
        auto const rounded = static_cast<float>(value);
        return negative ? -rounded : rounded;
      }
    }
  }
  return parse_number<float>(text);
}

/// Returns string_key(text).
[[nodiscard]] inline std::int64_t fast_string_key(std::string_view text, char const* end) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325ULL;
  constexpr std::uint64_t prime = 0x100000001B3ULL;
  if constexpr (std::endian::native == std::endian::little) {
    while (text.size() >= 8) {
      std::uint64_t word = load_word(text, end);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        hash = (hash ^ (word & 0xFFU)) * prime;
        word >>= 8U;
      }
      text.remove_prefix(8);
    }
  }
  for (char const character : text) {
    hash = (hash ^ static_cast<unsigned char>(character)) * prime;
  }
  return std::bit_cast<std::int64_t>(mix64(hash));
}

}  // namespace msstream::data::detail
