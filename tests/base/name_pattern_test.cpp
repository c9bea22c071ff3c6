// SPDX-License-Identifier: Apache-2.0
#include "base/name_pattern.hpp"

#include <gtest/gtest.h>

#include <string>

namespace msstream::detail {
namespace {

TEST(NamePattern, stars_stand_for_any_characters_and_question_marks_for_one) {
  for (auto const* pattern : {"user/0/weight",
                              "*",
                              "user/*",
                              "*weight",
                              "u*t",
                              "user/?/weight",
                              "**",
                              "*/*/*",
                              "u*0*t",
                              "user/0/weight*",
                              "*user/0/weight"}) {
    EXPECT_TRUE(matches_pattern(pattern, "user/0/weight")) << pattern;
  }
  for (auto const* pattern :
       {"", "user", "user/", "user/?", "?", "*/bias", "user/?\?/weight", "weight*", "*/*/*/*"}) {
    EXPECT_FALSE(matches_pattern(pattern, "user/0/weight")) << pattern;
  }
  EXPECT_TRUE(matches_pattern("", ""));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_FALSE(matches_pattern("?", ""));
}

TEST(NamePattern, many_stars_take_no_exponential_time) {
  std::string const name(5000, 'a');
  std::string pattern;
  for (int i = 0; i < 50; ++i) {
    pattern += "*a";
  }
  EXPECT_TRUE(matches_pattern(pattern, name));
  EXPECT_FALSE(matches_pattern(pattern + "*b", name));
}

}  // namespace
}  // namespace msstream::detail
