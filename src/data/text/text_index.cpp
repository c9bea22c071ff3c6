// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_index.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace msstream::data::detail {

namespace {

constexpr std::size_t kBlock = 64;

/// Bit i of each mask belongs to byte i of a block.
struct Masks {
  std::uint64_t bounds;  ///< separators and line ends
  std::uint64_t line_ends;
};

#ifdef __SSE2__

std::uint64_t mask_of(__m128i const (&equal)[4]) {
  std::uint64_t mask = 0;
  for (unsigned i = 0; i < 4; ++i) {
    auto const bits = static_cast<std::uint32_t>(_mm_movemask_epi8(equal[i]));
    mask |= static_cast<std::uint64_t>(bits) << (16U * i);
  }
  return mask;
}

Masks masks_of(char const* block, char separator) {
  __m128i const separators = _mm_set1_epi8(separator);
  __m128i const line_end = _mm_set1_epi8('\n');
  __m128i bounds[4];
  __m128i ends[4];
  for (std::size_t i = 0; i < 4; ++i) {
    __m128i const bytes = _mm_loadu_si128(reinterpret_cast<__m128i const*>(block + 16 * i));
    ends[i] = _mm_cmpeq_epi8(bytes, line_end);
    bounds[i] = _mm_or_si128(ends[i], _mm_cmpeq_epi8(bytes, separators));
  }
  return {mask_of(bounds), mask_of(ends)};
}

#else

Masks masks_of(char const* block, char separator) {
  Masks masks{0, 0};
  for (unsigned i = 0; i < kBlock; ++i) {
    auto const ends = static_cast<std::uint64_t>(block[i] == '\n');
    masks.line_ends |= ends << i;
    masks.bounds |= (ends | static_cast<std::uint64_t>(block[i] == separator)) << i;
  }
  return masks;
}

#endif

/// Adds the lines of a text to an index.
class Lines {
 public:
  Lines(TextIndex& index, std::string_view text) : index_(index), text_(text) {
    index_.rows.clear();
    begin_line(0);
  }

  void add(std::size_t base, Masks masks) {
    if (index_.bounds.size() < count_ + 4 * kBlock) {
      index_.bounds.resize(2 * index_.bounds.size() + 8 * kBlock);
    }
    auto const at = static_cast<std::uint32_t>(base);
    while (masks.line_ends != 0) {
      // Keeps the bits up to the first line end.
      std::uint64_t const line = masks.bounds & (masks.line_ends ^ (masks.line_ends - 1));
      add_bounds(at, line);
      masks.bounds ^= line;
      end_line(base + static_cast<std::size_t>(std::countr_zero(masks.line_ends)));
      masks.line_ends &= masks.line_ends - 1;
    }
    add_bounds(at, masks.bounds);
  }

  /// Ends the last line, if the text does not end with a line end.
  void finish() {
    if (line_ < text_.size()) {
      if (index_.bounds.size() < count_ + 2) {
        index_.bounds.resize(count_ + 2);
      }
      index_.bounds[count_++] = static_cast<std::uint32_t>(text_.size());
      end_line(text_.size());
    }
  }

 private:
  /// Appends the positions of the bits of a mask. Writes eight at a time, also behind the last one:
  /// a loop that ends with the last bit would end where the processor does not expect it.
  void add_bounds(std::uint32_t base, std::uint64_t mask) {
    auto* out = index_.bounds.data() + count_;
    count_ += bit_count(mask);
    do {
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        constexpr std::uint64_t last = std::uint64_t{1} << 63U;  // keeps the argument from being 0
        *out++ = base + static_cast<std::uint32_t>(__builtin_ctzll(mask | last));
        mask &= mask - 1;
      }
    } while (mask != 0);
  }

  /// Returns the number of bits. Processors from before 2008 have no instruction for it, so that
  /// the compiler would call a function.
  static std::size_t bit_count(std::uint64_t mask) {
    mask -= (mask >> 1U) & 0x5555555555555555ULL;
    mask = (mask & 0x3333333333333333ULL) + ((mask >> 2U) & 0x3333333333333333ULL);
    mask = (mask + (mask >> 4U)) & 0x0F0F0F0F0F0F0F0FULL;
    return static_cast<std::size_t>((mask * 0x0101010101010101ULL) >> 56U);
  }

  void begin_line(std::size_t begin) {
    line_ = begin;
    first_ = count_;
    if (index_.bounds.size() <= count_) {
      index_.bounds.resize(2 * count_ + 4 * kBlock);
    }
    index_.bounds[count_++] = static_cast<std::uint32_t>(begin) - 1U;
  }

  void end_line(std::size_t end) {
    bool const blank = end == line_ || (end == line_ + 1 && text_[line_] == '\r');
    if (blank) {
      count_ = first_;
    } else {
      index_.rows.push_back(
          {static_cast<std::uint32_t>(first_), static_cast<std::uint32_t>(count_ - first_ - 1)});
    }
    begin_line(end + 1);
  }

  TextIndex& index_;
  std::string_view text_;
  std::size_t count_ = 0;
  std::size_t line_ = 0;
  std::size_t first_ = 0;
};

}  // namespace

void TextIndex::find(std::string_view text, char separator) {
  Lines lines(*this, text);
  std::size_t base = 0;
  for (; base + kBlock <= text.size(); base += kBlock) {
    lines.add(base, masks_of(text.data() + base, separator));
  }
  if (base < text.size()) {
    std::array<char, kBlock> rest{};  // zeros, which are neither separators nor line ends
    std::memcpy(rest.data(), text.data() + base, text.size() - base);
    Masks masks = masks_of(rest.data(), separator);
    if (separator == '\0') {
      masks.bounds &= (std::uint64_t{1} << (text.size() - base)) - 1;
    }
    lines.add(base, masks);
  }
  lines.finish();
}

}  // namespace msstream::data::detail
