// SPDX-License-Identifier: Apache-2.0
#include "jagged/jagged.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

namespace msstream::ops::kernels::testing {
namespace {

using Integers = std::vector<std::int64_t>;

template <class Stream>
class JaggedTest : public KernelTest<Stream> {
 protected:
  /// Returns offsets from `first` on, with empty samples first, last and in between.
  Integers random_offsets(std::int64_t batch, std::int64_t first) {
    Integers offsets{first};
    for (std::int64_t b = 0; b < batch; ++b) {
      bool const is_empty = b == 0 || b + 1 == batch;
      offsets.push_back(offsets.back() +
                        (is_empty ? 0 : std::max<std::int64_t>(0, this->random.integer(-3, 9))));
    }
    return offsets;
  }

  template <class T>
  void expect_both_ways(Integers const& offsets,
                        std::int64_t capacity,
                        std::int64_t max_length,
                        std::int64_t width,
                        T padding) {
    auto const batch = std::ssize(offsets) - 1;
    SCOPED_TRACE(fmt::format("{} samples up to {} of width {}", batch, max_length, width));
    auto const values = numbers<T>(capacity * width);
    auto const dense = numbers<T>(batch * max_length * width);
    std::vector<T> expected_dense(dense.size(), padding);
    std::vector<T> expected_values(values.size(), T{0});
    for (std::int64_t b = 0; b < batch; ++b) {
      auto const begin = offsets[static_cast<std::size_t>(b)];
      auto const length = offsets[static_cast<std::size_t>(b) + 1] - begin;
      for (std::int64_t i = 0; i < std::min(length, max_length) * width; ++i) {
        auto const jagged = static_cast<std::size_t>(begin * width + i);
        auto const place = static_cast<std::size_t>(b * max_length * width + i);
        expected_dense[place] = values[jagged];
        expected_values[jagged] = dense[place];
      }
    }
    auto const where = this->upload(offsets);
    JaggedLayout const layout{
        where.data(), batch, capacity, max_length, width * static_cast<std::int64_t>(sizeof(T))};
    auto const jagged_in = this->upload(values);
    auto const dense_out = this->template poisoned<T>(batch * max_length * width);
    JaggedToDenseArgs args{layout, jagged_in.data(), 0, sizeof(T), dense_out.data()};
    std::memcpy(&args.padding_bits, &padding, sizeof(T));
    this->replay([&](Stream stream) { jagged_to_dense(stream, args); });
    EXPECT_TRUE(this->read(dense_out) == expected_dense);
    auto const dense_in = this->upload(dense);
    auto const jagged_out = this->template poisoned<T>(capacity * width);
    this->replay([&](Stream stream) {
      dense_to_jagged(stream, {layout, dense_in.data(), jagged_out.data()});
    });
    EXPECT_TRUE(this->read(jagged_out) == expected_values);
  }

  /// Compares the repeated rows and the numbers of the samples with references.
  template <class T>
  void expect_repeated(Integers const& offsets, std::int64_t capacity, std::int64_t width) {
    auto const batch = std::ssize(offsets) - 1;
    SCOPED_TRACE(fmt::format("{} samples of width {} in {} rows", batch, width, capacity));
    auto const rows = numbers<T>(batch * width);
    Integers expected_ids(static_cast<std::size_t>(capacity), -1);
    std::vector<T> expected(static_cast<std::size_t>(capacity * width), T{0});
    for (std::int64_t b = 0; b < batch; ++b) {
      for (auto i = offsets[static_cast<std::size_t>(b)];
           i < offsets[static_cast<std::size_t>(b) + 1];
           ++i) {
        expected_ids[static_cast<std::size_t>(i)] = b;
        std::copy_n(rows.begin() + b * width, width, expected.begin() + i * width);
      }
    }
    auto const where = this->upload(offsets);
    auto const in = this->upload(rows);
    JaggedLayout const layout{
        where.data(), batch, capacity, capacity, width * static_cast<std::int64_t>(sizeof(T))};
    auto const out = this->template poisoned<T>(capacity * width);
    this->replay([&](Stream stream) { repeat_rows(stream, {layout, in.data(), out.data()}); });
    EXPECT_TRUE(this->read(out) == expected);
    auto const ids = this->template poisoned<std::int64_t>(capacity);
    this->replay([&](Stream stream) { segment_ids(stream, {layout, ids.data()}); });
    EXPECT_TRUE(this->read(ids) == expected_ids);
  }

 private:
  template <class T>
  std::vector<T> numbers(std::int64_t count) {
    auto const integers = this->random.integers(count, 1, 100);
    return {integers.begin(), integers.end()};
  }
};
TYPED_TEST_SUITE(JaggedTest, StreamKinds, StreamKindName);

TYPED_TEST(JaggedTest, samples_of_any_length_and_rows_of_any_width) {
  for (std::int64_t const width : {1, 3, 4, 16, 33, 128, 1024}) {
    for (std::int64_t const batch : {0, 1, 2, 40}) {
      for (std::int64_t const max_length : {0, 1, 5, 20}) {
        for (std::int64_t const spare : {0, 7}) {
          auto const offsets = this->random_offsets(batch, spare);
          this->expect_both_ways(offsets, offsets.back() + spare, max_length, width, -1.5F);
          this->expect_both_ways(
              offsets, offsets.back() + spare, max_length, width, std::int64_t{1} << 40U);
        }
      }
    }
  }
}

TYPED_TEST(JaggedTest, many_samples_and_small_elements) {
  auto const offsets = this->random_offsets(30'000, 0);
  this->expect_both_ways(offsets, offsets.back() + 100, 6, 1, -1.5F);
  this->expect_both_ways(offsets, offsets.back() + 100, 6, 3, std::uint8_t{0xEE});
  this->expect_both_ways(offsets, offsets.back() + 100, 6, 2, std::uint16_t{0xBEEF});
  // There are more offsets than the threads of a block can search in two steps.
  auto const many = this->random_offsets(200'000, 3);
  this->expect_both_ways(many, many.back() + 2, 4, 1, -1.5F);
  this->expect_both_ways(Integers{0, 100'000, 100'000, 100'001}, 100'005, 99'000, 2, 0.5F);
}

TYPED_TEST(JaggedTest, rows_of_any_width_are_repeated_for_samples_of_any_length) {
  for (std::int64_t const width : {1, 2, 3, 4, 16, 33, 128, 1024}) {
    for (std::int64_t const batch : {0, 1, 2, 40}) {
      for (std::int64_t const spare : {0, 7}) {
        auto const offsets = this->random_offsets(batch, spare);
        this->template expect_repeated<float>(offsets, offsets.back() + spare, width);
        this->template expect_repeated<std::uint16_t>(offsets, offsets.back() + spare, width);
      }
    }
  }
  this->template expect_repeated<float>(Integers{0, 2, 3}, 4, 0);
}

TYPED_TEST(JaggedTest, rows_are_repeated_for_many_samples_and_for_long_ones) {
  auto const many = this->random_offsets(200'000, 3);
  this->template expect_repeated<float>(many, many.back() + 2, 1);
  this->template expect_repeated<std::uint8_t>(many, many.back() + 2, 5);
  Integers const long_ones{0, 100'000, 100'000, 100'001, 260'000};
  this->template expect_repeated<float>(long_ones, 260'005, 6);
}

TYPED_TEST(JaggedTest, width_of_nothing) {
  this->expect_both_ways(Integers{0, 2, 3}, 4, 2, 0, 1.0F);
}

TYPED_TEST(JaggedTest, offsets_beyond_the_capacity_stay_within_the_memory) {
  auto const offsets = this->upload(Integers{0, 2, 1'000'000});
  auto const values = this->upload(std::vector{1.0F, 2.0F, 3.0F});
  auto const dense = this->floats(8);
  JaggedLayout const layout{offsets.data(), 2, 3, 4, 4};
  jagged_to_dense(this->stream(), {layout, values.data(), 0, 4, dense.data()});
  EXPECT_EQ(this->read(dense), (std::vector<float>{1, 2, 0, 0, 0, 0, 0, 0}));
  dense_to_jagged(this->stream(), {layout, dense.data(), values.data()});
  EXPECT_EQ(this->read(values), (std::vector<float>{1, 2, 0}));
  auto const repeated = this->floats(3);
  repeat_rows(this->stream(), {layout, dense.data(), repeated.data()});
  EXPECT_EQ(this->read(repeated), (std::vector<float>{1, 1, 0}));
  auto const ids = this->template poisoned<std::int64_t>(3);
  segment_ids(this->stream(), {layout, ids.data()});
  EXPECT_EQ(this->read(ids), (Integers{0, 0, -1}));
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
