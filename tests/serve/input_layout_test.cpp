// SPDX-License-Identifier: Apache-2.0
#include <msstream/serve/detail/input_layout.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <string>
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
  layout.repack({alone.data(), 3, 3}, again.data(), 8, 4);
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
  layout.repack({alone.data(), 2, 2}, again.data(), 5, 3);
  EXPECT_EQ(direct, again);
  layout.clear(again.data(), 5, 4);
  EXPECT_EQ(elements_at<std::int64_t>(again.data(), 0, 15),
            (std::vector<std::int64_t>{0, 0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0}));
}

TEST(InputLayout, lists_of_int32_have_offsets_of_both_types) {
  InputLayout const layout({jagged_field<float>("weights", 20),
                            jagged_field<std::int32_t>("ids", 20, "weights"),
                            jagged_field<std::int64_t>("wide", 4)});
  EXPECT_EQ(layout.begin_of_offsets(1, 2), 256U);                // after 160 bytes of weights
  EXPECT_EQ(layout.begin_of_offsets(1, 2, DType::int32), 512U);  // after 24 bytes of offsets
  EXPECT_EQ(layout.offset(1, 2), 768U);                          // after 12 bytes of offsets
  EXPECT_EQ(layout.find_lists("weights", DType::int32), 0U);
  EXPECT_THROW(static_cast<void>(layout.find_lists("wide", DType::int32)), std::invalid_argument);

  std::vector<float> const weights{0.1F, 0.2F, 0.3F};
  std::vector<std::int32_t> const ids{1, 2, 3};
  std::vector<std::int64_t> const wide{4};
  std::vector<std::int64_t> const offsets{0, 2, 3};
  std::vector<std::int64_t> const ends{0, 0, 1};
  Query const query{.rows = 2, .values = {{weights, offsets}, ids, {wide, ends}}};
  layout.check(query);
  std::vector<std::byte> direct(layout.bytes(8), std::byte{0x3F});
  layout.pack(query, direct.data(), 8, 0);
  layout.pack(query, direct.data(), 8, 2);
  layout.end_lists(direct.data(), 8, 4);
  auto const narrow = layout.begin_of_offsets(1, 8, DType::int32);
  EXPECT_EQ(elements_at<std::int32_t>(direct.data(), narrow, 9),
            (std::vector<std::int32_t>{0, 2, 3, 5, 6, 6, 6, 6, 6}));
  EXPECT_EQ(elements_at<std::int64_t>(direct.data(), layout.begin_of_offsets(2, 8), 9),
            (std::vector<std::int64_t>{0, 0, 1, 1, 2, 2, 2, 2, 2}));

  std::vector<std::byte> alone(layout.bytes(4), std::byte{0x77});
  std::vector<std::byte> again(layout.bytes(8), std::byte{0x3F});
  layout.pack(query, alone.data(), 4, 0);
  layout.repack({alone.data(), 4, 2}, again.data(), 8, 0);
  layout.repack({alone.data(), 4, 2}, again.data(), 8, 2);
  layout.end_lists(again.data(), 8, 4);
  EXPECT_EQ(direct, again);
}

TEST(InputLayout, lists_follow_each_other_and_their_offsets_follow_the_elements) {
  InputLayout const layout({jagged_field<std::int64_t>("ids", 20),
                            jagged_field<float>("weights", 20, "ids"),
                            field<float>("dense", 1)});
  EXPECT_EQ(layout.offset(0, 2), 0U);
  EXPECT_EQ(layout.begin_of_offsets(0, 2), 512U);  // after 320 bytes of ids
  EXPECT_EQ(layout.begin_of_offsets(1, 2), 512U);
  EXPECT_EQ(layout.offset(1, 2), 768U);   // after 24 bytes of offsets
  EXPECT_EQ(layout.offset(2, 2), 1024U);  // after 160 bytes of weights
  EXPECT_EQ(layout.find_lists("weights"), 1U);

  std::vector<std::int64_t> const ids{1, 2, 3, 4, 5};
  std::vector<std::int64_t> const offsets{0, 2, 2, 5};
  std::vector<float> const weights{0.1F, 0.2F, 0.3F, 0.4F, 0.5F};
  std::vector<float> const dense{6, 7, 8};
  Query const query{.rows = 3, .values = {{ids, offsets}, weights, dense}};
  layout.check(query);
  EXPECT_EQ(layout.rows_needed(query, 8), 3);
  // Two queries after one another, in memory that holds anything.
  std::vector<std::byte> direct(layout.bytes(8), std::byte{0x3F});
  layout.pack(query, direct.data(), 8, 0);
  layout.pack(query, direct.data(), 8, 3);
  layout.end_lists(direct.data(), 8, 6);
  EXPECT_EQ(elements_at<std::int64_t>(direct.data(), 0, 10),
            (std::vector<std::int64_t>{1, 2, 3, 4, 5, 1, 2, 3, 4, 5}));
  EXPECT_EQ(elements_at<std::int64_t>(direct.data(), layout.begin_of_offsets(0, 8), 9),
            (std::vector<std::int64_t>{0, 2, 2, 5, 7, 7, 10, 10, 10}));
  EXPECT_EQ(elements_at<float>(direct.data(), layout.offset(1, 8), 10),
            (std::vector<float>{0.1F, 0.2F, 0.3F, 0.4F, 0.5F, 0.1F, 0.2F, 0.3F, 0.4F, 0.5F}));
  EXPECT_EQ(elements_at<float>(direct.data(), layout.offset(2, 8), 6),
            (std::vector<float>{6, 7, 8, 6, 7, 8}));

  std::vector<std::byte> alone(layout.bytes(4), std::byte{0x77});
  std::vector<std::byte> again(layout.bytes(8), std::byte{0x3F});
  layout.pack(query, alone.data(), 4, 0);
  layout.repack({alone.data(), 4, 3}, again.data(), 8, 0);
  layout.repack({alone.data(), 4, 3}, again.data(), 8, 3);
  layout.end_lists(again.data(), 8, 6);
  EXPECT_EQ(direct, again);

  layout.clear(again.data(), 8, 8);
  EXPECT_EQ(elements_at<std::int64_t>(again.data(), 0, 160), std::vector<std::int64_t>(160));
  EXPECT_EQ(elements_at<float>(again.data(), layout.offset(1, 8), 160), std::vector<float>(160));
  EXPECT_EQ(elements_at<float>(again.data(), layout.offset(2, 8), 6),
            (std::vector<float>{6, 7, 8, 6, 7, 8}));
}

TEST(InputLayout, a_query_needs_the_rows_that_have_room_for_its_lists) {
  InputLayout const layout({jagged_field<std::int64_t>("ids", 4)});
  auto const needed = [&](std::int64_t rows, std::size_t count) {
    std::vector<std::int64_t> const ids(count);
    return layout.rows_needed({.rows = rows, .values = {ids}}, 16);
  };
  EXPECT_EQ(needed(1, 0), 1);
  EXPECT_EQ(needed(1, 4), 1);
  EXPECT_EQ(needed(1, 5), 2);
  EXPECT_EQ(needed(3, 12), 3);
  EXPECT_EQ(needed(3, 13), 4);
  EXPECT_EQ(needed(1, 64), 16);
  EXPECT_THROW(static_cast<void>(needed(1, 65)), std::invalid_argument);
}

TEST(InputLayout, offsets_of_another_field_are_those_of_lists_in_front_with_as_much_room) {
  auto const ids = jagged_field<std::int64_t>("ids", 4);
  auto const weights = jagged_field<float>("weights", 4, "ids");
  auto const is_refused = [](std::vector<Field> const& fields) {
    try {
      InputLayout const layout(fields);
      return false;
    } catch (std::invalid_argument const& error) {
      return std::string(error.what()).find("'weights'") != std::string::npos;
    }
  };
  EXPECT_FALSE(is_refused({ids, weights}));
  EXPECT_TRUE(is_refused({weights, ids}));
  EXPECT_TRUE(is_refused({field<std::int64_t>("ids", 4), weights}));
  EXPECT_TRUE(is_refused({ids, jagged_field<float>("weights", 5, "ids")}));
  EXPECT_TRUE(is_refused({ids, jagged_field<float>("weights", 4, "weights")}));
  EXPECT_TRUE(is_refused({ids, {"weights", DType::float32, 4, Field::Order::rows, "ids"}}));
}

}  // namespace
}  // namespace msstream::serve
