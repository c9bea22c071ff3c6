// SPDX-License-Identifier: Apache-2.0
#include "report/event_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace msstream::detail {
namespace {

using ::testing::HasSubstr;

std::string hex_of(std::string_view bytes) {
  std::string out;
  for (char const byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    out += digits;
  }
  return out;
}

std::string record_of(std::string_view event) {
  std::string out;
  append_record(out, event);
  return hex_of(out);
}

TEST(Crc32c, is_that_of_the_standard) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
  std::string rising;
  for (int i = 0; i < 32; ++i) {
    rising += static_cast<char>(i);
  }
  EXPECT_EQ(crc32c(rising), 0x46DD794EU);
}

TEST(Crc32c, is_masked_like_tensorflow_does) {
  EXPECT_EQ(masked_crc32c(""), 0xA282EAD8U);
  EXPECT_EQ(masked_crc32c("123456789"), 0xC78AB0E5U);
}

// The expected bytes were written by TensorBoard 2.21: its RecordWriter, and its messages.

TEST(EventRecord, the_version_is_that_of_tensorboard) {
  EXPECT_EQ(record_of(version_event(1234.5)),
            "1800000000000000a37f4b22"
            "0900000000004a93401a0d627261696e2e4576656e743a32"
            "65b8d3fb");
}

TEST(EventRecord, a_scalar_is_that_of_tensorboard) {
  EXPECT_EQ(record_of(scalar_event(1235.25, 300, "loss/train", 0.125)),
            "2100000000000000017becf6"
            "0900000000004d934010ac022a130a110a0a6c6f73732f747261696e150000003e"
            "ecee5679");
}

TEST(EventRecord, a_scalar_beyond_the_range_of_float32_stays_finite) {
  constexpr double most = std::numeric_limits<float>::max();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  auto const of = [](double value) { return scalar_event(1, 2, "x", value); };
  EXPECT_EQ(of(1e300), of(most));
  EXPECT_EQ(of(-1e39), of(-most));
  EXPECT_NE(of(infinity), of(most));
  EXPECT_NE(of(-infinity), of(-most));
}

TEST(EventRecord, a_text_is_that_of_tensorboard) {
  EXPECT_EQ(record_of(text_event(1236.0, -1, "note", "grüße")),
            "3b000000000000001a23ac5c"
            "09000000000050934010ffffffffffffffffff012a250a230a046e6f7465"
            "4211080712041202080142076772c3bcc39f654a080a060a0474657874"
            "c11bb10f");
}

TEST(EventRecord, a_histogram_has_limits_around_all_values) {
  std::vector<float> const values{
      -1.0F, 0.0F, 0.5F, 0.5F, std::numeric_limits<float>::infinity(), std::nanf("")};
  auto const event = histogram_event(1.0, 2, "weights", values);
  auto const number = [](double value) {
    return std::string(reinterpret_cast<char const*>(&value), sizeof value);
  };
  EXPECT_THAT(event,
              HasSubstr("\x09" + number(-1.0) + "\x11" + number(0.5) + "\x19" + number(4) + "\x21" +
                        number(0) + "\x29" + number(1.5)))
      << "least, most, count, sum, sum of squares";
  EXPECT_THAT(event, HasSubstr("weights"));
  EXPECT_EQ(histogram_event(1.0, 2, "weights", {}), "");
  EXPECT_EQ(histogram_event(1.0, 2, "weights", std::span(values).subspan(4)), "");
}

}  // namespace
}  // namespace msstream::detail
