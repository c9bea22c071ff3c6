// SPDX-License-Identifier: Apache-2.0
#include "data/text_numbers.hpp"

#include "data/text_index.hpp"

#include <msstream/data/string_key.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>
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

TEST(TextNumbers, are_those_of_from_chars) {
  for (auto const& text : drawn_texts()) {
    // Once at the end of memory, and once followed by other digits.
    for (std::string const& memory : {text, text + "99999999"}) {
      std::string_view const view = std::string_view(memory).substr(0, text.size());
      char const* const end = memory.data() + memory.size();
      EXPECT_EQ(to_int64(view, end), parse_number<std::int64_t>(text)) << text;
      auto const expected = parse_number<float>(text);
      auto const found = to_float32(view, end);
      ASSERT_EQ(found.has_value(), expected.has_value()) << text;
      if (found) {
        EXPECT_EQ(std::bit_cast<std::uint32_t>(*found), std::bit_cast<std::uint32_t>(*expected))
            << text;
      }
      EXPECT_EQ(fast_string_key(view, end), string_key(text)) << text;
    }
  }
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
