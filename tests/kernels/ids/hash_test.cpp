// SPDX-License-Identifier: Apache-2.0
#include "ids/hash.hpp"

#include "kernels/kernel_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace msstream::ops::kernels::testing {
namespace {

constexpr std::int64_t kUntouched = -1;  // the value of poisoned memory

template <class Stream>
class HashTest : public KernelTest<Stream> {
 protected:
  std::vector<std::int64_t> hash(std::vector<std::int64_t> const& keys,
                                 std::int64_t bucket_count,
                                 std::uint64_t salt,
                                 std::int64_t const* count = nullptr) {
    auto const input = this->upload(keys);
    auto const capacity = static_cast<std::int64_t>(keys.size());
    auto const buckets = this->integers(capacity);
    this->replay([&](Stream stream) {
      hash_to_bucket(stream, {input.data(), buckets.data(), capacity, count, bucket_count, salt});
    });
    return this->read(buckets);
  }

  std::vector<std::int64_t> hash_all(std::vector<std::int64_t> const& keys,
                                     std::vector<std::int64_t> const& bucket_counts,
                                     std::uint64_t salt) {
    auto const input = this->upload(keys);
    auto const buckets = this->integers(std::ssize(keys));
    HashColumnsArgs args{input.data(),
                         buckets.data(),
                         std::ssize(keys) / std::ssize(bucket_counts),
                         static_cast<int>(bucket_counts.size()),
                         salt,
                         {}};
    std::copy(bucket_counts.begin(), bucket_counts.end(), std::begin(args.bucket_counts));
    this->replay([&](Stream stream) { hash_columns(stream, args); });
    return this->read(buckets);
  }

  std::vector<std::int64_t> bucketise(std::vector<float> const& values,
                                      std::vector<float> const& boundaries,
                                      std::int64_t const* count = nullptr) {
    auto const input = this->upload(values);
    auto const edges = this->upload(boundaries);
    auto const capacity = static_cast<std::int64_t>(values.size());
    auto const buckets = this->integers(capacity);
    this->replay([&](Stream stream) {
      bucketize(stream,
                {input.data(),
                 edges.data(),
                 static_cast<std::int64_t>(boundaries.size()),
                 buckets.data(),
                 capacity,
                 count});
    });
    return this->read(buckets);
  }
};
TYPED_TEST_SUITE(HashTest, StreamKinds, StreamKindName);

TYPED_TEST(HashTest, matches_known_values_of_the_finaliser) {
  // MurmurHash3's fmix64 maps 0 to 0 and 1 to b456bcfc34c2cb2c; modulo 2^32 + 1 keeps both
  // halves visible.
  constexpr std::int64_t kBuckets = (std::int64_t{1} << 32) + 1;
  constexpr std::uint64_t kMixedOne = 0xB456BCFC34C2CB2CULL;
  std::vector<std::int64_t> const expected{
      0, static_cast<std::int64_t>(kMixedOne % static_cast<std::uint64_t>(kBuckets))};
  EXPECT_EQ(this->hash({0, 1}, kBuckets, 0), expected);
  EXPECT_EQ(this->hash({-7, -6}, kBuckets, 7), expected) << "the salt is added before mixing";
}

TYPED_TEST(HashTest, stays_in_range_and_spreads_evenly) {
  constexpr std::int64_t kBuckets = 10;
  constexpr std::int64_t kKeys = 20'000;
  std::vector<std::int64_t> keys(kKeys);
  auto const start = this->random.integer(std::numeric_limits<std::int64_t>::min(), 0);
  for (std::int64_t i = 0; i < kKeys; ++i) {
    keys[static_cast<std::size_t>(i)] = start + i;
  }
  std::vector<int> hits(kBuckets);
  for (auto const bucket : this->hash(keys, kBuckets, 99)) {
    ASSERT_GE(bucket, 0);
    ASSERT_LT(bucket, kBuckets);
    ++hits[static_cast<std::size_t>(bucket)];
  }
  for (auto const count : hits) {
    EXPECT_NEAR(count, kKeys / kBuckets, 300) << "seven standard deviations are 297";
  }
}

TYPED_TEST(HashTest, touches_only_the_count_on_the_device) {
  auto const keys = this->random.integers(3000, 0, 1'000'000);
  auto const all = this->hash(keys, 1000, 3);
  for (std::int64_t const count : {-1, 0, 1, 256, 1023, 1024, 1025, 2999, 3000, 3001}) {
    auto const some = this->hash(keys, 1000, 3, this->scalar(count).data());
    for (std::int64_t i = 0; i < std::ssize(keys); ++i) {
      auto const at = static_cast<std::size_t>(i);
      ASSERT_EQ(some[at], i < count ? all[at] : kUntouched) << count;
    }
  }
  EXPECT_TRUE(this->hash({}, 1000, 3).empty());
}

TYPED_TEST(HashTest, columns_are_hashed_as_each_of_them_alone) {
  for (std::int64_t const columns : {1, 3, HashColumnsArgs::kMostColumns}) {
    for (std::int64_t const of_column : {1, 7, 700}) {
      auto const keys = this->random.integers(columns * of_column, -1'000'000, 1'000'000);
      auto const counts = this->random.integers(columns, 1, 5000);
      auto const found = this->hash_all(keys, counts, 42);
      for (std::int64_t c = 0; c < columns; ++c) {
        auto const first = keys.begin() + c * of_column;
        auto const alone = this->hash({first, first + of_column},
                                      counts[static_cast<std::size_t>(c)],
                                      42 + static_cast<std::uint64_t>(c));
        auto const begin = found.begin() + c * of_column;
        ASSERT_EQ(std::vector(begin, begin + of_column), alone) << columns << ' ' << c;
      }
    }
  }
  EXPECT_TRUE(this->hash_all({}, {5}, 1).empty());
}

TYPED_TEST(HashTest, bucketize_counts_the_boundaries_not_above) {
  auto boundaries = this->random.reals(37);
  boundaries[5] = boundaries[6];  // makes an empty bucket
  std::sort(boundaries.begin(), boundaries.end());
  auto values = this->random.reals(5001, -1.2F, 1.2F);
  std::copy(boundaries.begin(), boundaries.end(), values.begin());
  values[40] = std::numeric_limits<float>::infinity();
  values[41] = -std::numeric_limits<float>::infinity();
  values[42] = std::nanf("");
  auto const buckets = this->bucketise(values, boundaries);
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto const expected = std::count_if(
        boundaries.begin(), boundaries.end(), [&](float edge) { return edge <= values[i]; });
    ASSERT_EQ(buckets[i], expected) << values[i];
  }
}

TYPED_TEST(HashTest, bucketize_takes_no_boundaries_and_no_values) {
  EXPECT_EQ(this->bucketise({1.0F, -1.0F}, {}), (std::vector<std::int64_t>{0, 0}));
  EXPECT_TRUE(this->bucketise({}, {0.0F}).empty());
  EXPECT_EQ(this->bucketise({1.0F, 1.0F}, {0.0F}, this->scalar(1).data()),
            (std::vector<std::int64_t>{1, kUntouched}));
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
