// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/detail/env.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <stdexcept>
#include <string>

namespace msstream {
namespace {

constexpr char const* kVariable = "MSSTREAM_TEST_OPTION";
enum class Colour { red, green };

class Environment : public testing::Test {
 protected:
  void TearDown() override { unsetenv(kVariable); }
  static void set(char const* value) { setenv(kVariable, value, 1); }

  template <class Read>
  static std::string message_of(Read&& read) {
    try {
      (void)read();
    } catch (std::invalid_argument const& error) {
      return error.what();
    }
    return "did not throw";
  }
  static std::int64_t number() { return env::integer(kVariable, 7, 1, 256); }
  static Colour colour() {
    return env::choice(kVariable, Colour::red, {{"red", Colour::red}, {"green", Colour::green}});
  }
};

TEST_F(Environment, falls_back_when_unset_or_empty) {
  EXPECT_EQ(number(), 7);
  EXPECT_EQ(colour(), Colour::red);
  EXPECT_TRUE(env::flag(kVariable, true));
  set("");
  EXPECT_EQ(number(), 7);
  EXPECT_EQ(colour(), Colour::red);
  EXPECT_FALSE(env::flag(kVariable, false));
}

TEST_F(Environment, reads_numbers_up_to_both_ends) {
  set("1");
  EXPECT_EQ(number(), 1);
  set("256");
  EXPECT_EQ(number(), 256);
  set("9223372036854775807");
  EXPECT_EQ(env::integer(kVariable, 0, 0), 9223372036854775807);
}

TEST_F(Environment, names_variable_value_and_range_of_a_bad_number) {
  for (char const* bad :
       {"0", "257", "-1", "four", "4 ", " 4", "4.0", "0x10", "99999999999999999999"}) {
    set(bad);
    EXPECT_EQ(
        message_of(number),
        fmt::format("MSSTREAM_TEST_OPTION: expected an integer from 1 to 256, found '{}'", bad));
  }
}

TEST_F(Environment, reads_one_of_a_few_names) {
  set("green");
  EXPECT_EQ(colour(), Colour::green);
  for (char const* bad : {"blue", "Green", "gree", "red,green"}) {
    set(bad);
    EXPECT_EQ(message_of(colour),
              fmt::format("MSSTREAM_TEST_OPTION: expected one of red, green, found '{}'", bad));
  }
}

TEST_F(Environment, reads_flags_in_four_spellings) {
  for (char const* on : {"1", "true", "yes", "on"}) {
    set(on);
    EXPECT_TRUE(env::flag(kVariable, false)) << on;
  }
  for (char const* off : {"0", "false", "no", "off"}) {
    set(off);
    EXPECT_FALSE(env::flag(kVariable, true)) << off;
  }
  set("perhaps");
  EXPECT_THAT(message_of([] { return env::flag(kVariable, true); }),
              testing::AllOf(testing::HasSubstr(kVariable),
                             testing::HasSubstr("'perhaps'"),
                             testing::HasSubstr("true or false (1 or 0, yes or no, on or off)")));
}

}  // namespace
}  // namespace msstream
