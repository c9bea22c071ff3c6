// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace msstream::detail {
namespace {

using Layout = JsonWriter::Layout;

template <class Value>
std::string written(Value const& value) {
  std::string out;
  JsonWriter(out).value(value);
  return out;
}

/// Writes `value` with JsonWriter, parses the text with nlohmann-json, and returns the result.
template <class Value>
Value read_again(Value const& value) {
  auto const parsed = nlohmann::json::parse(written(value));
  return parsed.template get<Value>();
}

TEST(JsonWriter, writes_on_one_line_unless_told_otherwise) {
  std::string out = "before ";
  JsonWriter json(out);
  json.begin_object();
  json.member("name", "a");
  json.key("reads");
  json.array(std::vector{1, 2});
  json.key("none");
  json.array(std::vector<int>{});
  json.key("nested");
  json.begin_object();
  json.end_object();
  json.member("last", true);
  json.end_object();
  EXPECT_EQ(out,
            R"(before {"name": "a", "reads": [1, 2], "none": [], "nested": {}, "last": true})");
}

TEST(JsonWriter, indents_what_is_on_lines_of_its_own) {
  std::string out;
  JsonWriter json(out);
  json.begin_object(Layout::lines);
  json.member("version", 1);
  json.key("list");
  json.begin_array(Layout::lines);
  for (int i = 0; i < 2; ++i) {
    json.begin_object();
    json.member("i", i);
    json.key("deep");
    json.begin_array(Layout::lines);
    json.value(false);
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.key("empty");
  json.begin_array(Layout::lines);
  json.end_array();
  json.end_object();
  EXPECT_EQ(out,
            "{\n"
            " \"version\": 1,\n"
            " \"list\": [\n"
            "  {\"i\": 0, \"deep\": [\n"
            "   false\n"
            "  ]},\n"
            "  {\"i\": 1, \"deep\": [\n"
            "   false\n"
            "  ]}\n"
            " ],\n"
            " \"empty\": []\n"
            "}");
  EXPECT_EQ(nlohmann::json::parse(out)["list"][1]["i"], 1);
}

TEST(JsonWriter, writes_integers_of_every_type_in_full) {
  EXPECT_EQ(written(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(written(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(written(std::uint8_t{65}), "65");
  EXPECT_EQ(written(std::int8_t{-3}), "-3");
  EXPECT_EQ(written(0), "0");
}

TEST(JsonWriter, writes_numbers_that_are_read_as_the_same) {
  EXPECT_EQ(written(0.1), "0.1");
  EXPECT_EQ(written(2.0), "2");
  EXPECT_EQ(written(1e300), "1e+300");
  for (double const number : {0.0,
                              1.0 / 3,
                              -1e-7,
                              std::numeric_limits<double>::max(),
                              std::numeric_limits<double>::lowest(),
                              std::numeric_limits<double>::min(),
                              std::numeric_limits<double>::denorm_min()}) {
    EXPECT_EQ(read_again(number), number);
  }
}

TEST(JsonWriter, writes_null_for_numbers_that_json_lacks) {
  EXPECT_EQ(written(std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(written(-std::numeric_limits<double>::infinity()), "null");
  EXPECT_EQ(written(std::nan("")), "null");
}

TEST(JsonWriter, writes_flags_as_words_and_pointers_to_letters_as_texts) {
  EXPECT_EQ(written(true), "true");
  EXPECT_EQ(written(false), "false");
  char const* const words = "true";
  EXPECT_EQ(written(words), "\"true\"");
}

TEST(JsonWriter, escapes_what_would_end_a_text_or_not_show) {
  EXPECT_EQ(written("a\"b\\c/\nd\te\x7F"), "\"a\\\"b\\\\c/\\u000ad\\u0009e\x7F\"");
  std::string all;
  for (int code = 0; code < 0x80; ++code) {
    all += static_cast<char>(code);
  }
  EXPECT_EQ(read_again(all), all);
}

TEST(JsonWriter, escapes_keys_too) {
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  json.member("a\"b", "");
  json.end_object();
  EXPECT_EQ(nlohmann::json::parse(out), (nlohmann::json{{"a\"b", ""}}));
}

TEST(JsonWriter, passes_on_every_character_of_utf8) {
  for (std::string const text : {"\x7F",
                                 "\xC2\x80",
                                 "\xDF\xBF",
                                 "\xE0\xA0\x80",
                                 "\xED\x9F\xBF",
                                 "\xEE\x80\x80",
                                 "\xEF\xBF\xBF",
                                 "\xF0\x90\x80\x80",
                                 "\xF4\x8F\xBF\xBF",
                                 "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x98\x80"}) {
    EXPECT_EQ(written(text), "\"" + text + "\"");
    EXPECT_EQ(read_again(text), text);
  }
}

TEST(JsonWriter, replaces_what_is_not_utf8) {
  std::string const mark = "\xEF\xBF\xBD";
  std::vector<std::pair<std::string, std::string>> const cases = {
      {"\x80", mark},                                   // a continuation without its beginning
      {"a\xFFz", "a" + mark + "z"},                     // no byte of UTF-8
      {"\xC3", mark},                                   // an end in the middle
      {"\xE2\x82", mark},                               //
      {"\xF0\x9F\x98", mark},                           //
      {"\xE2\x82z", mark + "z"},                        // a letter in the middle
      {"\xC3\"", mark + "\""},                          // a quote in the middle, which is escaped
      {"\xC0\xAF", mark + mark},                        // a long form of '/'
      {"\xE0\x9F\xBF", mark + mark + mark},             // a long form of U+07FF
      {"\xED\xA0\x80", mark + mark + mark},             // a surrogate
      {"\xF4\x90\x80\x80", mark + mark + mark + mark},  // above U+10FFFF
      {"\xF8\x88\x80\x80\x80", mark + mark + mark + mark + mark}};
  for (auto const& [bytes, expected] : cases) {
    EXPECT_EQ(read_again(bytes), expected) << ::testing::PrintToString(bytes);
  }
}

/// Writes strings of random bytes. The library nlohmann-json refuses text that is not UTF-8, so the
/// test fails if JsonWriter leaves an invalid byte in place.
TEST(JsonWriter, writes_json_whatever_the_bytes) {
  std::uint32_t state = 1;
  for (int run = 0; run < 2000; ++run) {
    std::string bytes;
    for (int i = 0; i < 8; ++i) {
      state = state * 1'664'525 + 1'013'904'223;
      // Makes half of the bytes larger than 0xBF: in UTF-8 such bytes begin characters of several
      // bytes.
      bytes += static_cast<char>(state >> 31U ? 0xC0 | (state >> 24U) : state >> 24U);
    }
    EXPECT_TRUE(nlohmann::json::accept(written(bytes))) << ::testing::PrintToString(bytes);
  }
}

TEST(IsUtf8, agrees_with_what_is_written_unchanged) {
  for (auto const* text : {"", "a", "grüße", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  for (auto const* text :
       {"\xff", "a\x80", "\xC3", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_FALSE(is_utf8(text)) << ::testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace msstream::detail
