// SPDX-License-Identifier: Apache-2.0
#include "overlap/read/numbers.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace msstream::overlap {
namespace {

TEST(TraceNumbers, times_of_today_keep_their_nanoseconds) {
  EXPECT_EQ(ns_of_us("1767189312123456.789"), 1767189312123456789);
  EXPECT_EQ(ns_of_us("4458676981028.392"), 4458676981028392);
  EXPECT_EQ(ns_of_us("1682725898236567"), 1682725898236567000);
  EXPECT_EQ(ns_of_us("68.0"), 68000);
  EXPECT_EQ(ns_of_us("2.08"), 2080);
  EXPECT_EQ(ns_of_us("-1.5"), -1500);
  EXPECT_EQ(ns_of_us("0"), 0);
}

TEST(TraceNumbers, fractions_of_a_nanosecond_are_rounded) {
  EXPECT_EQ(ns_of_us("0.0004"), 0);
  EXPECT_EQ(ns_of_us("0.0005"), 1);
  EXPECT_EQ(ns_of_us("0.00049999"), 0);
  EXPECT_EQ(ns_of_us("9.9999"), 10000);
  EXPECT_EQ(ns_of_us("-0.0005"), -1);
}

TEST(TraceNumbers, exponents_are_exact) {
  EXPECT_EQ(ns_of_us("1.767189312123456789e15"), 1767189312123456789);
  EXPECT_EQ(ns_of_us("15e-1"), 1500);
  EXPECT_EQ(ns_of_us("1E+3"), 1000000);
  EXPECT_EQ(ns_of_us("1e-9"), 0);
  EXPECT_EQ(ns_of_us("0e500"), 0);
}

TEST(TraceNumbers, what_is_no_number_or_does_not_fit_is_empty) {
  for (auto const* text : {"",
                           "-",
                           ".5",
                           "NaN",
                           "Infinity",
                           "1e",
                           "1e999",
                           "1x",
                           "0x10",
                           "1 ",
                           "9223372036854775.808",
                           "99999999999999999999"}) {
    EXPECT_EQ(ns_of_us(text), std::nullopt) << text;
  }
  EXPECT_EQ(ns_of_us("9223372036854775.807"), std::numeric_limits<std::int64_t>::max());
}

TEST(TraceNumbers, whole_numbers_may_be_hexadecimal) {
  EXPECT_EQ(whole_number("4294967295"), 4294967295);
  EXPECT_EQ(whole_number("0x1f"), 31);
  EXPECT_EQ(whole_number("0x"), std::nullopt);
  EXPECT_EQ(whole_number("7.0"), 7);
}

}  // namespace
}  // namespace msstream::overlap
