// SPDX-License-Identifier: Apache-2.0
#include <msstream/base/version.hpp>

#include <gtest/gtest.h>

#include <string>

namespace msstream {
namespace {

TEST(Version, is_the_same_in_the_headers_and_in_the_library) {
  EXPECT_EQ(version(), MSSTREAM_VERSION_STRING);
}

TEST(Version, is_a_text_and_a_number_of_the_same_parts) {
  EXPECT_EQ(std::string(MSSTREAM_VERSION_STRING),
            std::to_string(MSSTREAM_VERSION_MAJOR) + '.' + std::to_string(MSSTREAM_VERSION_MINOR) +
                '.' + std::to_string(MSSTREAM_VERSION_PATCH));
  EXPECT_EQ(MSSTREAM_VERSION,
            MSSTREAM_VERSION_MAJOR * 10000 + MSSTREAM_VERSION_MINOR * 100 + MSSTREAM_VERSION_PATCH);
#if MSSTREAM_VERSION < 100
  FAIL()
      << "the preprocessor does not compare MSSTREAM_VERSION, and this is no version below 0.1.0";
#endif
}

}  // namespace
}  // namespace msstream
