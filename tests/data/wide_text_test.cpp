// SPDX-License-Identifier: Apache-2.0
// Tests that what processors with AVX-512 do several at a time has the results of one at a time.
#include "data/text/key_words.hpp"
#include "data/text/text_index.hpp"
#include "data/text/text_numbers.hpp"

#include <msstream/data/string_key.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace msstream::data {
namespace {

/// Returns the number x for which mix64(x) is `mixed`.
std::uint64_t unmixed(std::uint64_t mixed) {
  auto const inverse = [](std::uint64_t factor) {
    std::uint64_t result = factor;  // Newton's iteration doubles the number of right bits
    for (int i = 0; i < 6; ++i) {
      result *= 2 - factor * result;
    }
    return result;
  };
  mixed = (mixed ^ (mixed >> 33U)) * inverse(0xC4CEB9FE1A85EC53ULL);
  mixed = (mixed ^ (mixed >> 33U)) * inverse(0xFF51AFD7ED558CCDULL);
  return mixed ^ (mixed >> 33U);
}

TEST(WideText, rows_in_tables_are_exact_remainders) {
  std::mt19937_64 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same numbers each time
  std::vector<std::uint64_t> divisors{0, 1, 2, 3, 1'000'000, 10'131'227};
  for (unsigned bit = 2; bit < 63; ++bit) {
    auto const power = std::uint64_t{1} << bit;
    divisors.insert(divisors.end(), {power - 1, power, power + 1, power + random() % power});
  }
  for (auto const divisor : divisors) {
    std::vector<std::uint64_t> keys{0, 1, ~std::uint64_t{0}, ~std::uint64_t{0} - 1};
    for (int i = 0; i < 2'000; ++i) {
      keys.push_back(random() >> (random() % 64));
      if (divisor != 0) {
        // Neighbours of multiples, of the largest ones too.
        auto const multiple = (~std::uint64_t{0} / divisor - random() % 1'000) * divisor;
        keys.insert(keys.end(), {multiple, multiple - 1, multiple + 1, multiple + divisor - 1});
      }
    }
    std::vector<std::uint64_t> words;
    for (auto const key : keys) {
      words.push_back(unmixed(key));
    }
    auto one_by_one = words;
    detail::Remainder const remainder(std::max<std::uint64_t>(divisor, 1));
    auto const* const row_of = divisor != 0 ? &remainder : nullptr;
    detail::finish_keys(words.data(), words.size(), row_of);
    detail::finish_keys_one_by_one(one_by_one.data(), one_by_one.size(), row_of);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      auto const expected = divisor != 0 ? keys[i] % divisor : keys[i];
      ASSERT_EQ(words[i], expected) << keys[i] << " % " << divisor;
      ASSERT_EQ(one_by_one[i], expected);
    }
  }
}

TEST(WideText, words_of_keys_make_the_keys_of_strings) {
  std::string const text =
      "01234567"
      "abcdefghi\xFF\t12345678";
  for (std::size_t begin = 0; begin + 8 <= text.size(); ++begin) {
    for (std::size_t bytes = 0; bytes <= 8; ++bytes) {
      auto word = detail::key_word(text.data() + begin, bytes);
      detail::finish_keys(&word, 1, nullptr);
      EXPECT_EQ(static_cast<std::int64_t>(word),
                string_key(std::string_view(text).substr(begin, bytes)));
    }
  }
}

/// Returns the fields of the lines of a text that are not blank.
std::vector<std::vector<std::string>> fields_by_bytes(std::string_view text, char separator) {
  std::vector<std::vector<std::string>> rows;
  while (!text.empty()) {
    auto const end = std::min(text.find('\n'), text.size());
    auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line == "\r") {
      continue;
    }
    rows.emplace_back();
    for (std::size_t begin = 0; begin <= line.size();) {
      auto const after = std::min(line.find(separator, begin), line.size());
      rows.back().emplace_back(line.substr(begin, after - begin));
      begin = after + 1;
    }
  }
  return rows;
}

TEST(WideText, fields_are_those_of_a_search_byte_by_byte) {
  std::mt19937_64 random(2);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same texts each time
  detail::TextIndex index;    // keeps its memory, as that of a thread does
  for (int round = 0; round < 3'000; ++round) {
    constexpr std::string_view kBytes = "\t\t\n\n\rabcd";
    auto const length = random() % 400;
    auto const kinds = 2 + random() % (kBytes.size() - 1);  // with few kinds, all bytes are bounds
    std::string text;
    for (std::size_t i = 0; i < length; ++i) {
      text += kBytes[random() % kinds];
    }
    char const separator = random() % 8 == 0 ? 'a' : '\t';
    auto const expected = fields_by_bytes(text, separator);
    for (bool const wide : {false, detail::TextIndex::has_wide_blocks()}) {
      index.find(text, separator, wide);
      ASSERT_EQ(index.rows.size(), expected.size());
      for (std::size_t row = 0; row < expected.size(); ++row) {
        ASSERT_EQ(index.rows[row].fields, expected[row].size());
        for (std::size_t field = 0; field < expected[row].size(); ++field) {
          auto const begin = index.begin_of(index.rows[row], field);
          auto const end = index.end_of(index.rows[row], field);
          ASSERT_EQ(text.substr(begin, end - begin), expected[row][field]);
        }
      }
    }
  }
}

TEST(WideText, short_numbers_are_those_of_the_parser) {
  std::mt19937_64 random(3);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same texts each time
  for (int round = 0; round < 20'000; ++round) {
    constexpr std::string_view kBytes = "0123456789-+. x\t";
    std::string field;
    auto const kinds = random() % 2 == 0 ? 11U : kBytes.size();
    for (auto left = random() % 12; left > 0; --left) {
      field += kBytes[random() % kinds];
    }
    auto const text = "-1234567" + field + "\t-123456";
    for (bool const may_be_empty : {false, true}) {
      double const if_empty = 0.5;
      double expected = 0;
      double actual = 0;
      detail::TextMemory const memory{text.data(), text.data() + text.size()};
      std::string_view const view(text.data() + 8, field.size());
      bool const good =
          detail::to_number<double>(view, memory, may_be_empty ? &if_empty : nullptr, expected);
      bool const fast = detail::fast_number<double>(
          view.data(), view.data() + view.size(), may_be_empty, if_empty, actual);
      if (fast) {
        ASSERT_TRUE(good) << field;
        ASSERT_EQ(actual, expected) << field;
      }
      bool const is_plain = !field.empty() && field.size() <= 8 &&
                            field.find_first_not_of("0123456789") == std::string::npos;
      ASSERT_TRUE(fast || !is_plain) << field;
      ASSERT_TRUE(fast || !field.empty() || !may_be_empty);
    }
  }
}

}  // namespace
}  // namespace msstream::data
