// SPDX-License-Identifier: Apache-2.0
#include "memory/blocks/size_class.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <map>

namespace msstream::memory {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 46U;

void check(std::size_t bytes) {
  auto const size = SizeClass::of(bytes);
  ASSERT_GE(size.bytes, std::max<std::size_t>(bytes, 1));
  ASSERT_EQ(size.bytes % SizeClass::kLeastBytes, 0U) << bytes;
  ASSERT_LE(size.bytes - bytes, std::max(SizeClass::kLeastBytes, bytes / 8)) << bytes;
  ASSERT_LT(size.index, SizeClass::kCount) << bytes;
}

TEST(SizeClass, holds_every_size_with_little_waste) {
  for (std::size_t bytes = 0; bytes <= 1'000'000; ++bytes) {
    check(bytes);
  }
  for (std::size_t power = 1'000'000; power < kMostBytes; power *= 2) {
    for (std::size_t around : {power - 1, power, power + 1, power + power / 3}) {
      check(around);
    }
  }
}

TEST(SizeClass, index_grows_with_the_size_and_names_one_block_size) {
  std::map<std::size_t, std::size_t> bytes_by_index;
  auto smaller = SizeClass::of(1);
  for (std::size_t bytes = 1; bytes <= 1'000'000; ++bytes) {
    auto const size = SizeClass::of(bytes);
    ASSERT_GE(size.index, smaller.index) << bytes;
    ASSERT_EQ(size.index > smaller.index, size.bytes > smaller.bytes) << bytes;
    ASSERT_EQ(bytes_by_index.emplace(size.index, size.bytes).first->second, size.bytes) << bytes;
    smaller = size;
  }
}

TEST(SizeClass, a_class_holds_its_own_block_size) {
  for (std::size_t bytes = 1; bytes < kMostBytes; bytes += bytes / 5 + 1) {
    auto const size = SizeClass::of(bytes);
    EXPECT_EQ(SizeClass::of(size.bytes).index, size.index) << bytes;
    EXPECT_EQ(SizeClass::within(size.bytes).index, size.index) << bytes;
  }
}

TEST(SizeClass, within_is_the_largest_class_that_fits) {
  for (std::size_t bytes = SizeClass::kLeastBytes; bytes <= 1'000'000; ++bytes) {
    auto const size = SizeClass::within(bytes);
    ASSERT_LE(size.bytes, bytes);
    ASSERT_GT(SizeClass::of(size.bytes + 1).bytes, bytes) << "a larger class would have fitted";
  }
}

}  // namespace
}  // namespace msstream::memory
