// SPDX-License-Identifier: Apache-2.0
#include "jagged/lengths.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace msstream::ops::kernels::testing {
namespace {

using Integers = std::vector<std::int64_t>;

/// Numbers of lengths that one block handles in one or two iterations, or that are divided into
/// tiles, which exchange their sums.
constexpr std::int64_t kLengthCounts[] = {
    0, 1, 15, 16, 17, 4095, 4096, 4097, 8191, 8192, 8193, 100'001, 4'200'003};

template <class Stream>
class LengthsTest : public KernelTest<Stream> {
 protected:
  template <class T>
  void expect_offsets(std::vector<T> const& lengths, std::int64_t existing) {
    Integers expected{0};
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      auto const length = static_cast<std::int64_t>(i) < existing ? lengths[i] : T{0};
      expected.push_back(expected.back() + std::max<std::int64_t>(length, 0));
    }
    auto const capacity = static_cast<std::int64_t>(lengths.size());
    auto const input = this->upload(lengths);
    auto const count = this->scalar(existing);
    auto const offsets = this->integers(capacity + 1);
    auto const memory =
        this->workspace(lengths_to_offsets_workspace_bytes(this->stream(), capacity));
    this->replay([&](Stream stream) {
      lengths_to_offsets(stream,
                         {input.data(), capacity, count.data(), offsets.data(), memory.data()});
    });
    EXPECT_TRUE(this->read(offsets) == expected);
    if (existing >= capacity) {
      this->poison(offsets);
      lengths_to_offsets(this->stream(),
                         {input.data(), capacity, nullptr, offsets.data(), memory.data()});
      EXPECT_TRUE(this->read(offsets) == expected);
    }
  }
};
TYPED_TEST_SUITE(LengthsTest, StreamKinds, StreamKindName);

TYPED_TEST(LengthsTest, offsets_are_the_sums_before_for_any_number_of_lengths) {
  for (auto const capacity : kLengthCounts) {
    SCOPED_TRACE(fmt::format("{} lengths", capacity));
    auto const lengths = this->random.integers(capacity, -3, 1000);
    this->expect_offsets(lengths, capacity);
    this->expect_offsets(std::vector<std::int32_t>(lengths.begin(), lengths.end()), capacity);
  }
}

TYPED_TEST(LengthsTest, what_is_beyond_the_count_is_empty_and_sums_pass_32_bits) {
  for (auto const capacity : kLengthCounts) {
    SCOPED_TRACE(fmt::format("{} lengths", capacity));
    auto const lengths = this->random.integers(capacity, 0, std::int64_t{1} << 33U);
    for (auto const existing : {std::int64_t{-1},
                                std::int64_t{0},
                                this->random.integer(0, capacity),
                                capacity,
                                capacity + 1}) {
      this->expect_offsets(lengths, existing);
    }
  }
}

TYPED_TEST(LengthsTest, sums_too_great_for_an_offset_keep_nobody_waiting) {
  Integers lengths(20'000, 1);
  lengths[0] = lengths[1] = std::int64_t{1} << 62U;
  auto const input = this->upload(lengths);
  auto const memory =
      this->workspace(lengths_to_offsets_workspace_bytes(this->stream(), std::ssize(lengths)));
  auto const offsets = this->integers(std::ssize(lengths) + 1);
  lengths_to_offsets(this->stream(),
                     {input.data(), std::ssize(lengths), nullptr, offsets.data(), memory.data()});
  EXPECT_EQ(this->read(offsets)[1], std::int64_t{1} << 62U);
}

TYPED_TEST(LengthsTest, the_workspace_is_used_again) {
  auto const first = this->random.integers(50'000, 0, 9);
  auto const input = this->upload(first);
  auto const memory =
      this->workspace(lengths_to_offsets_workspace_bytes(this->stream(), std::ssize(first)));
  auto const offsets = this->integers(std::ssize(first) + 1);
  for (std::int64_t const existing : {50'000, 20'000, 0, 49'999}) {
    auto const count = this->scalar(existing);
    lengths_to_offsets(
        this->stream(),
        {input.data(), std::ssize(first), count.data(), offsets.data(), memory.data()});
    EXPECT_EQ(this->read(offsets).back(),
              std::accumulate(first.begin(), first.begin() + existing, std::int64_t{0}));
  }
}

TYPED_TEST(LengthsTest, lengths_are_the_differences_of_offsets) {
  for (auto const count : kLengthCounts) {
    auto const lengths = this->random.integers(count, 0, 50);
    Integers offsets{3};
    for (auto const length : lengths) {
      offsets.push_back(offsets.back() + length);
    }
    auto const input = this->upload(offsets);
    auto const found = this->integers(count);
    this->replay([&](TypeParam stream) {
      offsets_to_lengths(stream, {input.data(), count, found.data()});
    });
    EXPECT_TRUE(this->read(found) == lengths) << count;
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
