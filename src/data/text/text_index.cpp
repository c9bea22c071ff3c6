// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_index.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#ifdef __x86_64__
#include <immintrin.h>
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
    *make_room() = ~std::uint32_t{0};  // in front of the first field
    ++count_;
  }

  /// Returns where to write the positions of the bounds of a block, and up to eight elements more.
  [[nodiscard]] std::uint32_t* make_room() {
    if (index_.bounds.size() < count_ + 2 * kBlock) {
      index_.bounds.resize(2 * index_.bounds.size() + 8 * kBlock);
    }
    return index_.bounds.data() + count_;
  }
  /// Adds the lines that end in the block at `base`, whose bounds are written.
  void add(std::size_t base, Masks masks) {
    for (auto ends = masks.line_ends; ends != 0; ends &= ends - 1) {
      auto const before = masks.bounds & ((ends & (0 - ends)) - 1);
      end_line(count_ + bit_count(before), base + static_cast<std::size_t>(std::countr_zero(ends)));
    }
    count_ += bit_count(masks.bounds);
  }
  /// Ends the last line, if the text does not end with a line end.
  void finish() {
    if (line_ < text_.size()) {
      *make_room() = static_cast<std::uint32_t>(text_.size());
      end_line(count_, text_.size());
    }
  }

 private:
  /// Returns the number of bits. Processors from before 2008 have no instruction for it, so that
  /// the compiler would call a function.
  static std::size_t bit_count(std::uint64_t mask) {
    mask -= (mask >> 1U) & 0x5555555555555555ULL;
    mask = (mask & 0x3333333333333333ULL) + ((mask >> 2U) & 0x3333333333333333ULL);
    mask = (mask + (mask >> 4U)) & 0x0F0F0F0F0F0F0F0FULL;
    return static_cast<std::size_t>((mask * 0x0101010101010101ULL) >> 56U);
  }

  /// Ends a line at the byte `end`, whose position is bound number `bound`.
  void end_line(std::size_t bound, std::size_t end) {
    bool const blank = end == line_ || (end == line_ + 1 && text_[line_] == '\r');
    if (!blank) {
      index_.rows.push_back(
          {static_cast<std::uint32_t>(first_), static_cast<std::uint32_t>(bound - first_)});
    }
    first_ = bound;
    line_ = end + 1;
  }

  TextIndex& index_;
  std::string_view text_;
  std::size_t count_ = 0;
  std::size_t line_ = 0;
  std::size_t first_ = 0;
};

/// Writes the positions of the bits of a mask. Writes eight at a time, also behind the last one: a
/// loop that ends with the last bit would end where the processor does not expect it.
void write_bounds(std::uint32_t* out, std::uint32_t base, std::uint64_t mask) {
  do {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      constexpr std::uint64_t last = std::uint64_t{1} << 63U;  // keeps the argument from being 0
      *out++ = base + static_cast<std::uint32_t>(__builtin_ctzll(mask | last));
      mask &= mask - 1;
    }
  } while (mask != 0);
}

/// Adds the whole blocks of a text, and returns their bytes.
std::size_t add_blocks(Lines& lines, std::string_view text, char separator) {
  std::size_t base = 0;
  for (; base + kBlock <= text.size(); base += kBlock) {
    auto const masks = masks_of(text.data() + base, separator);
    write_bounds(lines.make_room(), static_cast<std::uint32_t>(base), masks.bounds);
    lines.add(base, masks);
  }
  return base;
}

#ifdef __x86_64__

/// Does what add_blocks() does, by instructions that compare 64 bytes at once, and that move the
/// numbers of the bits of a mask together.
[[gnu::target("avx512f,avx512bw,avx512vbmi2,popcnt")]] std::size_t add_wide_blocks(
    Lines& lines, std::string_view text, char separator) {
  alignas(64) static constexpr std::array<std::uint8_t, kBlock> kNumbers = [] {
    std::array<std::uint8_t, kBlock> numbers{};
    for (std::size_t i = 0; i < kBlock; ++i) {
      numbers[i] = static_cast<std::uint8_t>(i);
    }
    return numbers;
  }();
  auto const numbers = _mm512_load_si512(kNumbers.data());
  auto const separators = _mm512_set1_epi8(separator);
  auto const line_ends = _mm512_set1_epi8('\n');
  std::size_t base = 0;
  for (; base + kBlock <= text.size(); base += kBlock) {
    auto const bytes = _mm512_loadu_si512(text.data() + base);
    auto const ends = static_cast<std::uint64_t>(_mm512_cmpeq_epi8_mask(bytes, line_ends));
    auto const bounds = ends | _mm512_cmpeq_epi8_mask(bytes, separators);
    alignas(64) std::array<std::uint8_t, kBlock> places;
    auto const together = _mm512_maskz_compress_epi8(bounds, numbers);
    auto const at = _mm512_set1_epi32(static_cast<std::int32_t>(base));
    auto* const out = lines.make_room();
    _mm512_storeu_si512(
        out, _mm512_add_epi32(at, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(together))));
    auto const count = static_cast<std::size_t>(__builtin_popcountll(bounds));
    if (count > 16) {
      _mm512_store_si512(places.data(), together);
      for (std::size_t i = 16; i < count; ++i) {
        out[i] = static_cast<std::uint32_t>(base) + places[i];
      }
    }
    lines.add(base, {bounds, ends});
  }
  return base;
}

#endif

}  // namespace

bool TextIndex::has_wide_blocks() noexcept {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512vbmi2") != 0 && __builtin_cpu_supports("avx512bw") != 0;
#else
  return false;
#endif
}

void TextIndex::find(std::string_view text, char separator, bool wide) {
  Lines lines(*this, text);
  auto* add = add_blocks;
#ifdef __x86_64__
  add = wide ? add_wide_blocks : add_blocks;
#else
  static_cast<void>(wide);
#endif
  auto const base = add(lines, text, separator);
  if (base < text.size()) {
    std::array<char, kBlock> rest{};  // zeros, which are neither separators nor line ends
    std::memcpy(rest.data(), text.data() + base, text.size() - base);
    Masks masks = masks_of(rest.data(), separator);
    if (separator == '\0') {
      masks.bounds &= (std::uint64_t{1} << (text.size() - base)) - 1;
    }
    write_bounds(lines.make_room(), static_cast<std::uint32_t>(base), masks.bounds);
    lines.add(base, masks);
  }
  lines.finish();
}

}  // namespace msstream::data::detail
