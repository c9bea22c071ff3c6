// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/ops/ids.hpp>

#include <fmt/core.h>

#include <limits>

namespace msstream::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

/// Computes the 64-bit finaliser of MurmurHash3, as its definition says.
std::uint64_t finalised(std::uint64_t h) {
  h = (h ^ (h >> 33U)) * 0xff51afd7ed558ccdULL;
  h = (h ^ (h >> 33U)) * 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33U);
}

template <class R>
class HashTest : public OpsTest<R> {};
TYPED_TEST_SUITE(HashTest, Runtimes, RuntimeNames);

TYPED_TEST(HashTest, maps_keys_of_any_shape_by_the_finaliser) {
  auto keys = this->random.integers(
      997, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
  keys.insert(keys.end(), {0, -1, 1});
  for (std::int64_t const buckets : {std::int64_t{1}, std::int64_t{1000}, std::int64_t{1} << 40U}) {
    for (std::uint64_t const salt : {0U, 17U}) {
      Integers expected;
      for (auto const key : keys) {
        expected.push_back(
            static_cast<std::int64_t>(finalised(static_cast<std::uint64_t>(key) + salt) %
                                      static_cast<std::uint64_t>(buckets)));
      }
      auto const found = ops::hash_to_bucket(this->put(keys, {10, 100}), buckets, salt);
      EXPECT_EQ(found.shape(), (Shape{10, 100}));
      EXPECT_EQ(to_host(found), expected);
    }
  }
}

TYPED_TEST(HashTest, keys_of_32_bits_go_where_those_of_64_do) {
  std::vector<std::int32_t> const keys{0, -1, 1, 1'000'000'007, -1'000'000'007};
  EXPECT_EQ(to_host(ops::hash_to_bucket(this->put(keys), 1000, 5)),
            to_host(ops::hash_to_bucket(this->put(Integers(keys.begin(), keys.end())), 1000, 5)));
}

TYPED_TEST(HashTest, maps_many_columns_as_each_of_them_alone) {
  constexpr std::int64_t kColumns = 130;  // more than two launches take
  auto const keys =
      this->put(this->random.integers(kColumns * 6, -1'000'000, 1'000'000), {kColumns, 2, 3});
  auto const counts = this->random.integers(kColumns, 1, 1000);
  auto const found = ops::hash_to_bucket(keys, counts, 7);
  EXPECT_EQ(found.shape(), (Shape{kColumns, 2, 3}));
  for (std::int64_t c = 0; c < kColumns; ++c) {
    EXPECT_EQ(to_host(found.rows(c, c + 1)),
              to_host(ops::hash_to_bucket(keys.rows(c, c + 1),
                                          counts[static_cast<std::size_t>(c)],
                                          7 + static_cast<std::uint64_t>(c))))
        << c;
  }
}

TYPED_TEST(HashTest, refuses_counts_that_do_not_fit_the_columns) {
  auto const keys = this->template any<std::int64_t>({2, 3});
  expect_refused([&] { (void)ops::hash_to_bucket(keys, Integers{5}); },
                 "hash_to_bucket",
                 "1 bucket counts for keys of shape [2, 3]");
  expect_refused(
      [&] {
        (void)ops::hash_to_bucket(keys, Integers{5, 0});
      },
      "hash_to_bucket",
      "0 buckets for column 1");
  EXPECT_EQ(ops::hash_to_bucket(this->template any<std::int64_t>({2, 0}), Integers{5, 6}).shape(),
            (Shape{2, 0}));
  EXPECT_EQ(ops::hash_to_bucket(this->template any<std::int64_t>({0, 4}), Integers{}).shape(),
            (Shape{0, 4}));
}

TYPED_TEST(HashTest, bucketizes_by_the_boundaries_at_or_below) {
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  auto const infinity = std::numeric_limits<float>::infinity();
  auto const boundaries = this->put(Floats{-1.0F, 0.0F, 0.0F, 2.5F});
  auto const values =
      this->put(Floats{-2.0F, -1.0F, -0.5F, 0.0F, 2.4F, 2.5F, infinity, -infinity, nan});
  EXPECT_THAT(to_host(ops::bucketize(values, boundaries)), ElementsAre(0, 1, 1, 3, 3, 4, 4, 0, 0));
  EXPECT_THAT(to_host(ops::bucketize(values.rows(0, 2), this->any({0}))), ElementsAre(0, 0));
}

TYPED_TEST(HashTest, takes_empty_tensors_and_refuses_no_buckets) {
  auto const keys = this->template any<std::int64_t>({0, 3});
  EXPECT_EQ(ops::hash_to_bucket(keys, 5).shape(), (Shape{0, 3}));
  EXPECT_EQ(ops::bucketize(this->any({0}), this->any({4})).shape(), Shape{0});
  for (std::int64_t const buckets : {0, -3}) {
    expect_refused([&] { (void)ops::hash_to_bucket(keys, buckets); },
                   "hash_to_bucket",
                   fmt::format("{}", buckets));
  }
}

}  // namespace
}  // namespace msstream::testing
