// SPDX-License-Identifier: Apache-2.0
#include "embedding_gradient/row_parts.hpp"

#include "kernels/kernel_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace msstream::ops::kernels::testing {
namespace {

template <class Stream>
class RowPartsTest : public KernelTest<Stream> {};
TYPED_TEST_SUITE(RowPartsTest, StreamKinds, StreamKindName);

TYPED_TEST(RowPartsTest, moves_the_rows_that_exist_and_touches_no_other_values) {
  constexpr std::int64_t kCapacity = 300;
  for (std::int64_t const width : {1, 3, 4, 8, 20, 130}) {
    // If the offset is odd, rows are not aligned for vector accesses.
    for (std::int64_t const offset : {0, 1}) {
      for (std::int64_t const count : {0, 1, 37, 300, 301, -1}) {
        std::int64_t const existing = std::clamp<std::int64_t>(count, 0, kCapacity);
        auto const ids = this->random.integers(kCapacity, 0, 1'000'000);
        auto const values = this->random.reals(kCapacity * width + offset);
        auto const ids_there = this->upload(ids);
        auto const values_there = this->upload(values);
        auto const count_there = this->scalar(count);
        auto const merged_ids = this->integers(kCapacity);
        auto const merged_values = this->floats(kCapacity * width + offset);
        this->replay([&](TypeParam stream) {
          merge_rows(stream,
                     {ids_there.data(),
                      values_there.data() + offset,
                      count_there.data(),
                      kCapacity,
                      width,
                      merged_ids.data(),
                      merged_values.data() + offset});
        });
        auto const found_ids = this->read(merged_ids);
        auto const found_values = this->read(merged_values);
        for (std::int64_t i = 0; i < kCapacity; ++i) {
          auto const at = static_cast<std::size_t>(i);
          ASSERT_EQ(found_ids[at], i < existing ? ids[at] : -1) << "row " << i << " of " << count;
        }
        for (std::int64_t i = 0; i < offset + kCapacity * width; ++i) {
          auto const at = static_cast<std::size_t>(i);
          if (i >= offset && i < offset + existing * width) {
            ASSERT_EQ(found_values[at], values[at]) << "width " << width << ", place " << i;
          } else {
            ASSERT_TRUE(std::isnan(found_values[at])) << "width " << width << ", place " << i;
          }
        }
      }
    }
  }
}

TYPED_TEST(RowPartsTest, moves_ids_alone_without_values) {
  constexpr std::int64_t kCapacity = 300;
  for (std::int64_t const count : {0, 37, 300, 301, -1}) {
    auto const ids = this->random.integers(kCapacity, 0, 1'000'000);
    auto const ids_there = this->upload(ids);
    auto const count_there = this->scalar(count);
    auto const merged_ids = this->integers(kCapacity);
    this->replay([&](TypeParam stream) {
      merge_rows(stream,
                 {.ids = ids_there.data(),
                  .values = nullptr,
                  .end = count_there.data(),
                  .capacity = kCapacity,
                  .width = 0,
                  .merged_ids = merged_ids.data(),
                  .merged_values = nullptr});
    });
    auto const found = this->read(merged_ids);
    for (std::int64_t i = 0; i < kCapacity; ++i) {
      auto const at = static_cast<std::size_t>(i);
      ASSERT_EQ(found[at], i < count ? ids[at] : -1) << "row " << i << " of " << count;
    }
  }
}

// The rows [begin, end) of the gradients of many tables, of which the widest has 40 columns.
TYPED_TEST(RowPartsTest, takes_the_rows_of_one_table_among_those_of_many) {
  constexpr std::int64_t kRows = 300;
  constexpr std::int64_t kCapacity = 150;
  for (std::int64_t const stride : {40, 41}) {
    for (std::int64_t const width : {1, 3, 4, 33, 40}) {
      for (auto const& [begin, end] :
           {std::pair<std::int64_t, std::int64_t>{0, 0}, {7, 7}, {0, 1}, {5, 155}, {151, 300}}) {
        auto const ids = this->random.integers(kRows, 1'000, 1'000'000);
        auto const values = this->random.reals(kRows * stride);
        auto const ids_there = this->upload(ids);
        auto const values_there = this->upload(values);
        auto const range = this->upload(std::vector<std::int64_t>{begin, end});
        auto const merged_ids = this->integers(kCapacity);
        auto const merged_values = this->floats(kCapacity * width);
        auto const count = this->integers(1);
        this->replay([&](TypeParam stream) {
          merge_rows(stream,
                     {.ids = ids_there.data(),
                      .values = values_there.data(),
                      .end = range.data() + 1,
                      .capacity = kCapacity,
                      .width = width,
                      .merged_ids = merged_ids.data(),
                      .merged_values = merged_values.data(),
                      .first_row = -1'000,
                      .begin = range.data(),
                      .stride = stride,
                      .merged_count = count.data()});
        });
        auto const found_ids = this->read(merged_ids);
        auto const found_values = this->read(merged_values);
        EXPECT_EQ(this->read(count).front(), end - begin);
        for (std::int64_t i = 0; i < kCapacity; ++i) {
          bool const exists = i < end - begin;
          ASSERT_EQ(found_ids[static_cast<std::size_t>(i)],
                    exists ? ids[static_cast<std::size_t>(begin + i)] - 1'000 : -1);
          for (std::int64_t c = 0; c < width; ++c) {
            auto const found = found_values[static_cast<std::size_t>(i * width + c)];
            if (exists) {
              ASSERT_EQ(found, values[static_cast<std::size_t>((begin + i) * stride + c)]);
            } else {
              ASSERT_TRUE(std::isnan(found));
            }
          }
        }
      }
    }
  }
}

TYPED_TEST(RowPartsTest, counts_the_rows_of_a_part_without_rows) {
  auto const range = this->upload(std::vector<std::int64_t>{3, 3});
  auto const count = this->integers(1);
  this->replay([&](TypeParam stream) {
    merge_rows(stream,
               {.ids = nullptr,
                .values = nullptr,
                .end = range.data() + 1,
                .capacity = 0,
                .width = 4,
                .merged_ids = nullptr,
                .merged_values = nullptr,
                .begin = range.data(),
                .stride = 8,
                .merged_count = count.data()});
  });
  EXPECT_EQ(this->read(count).front(), 0);
}

TYPED_TEST(RowPartsTest, takes_a_part_without_rows) {
  this->replay([](TypeParam stream) {
    merge_rows(stream, {nullptr, nullptr, nullptr, 0, 4, nullptr, nullptr});
  });
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
