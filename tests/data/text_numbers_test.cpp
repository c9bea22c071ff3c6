// SPDX-License-Identifier: Apache-2.0
#include "data/text/text_numbers.hpp"

#include "data/text/text_index.hpp"

#include <msstream/data/string_key.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace msstream::data::detail {
namespace {

/// Returns texts of up to 20 characters, most of them numbers or nearly so.
std::vector<std::string> drawn_texts() {
  std::vector<std::string> texts{
      "0", "-0", "00000000", "-00000001", "99999999", "16777217", "-", "1-", "/", ":", "1:"};
  std::mt19937 random(1);
  std::string_view const kinds[] = {
      "0123456789", "0123456789-", "0123456789.e-", "/0123456789:", "09"};
  for (int i = 0; i < 20'000; ++i) {
    auto const kind = kinds[random() % std::size(kinds)];
    std::string text;
    for (auto length = random() % 21; length > 0; --length) {
      text += kind[random() % kind.size()];
    }
    texts.push_back(text);
  }
  for (int byte = 0; byte < 256; ++byte) {
    texts.push_back(std::string("12") + static_cast<char>(byte) + "4");
  }
  return texts;
}

/// Expects the number of the text to be the one that std::from_chars() finds, bit for bit.
template <class T, class Convert>
void expect_number(std::string_view text, TextMemory memory, Convert convert) {
  auto const expected = parse_number<T>(text);
  for (T const if_empty : {T(0), T(7)}) {
    for (T const* const other : {static_cast<T const*>(nullptr), &if_empty}) {
      T number = 5;
      bool const found = convert(text, memory, other, number);
      auto const wanted = text.empty() && other != nullptr ? std::optional(if_empty) : expected;
      ASSERT_EQ(found, wanted.has_value()) << text;
      if (found) {
        EXPECT_EQ(std::memcmp(&number, &*wanted, sizeof(T)), 0) << text << " is not " << number;
      }
    }
  }
}

TEST(TextNumbers, are_those_of_from_chars) {
  for (auto const& text : drawn_texts()) {
    // Alone in memory, and between digits, signs and separators.
    for (auto const& [before, after] : std::vector<std::pair<std::string, std::string>>{
             {"", ""}, {"", "99999999"}, {"12345678", "-99999999"}, {"-1", "\t"}}) {
      // Memory of the exact size, so that the address sanitizer sees a read behind it.
      std::vector<char> memory(before.begin(), before.end());
      memory.insert(memory.end(), text.begin(), text.end());
      memory.insert(memory.end(), after.begin(), after.end());
      std::string_view const view(memory.data() + before.size(), text.size());
      TextMemory const all{memory.data(), memory.data() + memory.size()};
      expect_number<std::int64_t>(view, all, to_number<std::int64_t, TextMemory>);
      expect_number<float>(view, all, to_number<float, TextMemory>);
      EXPECT_EQ(fast_string_key(view, all), string_key(text)) << text;
    }
  }
}

TEST(TextNumbers, keys_are_as_documented) {
  constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;
  auto const key = [](std::uint64_t hash) { return std::bit_cast<std::int64_t>(hash); };
  static_assert(string_key("") != 0);
  EXPECT_EQ(string_key(""), key(mix64(golden)));
  EXPECT_EQ(string_key("ab"), key(mix64(3 * golden ^ 0x6261)));
  EXPECT_EQ(string_key("abcdefgh"), key(mix64(9 * golden ^ 0x6867666564636261)));
  EXPECT_EQ(string_key("abcdefghi"), key(mix64(mix64(10 * golden ^ 0x6867666564636261) ^ 0x69)));
  EXPECT_EQ(bucket_of(-1, 10), 5) << "2^64 - 1 modulo 10";
}

TEST(TextIndex, has_the_fields_that_a_search_of_every_byte_finds) {
  std::mt19937 random(2);
  TextIndex index;
  for (int i = 0; i < 2'000; ++i) {
    std::string text(random() % 300, 'x');
    auto const bounds = 1 + random() % 20;
    for (auto& byte : text) {
      auto const draw = random() % 40;
      byte = draw < bounds ? ',' : draw == 30 ? '\n' : draw == 31 ? '\r' : 'x';
    }
    std::vector<std::vector<std::string>> expected;
    for (std::string_view rest = text; !rest.empty();) {
      auto line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (line.empty() || line == "\r") {
        continue;
      }
      auto& fields = expected.emplace_back(1);
      for (char const byte : line) {
        byte == ',' ? static_cast<void>(fields.emplace_back()) : fields.back().push_back(byte);
      }
    }
    index.find(text, ',');
    std::vector<std::vector<std::string>> found;
    for (auto const row : index.rows) {
      auto& fields = found.emplace_back();
      for (std::size_t field = 0; field < row.fields; ++field) {
        auto const begin = index.begin_of(row, field);
        fields.push_back(text.substr(begin, index.end_of(row, field) - begin));
      }
    }
    ASSERT_EQ(found, expected) << text;
  }
}

}  // namespace
}  // namespace msstream::data::detail
