// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/error.hpp>
#include <msstream/base/text.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace msstream {
namespace {

struct Described {
  [[nodiscard]] std::string describe() const { return "<described>"; }
};

TEST(Text, of_nothing_is_empty) {
  EXPECT_EQ(text(), "");
}

TEST(Text, writes_pieces_one_after_the_other) {
  EXPECT_EQ(text("a", std::string("b"), std::string_view("c"), 'd', 5, Described{}),
            "abcd5<described>");
}

TEST(Text, writes_flags_as_words_and_small_integers_as_numbers) {
  EXPECT_EQ(text(true, ' ', false), "true false");
  EXPECT_EQ(text(std::uint8_t{65}, ' ', std::int8_t{-3}), "65 -3");
}

TEST(Text, writes_the_extremes_of_every_number) {
  EXPECT_EQ(text(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(text(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(-std::numeric_limits<double>::max()), "-1.7976931348623157e+308");
  EXPECT_EQ(text(std::numeric_limits<double>::denorm_min()), "5e-324");
}

TEST(Require, throws_its_pieces_only_when_it_does_not_hold) {
  EXPECT_NO_THROW(require(true, "unused"));
  try {
    require(false, "rows ", 3, " of ", 2);
    FAIL() << "did not throw";
  } catch (std::invalid_argument const& error) {
    EXPECT_STREQ(error.what(), "rows 3 of 2");
  }
}

TEST(Errors, carry_code_call_and_place) {
  CudaError const error(700, "illegal address", "cudaEventQuery");
  std::string const message = error.what();
  EXPECT_EQ(error.code(), 700);
  EXPECT_NE(message.find("CUDA error 700 (illegal address) in cudaEventQuery at "),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("text_test.cpp:"), std::string::npos) << message;

  OutOfMemory const exhausted(4096, "no room");
  EXPECT_EQ(exhausted.requested_bytes(), 4096U);
  EXPECT_STREQ(exhausted.what(), "no room");
}

}  // namespace
}  // namespace msstream
