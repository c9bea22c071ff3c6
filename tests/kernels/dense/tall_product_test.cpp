// SPDX-License-Identifier: Apache-2.0
#include "dense/tall_product.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace msstream::ops::kernels::testing {
namespace {

constexpr std::int64_t kMultiprocessors = 132;

std::int64_t tiles_of(TallProduct const& product) {
  return product.batch * ((product.rows + 63) / 64) * ((product.columns + 63) / 64);
}

/// Whether the tiles fill less than half of a device.
bool is_small(TallProduct const& product) {
  return 2 * tiles_of(product) <= kMultiprocessors;
}

/// Calls use(product) for TallProduct descriptions of many lengths and sizes.
template <class Use>
void for_each_product(Use const& use) {
  for (std::int64_t const length :
       {0, 1, 512, 1023, 1024, 1025, 1031, 2048, 4096, 4099, 6400, 8191, 65'536, 1'000'003}) {
    for (std::int64_t const rows : {0, 1, 63, 64, 65, 429, 2000}) {
      for (std::int64_t const columns : {1, 2, 64, 256, 1024}) {
        for (std::int64_t const batch : {0, 1, 2, 8, 66, 67}) {
          for (bool const shared : {false, true}) {
            SCOPED_TRACE(fmt::format("{} x {} of {}, batch {}", rows, columns, length, batch));
            use(TallProduct{length, rows, columns, batch, shared});
          }
        }
      }
    }
  }
}

TEST(TallProduct, parts_cover_the_sum_once) {
  int even = 0;
  int uneven = 0;
  for_each_product([&](TallProduct const& product) {
    auto const parts = plan_parts(product);
    ASSERT_GE(parts.count, 1);
    ASSERT_LT((parts.count - 1) * parts.length, product.length + (parts.count == 1 ? 1 : 0));
    ASSERT_GE(parts.count * parts.length, product.length);
    bool const is_even = parts.count * parts.length == product.length;
    ASSERT_TRUE(is_even || product.batch == 1) << "matrices and parts at one stride";
    even += parts.count > 1 && is_even ? 1 : 0;
    uneven += is_even ? 0 : 1;
  });
  EXPECT_GT(even, 0);
  EXPECT_GT(uneven, 0);
}

TEST(TallProduct, parts_are_few_and_not_short) {
  for_each_product([](TallProduct const& product) {
    auto const parts = plan_parts(product);
    if (parts.count > 1) {
      ASSERT_LE(parts.count, 32);
      ASSERT_GE(parts.length, is_small(product) ? 256 : 1024);
      ASSERT_LE(parts.count * tiles_of(product), product.batch == 1 ? 1024 : kMultiprocessors);
    }
  });
}

TEST(TallProduct, stays_whole_if_short_or_large_or_shared) {
  for_each_product([](TallProduct const& product) {
    bool const fills_the_device =
        !is_small(product) &&
        (product.batch > 1 || product.length < 4096 || tiles_of(product) > 256);
    bool const shared = product.shared_operand && product.batch > 1;
    if (product.length < 1024 || fills_the_device || tiles_of(product) == 0 || shared) {
      ASSERT_EQ(plan_parts(product), (SumParts{1, product.length}));
    }
  });
}

TEST(TallProduct, has_the_parts_of_the_measured_shapes) {
  EXPECT_EQ(plan_parts({6400, 64, 64}), (SumParts{25, 256}));
  EXPECT_EQ(plan_parts({4096, 256, 128}), (SumParts{16, 256}));
  EXPECT_EQ(plan_parts({4096, 429, 256}), (SumParts{16, 256}));
  EXPECT_EQ(plan_parts({512, 429, 256}), (SumParts{1, 512}));
  EXPECT_EQ(plan_parts({8192, 512, 256}), (SumParts{16, 512}));
  EXPECT_EQ(plan_parts({2048, 512, 512}), (SumParts{8, 256}));
  EXPECT_EQ(plan_parts({8192, 1024, 479}), (SumParts{8, 1024}));
  EXPECT_EQ(plan_parts({8192, 1024, 1024}), (SumParts{4, 2048}));
  EXPECT_EQ(plan_parts({2048, 1024, 1024}), (SumParts{1, 2048}));
  EXPECT_EQ(plan_parts({4096, 2048, 1024}), (SumParts{1, 4096}));
  EXPECT_EQ(plan_parts({6400, 64, 64, 8}), (SumParts{16, 400}));
  EXPECT_EQ(plan_parts({6400, 64, 64, 8, true}), (SumParts{1, 6400}));
}

TEST(TallProduct, without_an_even_number_of_parts_the_last_one_is_shorter) {
  EXPECT_EQ(plan_parts({1031, 20, 12}), (SumParts{4, 288}));
  EXPECT_EQ(plan_parts({4099, 20, 12}), (SumParts{15, 288}));
  EXPECT_EQ(plan_parts({4099, 20, 12, 2}), (SumParts{1, 4099}));
}

TEST(TallProduct, has_a_workspace_for_the_results_of_parts) {
  EXPECT_EQ(workspace_bytes({6400, 64, 64, 2}), 2U * 25 * 64 * 64 * sizeof(float));
  EXPECT_EQ(workspace_bytes({1031, 20, 12}), 4U * 20 * 12 * sizeof(float));
  for_each_product([](TallProduct const& product) {
    auto const bytes = workspace_bytes(product);
    ASSERT_EQ(bytes == 0, plan_parts(product).count == 1);
    ASSERT_LE(bytes, 1024U * 64U * 64U * sizeof(float));
  });
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
