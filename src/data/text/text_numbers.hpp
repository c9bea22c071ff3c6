// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/data/detail/counter_random.hpp>
#include <msstream/data/detail/text_values.hpp>
#include <msstream/data/string_key.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

/// Conversions of short texts, eight bytes at a time in a 64-bit word (SWAR). All return what the
/// byte-wise functions return.
namespace msstream::data::detail {

/// The memory that the texts are parts of, all of which may be read.
struct TextMemory {
  char const* begin;
  char const* end;

  /// Returns whether the eight bytes up to the end of a text, or those from its begin on, may be
  /// read.
  [[nodiscard]] bool has_word_before(char const* text_end) const { return text_end - begin >= 8; }
  [[nodiscard]] bool has_word_at(char const* text_begin) const { return end - text_begin >= 8; }
};

/// Masks by number of bytes, from 0 to 8; those of 9 to 15 bytes are zeros. Two loads are faster
/// than shifts by a variable number of bits, of which a shift by 64 would also be undefined.
struct WordMasks {
  std::uint64_t lower[16] = {};  ///< of the lower bytes of a word
  std::uint64_t upper[16] = {};  ///< of the upper bytes of a word
  std::uint64_t zeros[16] = {};  ///< zeros ('0') in the bytes that are not the upper ones
  std::uint64_t seeds[16] = {};  ///< with which the key of a string of so many bytes begins
  constexpr WordMasks() {
    for (unsigned bytes = 0; bytes < 9; ++bytes) {
      for (unsigned i = 0; i < 8; ++i) {
        lower[bytes] |= i < bytes ? std::uint64_t{0xFF} << (8 * i) : 0;
        upper[bytes] |= i >= 8 - bytes ? std::uint64_t{0xFF} << (8 * i) : 0;
        zeros[bytes] |= i < 8 - bytes ? std::uint64_t{'0'} << (8 * i) : 0;
      }
      seeds[bytes] = (bytes + 1) * 0x9E3779B97F4A7C15ULL;
    }
  }
};
inline constexpr WordMasks kWordMasks;

/// Returns a text of up to 8 bytes in the lower bytes of a word, with zeros above them.
template <class Memory>
[[nodiscard]] inline std::uint64_t lower_word(std::string_view text, Memory memory) noexcept {
  std::uint64_t word = 0;
  if (memory.has_word_at(text.data())) [[likely]] {
    std::memcpy(&word, text.data(), 8);
    return word & kWordMasks.lower[text.size()];
  }
  if (!text.empty()) {
    std::memcpy(&word, text.data(), text.size());
  }
  return word;
}

/// Returns a text of up to 8 bytes in the upper bytes of a word, with zeros ('0') below them.
template <class Memory>
[[nodiscard]] inline std::uint64_t number_word(std::string_view text, Memory memory) noexcept {
  std::uint64_t word = 0;
  char const* const end = text.data() + text.size();
  if (memory.has_word_before(end)) [[likely]] {
    std::memcpy(&word, end - 8, 8);
    word &= kWordMasks.upper[text.size()];
  } else if (!text.empty()) {
    std::memcpy(reinterpret_cast<char*>(&word) + 8 - text.size(), text.data(), text.size());
  }
  return word | kWordMasks.zeros[text.size()];
}

/// Returns the number that eight decimal digits in a word spell, and writes whether a byte is no
/// digit.
[[nodiscard]] inline std::uint32_t number_of_digits(std::uint64_t word, bool& wrong) noexcept {
  // A digit has the upper half 3, also after 6 is added. A carry into the next byte would need an
  // upper half of 15.
  constexpr std::uint64_t upper = 0xF0F0F0F0F0F0F0F0ULL;
  wrong = (((word & upper) ^ 0x3030303030303030ULL) |
           (((word + 0x0606060606060606ULL) & upper) ^ 0x3030303030303030ULL)) != 0;
  // Joins neighbours: 8 digits, 4 numbers of two digits, 2 of four, 1 of eight.
  std::uint64_t const low = word & 0x0F0F0F0F0F0F0F0FULL;
  std::uint64_t const twos = ((low * 10) + (low >> 8U)) & 0x00FF00FF00FF00FFULL;
  std::uint64_t const fours = (twos * 100 + (twos >> 16U)) & 0x0000FFFF0000FFFFULL;
  return static_cast<std::uint32_t>(fours * 10'000 + (fours >> 32U));
}

// The functions below write a number, and return whether there is one. They return no
// std::optional: g++ would keep it in memory, and wait for it there.

/// Writes the number of type T that the text spells if it has up to 8 digits, with or without a
/// sign, or `if_empty`, unless it is null, for an empty text. Returns false for other texts. Has no
/// branch that depends on the digits, or on whether the text is empty.
template <class T, class Memory>
[[nodiscard]] inline bool short_number(std::string_view text,
                                       Memory memory,
                                       T const* if_empty,
                                       T& number) noexcept {
  if (text.data() == memory.end) [[unlikely]] {
    number = if_empty != nullptr ? *if_empty : T{};
    return if_empty != nullptr;
  }
  bool const empty = text.empty();
  // Behind an empty text is the byte that ends it.
  std::size_t const sign = ((*text.data() == '-') & !empty) ? 1 : 0;
  text.remove_prefix(sign);
  if (text.size() > 8) [[unlikely]] {
    return false;
  }
  bool wrong = false;
  auto const value = static_cast<T>(number_of_digits(number_word(text, memory), wrong));
  T const other = if_empty != nullptr ? *if_empty : T{};
  T const signed_value = sign != 0 ? -value : value;
  number = empty ? other : signed_value;
  wrong |= text.empty() & !(empty & (if_empty != nullptr));
  return !wrong;
}

/// Writes the number that a text of up to 8 digits spells, with or without a minus sign, or
/// `if_empty` for an empty text, if that is allowed. Returns false for other texts. The eight bytes
/// in front of and behind the text may be read. Has no branch and no call, so that a loop keeps
/// what it needs in registers.
template <class T>
[[nodiscard, gnu::always_inline]] inline bool fast_number(
    char const* begin, char const* end, bool may_be_empty, T if_empty, T& number) noexcept {
  auto const bytes = static_cast<std::size_t>(end - begin);
  // Behind an empty text is the byte that ends it.
  bool const is_empty = bytes == 0;
  bool const is_negative = (*begin == '-') & !is_empty;
  auto const digits = bytes - (is_negative ? 1 : 0);
  std::uint64_t word = 0;
  std::memcpy(&word, end - 8, 8);
  auto const place = digits % 16;
  bool wrong = false;
  auto const value = static_cast<T>(
      number_of_digits((word & kWordMasks.upper[place]) | kWordMasks.zeros[place], wrong));
  T const signed_value = is_negative ? -value : value;
  number = is_empty ? if_empty : signed_value;
  bool const has_digits = (digits - 1) < 8;
  return (has_digits & !wrong) | (is_empty & may_be_empty);
}

/// Returns the word whose mix64() is the key of a text of up to 8 bytes. The eight bytes from its
/// begin on may be read.
[[nodiscard, gnu::always_inline]] inline std::uint64_t key_word(char const* begin,
                                                                std::size_t bytes) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, begin, 8);
  auto const place = bytes % 16;
  return kWordMasks.seeds[place] ^ (word & kWordMasks.lower[place]);
}

/// Writes the finite number that the whole text spells, also with a plus sign, rounded to the
/// nearest number of type T, or `if_empty`, unless it is null, for an empty text.
template <class T, class Memory>
[[nodiscard]] inline bool to_number(std::string_view text,
                                    Memory memory,
                                    T const* if_empty,
                                    T& number) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    if (short_number<T>(text, memory, if_empty, number)) [[likely]] {
      return true;
    }
  } else if (text.empty() && if_empty != nullptr) {
    number = *if_empty;
    return true;
  }
  bool const plus = text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  auto const parsed = parse_number<T>(text.substr(plus ? 1 : 0));
  number = parsed.value_or(T{});
  return parsed.has_value();
}

/// Returns string_key(text).
template <class Memory>
[[nodiscard, gnu::always_inline]] inline std::int64_t fast_string_key(std::string_view text,
                                                                      Memory memory) noexcept {
  if constexpr (std::endian::native != std::endian::little) {
    return string_key(text);
  }
  std::uint64_t hash = (text.size() + 1) * 0x9E3779B97F4A7C15ULL;
  for (; text.size() > 8; text.remove_prefix(8)) {
    hash = mix64(hash ^ lower_word(text.substr(0, 8), memory));
  }
  return std::bit_cast<std::int64_t>(mix64(hash ^ lower_word(text, memory)));
}

}  // namespace msstream::data::detail
