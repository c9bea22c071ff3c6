// SPDX-License-Identifier: Apache-2.0
#include <msstream/serve/detail/input_layout.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace msstream::serve {
namespace {

template <class T>
std::vector<T> elements_at(std::byte const* packed, std::size_t offset, std::size_t count) {
  std::vector<T> elements(count);
  std::memcpy(elements.data(), packed + offset, count * sizeof(T));
  return elements;
}

TEST(InputLayout, fields_lie_one_after_the_other_from_multiples_of_256_bytes_on) {
  InputLayout const layout({field<std::int64_t>("keys", 40), field<float>("dense", 3)});
  EXPECT_EQ(layout.offset(0, 2), 0U);
  EXPECT_EQ(layout.offset(1, 2), 768U);  // after 640 bytes of keys
  EXPECT_EQ(layout.bytes(2), 1024U);
  EXPECT_EQ(layout.find("dense", DType::float32), 1U);
  EXPECT_THROW(static_cast<void>(layout.find("dense", DType::int64)), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(layout.find("labels", DType::float32)), std::invalid_argument);
}

TEST(InputLayout, rows_packed_by_themselves_and_then_among_others_are_those_packed_there) {
  InputLayout const layout({field<std::int64_t>("keys", 2), field<float>("dense", 1)});
  std::vector<std::int64_t> const keys{1, 2, 3, 4, 5, 6};
  std::vector<float> const dense{0.1F, 0.2F, 0.3F};
  Query const query{.rows = 3, .values = {keys, dense}};
  layout.check(query);
  std::vector<std::byte> direct(layout.bytes(8));
  layout.pack(query, direct.data(), 8, 4);
  EXPECT_EQ(elements_at<std::int64_t>(direct.data(), 4 * 16, 6), keys);
  EXPECT_EQ(elements_at<float>(direct.data(), layout.offset(1, 8) + 4 * 4, 3), dense);
  std::vector<std::byte> alone(layout.bytes(3));
  std::vector<std::byte> again(layout.bytes(8));
  layout.pack(query, alone.data(), 3, 0);
  layout.repack(alone.data(), 3, again.data(), 8, 4);
  EXPECT_EQ(direct, again);
}

TEST(InputLayout, clearing_rows_leaves_those_before) {
  InputLayout const layout({field<std::int64_t>("keys", 2), field<float>("dense", 1)});
  std::vector<std::byte> piece(layout.bytes(4), std::byte{0x3F});
  auto const keys = elements_at<std::int64_t>(piece.data(), 0, 2);
  auto const dense = elements_at<float>(piece.data(), layout.offset(1, 4), 1);
  layout.clear(piece.data(), 4, 1);
  EXPECT_EQ(elements_at<std::int64_t>(piece.data(), 0, 8),
            (std::vector<std::int64_t>{keys[0], keys[1], 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(elements_at<float>(piece.data(), layout.offset(1, 4), 4),
            (std::vector<float>{dense[0], 0, 0, 0}));
}

TEST(InputLayout, a_field_by_columns_lies_element_after_element) {
  InputLayout const layout(
      {field<std::int64_t>("keys", 3, Field::Order::columns), field<float>("dense", 2)});
  std::vector<std::int64_t> const keys{1, 2, 3, 4, 5, 6};
  std::vector<float> const dense{0.1F, 0.2F, 0.3F, 0.4F};
  Query const query{.rows = 2, .values = {keys, dense}};
  std::vector<std::byte> direct(layout.bytes(5));
  layout.pack(query, direct.data(), 5, 3);
  EXPECT_EQ(elements_at<std::int64_t>(direct.data(), 0, 15),
            (std::vector<std::int64_t>{0, 0, 0, 1, 4, 0, 0, 0, 2, 5, 0, 0, 0, 3, 6}));
  EXPECT_EQ(elements_at<float>(direct.data(), layout.offset(1, 5) + 3 * 8, 4), dense);
  std::vector<std::byte> alone(layout.bytes(2));
  std::vector<std::byte> again(layout.bytes(5));
  layout.pack(query, alone.data(), 2, 0);
  layout.repack(alone.data(), 2, again.data(), 5, 3);
  EXPECT_EQ(direct, again);
  layout.clear(again.data(), 5, 4);
  EXPECT_EQ(elements_at<std::int64_t>(again.data(), 0, 15),
            (std::vector<std::int64_t>{0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0}));
}

}  // namespace
}  // namespace msstream::serve
