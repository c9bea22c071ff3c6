// SPDX-License-Identifier: Apache-2.0
#include "overlap/show/text.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace msstream::overlap {
namespace {

TEST(OverlapText, durations_have_three_digits_and_a_unit) {
  EXPECT_EQ(duration_text(0), "0 ns");
  EXPECT_EQ(duration_text(999), "999 ns");
  EXPECT_EQ(duration_text(1'000), "1.00 µs");
  EXPECT_EQ(duration_text(41'234'567), "41.2 ms");
  EXPECT_EQ(duration_text(999'600), "1.00 ms");
  EXPECT_EQ(duration_text(123'456'789'000), "123 s");
  EXPECT_EQ(duration_text(-2'500), "-2.50 µs");
}

TEST(OverlapText, instants_are_in_ms) {
  EXPECT_EQ(instant_text(1'204'318'400), "1,204.318 ms");
  EXPECT_EQ(instant_text(-1'500), "-0.002 ms");
}

TEST(OverlapText, rounded_parts_add_up) {
  std::vector<double> const thirds{100.0 / 3, 100.0 / 3, 100.0 / 3};
  auto const rounded = rounded_parts(thirds);
  EXPECT_EQ(rounded, (std::vector<std::int64_t>{34, 33, 33}));
  EXPECT_EQ(rounded_parts({}), std::vector<std::int64_t>{});
}

TEST(OverlapText, control_characters_are_made_visible) {
  EXPECT_EQ(printable("a\x1b[1m\n\x7f"), "a\\x1b[1m\\x0a\\x7f");
  EXPECT_EQ(printable("\xE2\x80\xAEx\xEF\xBB\xBF"), "\\u202ex\\ufeff");
  EXPECT_EQ(printable("\xC2\x9B"), "\\x9b");  // a control character beyond ASCII
  EXPECT_EQ(printable("caf\xC3\xA9 \xFF\xC3"), "caf\xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(OverlapText, texts_are_cut_in_their_middle) {
  EXPECT_EQ(fit_to("short", 5), "short");
  EXPECT_EQ(fit_to("0123456789", 7), "0123…89");
  EXPECT_EQ(fit_to("µµµµµµµµ", 4), "µµ…µ");
  EXPECT_EQ(fit_to("ab", 1), "…");
  EXPECT_EQ(fit_to("ab", 0), "");
}

TEST(OverlapText, lines_are_wrapped_at_spaces) {
  EXPECT_EQ(wrapped("one two three", 8), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped("abcdefghijk", 8), (std::vector<std::string>{"abcdefgh", "ijk"}));
  EXPECT_EQ(wrapped("", 8), std::vector<std::string>{""});
}

}  // namespace
}  // namespace msstream::overlap
