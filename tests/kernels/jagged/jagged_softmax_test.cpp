// SPDX-License-Identifier: Apache-2.0
#include "jagged/jagged_softmax.hpp"

#include "ids/bag_offsets.hpp"
#include "jagged/part_rows.hpp"
#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <cmath>
#include <limits>

namespace msstream::ops::kernels::testing {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr float kBoundless = std::numeric_limits<float>::infinity();

template <class Stream>
class JaggedSoftmaxTest : public KernelTest<Stream> {
 protected:
  Integers offsets_of(Integers const& lengths, std::int64_t first = 0) {
    Integers offsets{first};
    for (auto const length : lengths) {
      offsets.push_back(offsets.back() + length);
    }
    return offsets;
  }

  /// Calls each(indices) with the indices of the elements of each column of each segment that has
  /// valid offsets.
  template <class Each>
  static void for_each_column(Integers const& offsets,
                              std::int64_t capacity,
                              std::int64_t width,
                              Each const& each) {
    BagOffsets<std::int64_t> const segments{offsets.data(), std::ssize(offsets) - 1, capacity};
    for (std::int64_t s = 0; s < segments.bags; ++s) {
      auto const rows = segments.places_of(s);
      for (std::int64_t column = 0; column < width; ++column) {
        std::vector<std::size_t> indices;
        for (auto row = rows.begin; row < rows.end; ++row) {
          indices.push_back(static_cast<std::size_t>(row * width + column));
        }
        each(indices);
      }
    }
  }

  Buffer<std::byte> softmax_workspace(std::int64_t capacity, std::int64_t width) {
    return this->workspace(jagged_softmax_workspace_bytes(this->stream(), capacity, width));
  }

  void expect_softmax(Integers const& offsets,
                      std::int64_t capacity,
                      std::int64_t width,
                      std::vector<float> const& values) {
    std::vector<double> expected(values.size(), 0.0);
    for_each_column(offsets, capacity, width, [&](auto const& indices) {
      double largest = -kBoundless;
      double sum = 0;
      for (auto const i : indices) {
        largest = values[i] > largest || std::isnan(values[i]) ? double{values[i]} : largest;
      }
      for (auto const i : indices) {
        expected[i] = std::exp(values[i] - largest);
        sum += expected[i];
      }
      for (auto const i : indices) {
        expected[i] /= sum;
      }
    });
    auto const input = this->upload(values);
    auto const where = this->upload(offsets);
    auto const output = this->guarded(capacity * width);
    auto const workspace = softmax_workspace(capacity, width);
    this->replay([&](Stream stream) {
      jagged_softmax(stream,
                     {input.data(),
                      where.data(),
                      std::ssize(offsets) - 1,
                      capacity,
                      width,
                      output.data(),
                      workspace.data()});
    });
    expect_within(this->read(output), expected, 1e-5);
  }

  void expect_gradient(Integers const& offsets, std::int64_t capacity, std::int64_t width) {
    auto outputs = this->random.reals(capacity * width, 0.0F, 1.0F);
    auto upstream = this->random.reals(capacity * width);
    for (std::size_t i = 0; i < outputs.size(); i += 3) {
      outputs[i] = 0.0F;
      upstream[i] = std::nanf("");
    }
    std::vector<double> expected(outputs.size(), 0.0);
    for_each_column(offsets, capacity, width, [&](auto const& indices) {
      // The outputs are scaled so that they add up to 1, like those of a softmax.
      double sum = 0;
      for (auto const i : indices) {
        sum += outputs[i];
      }
      double total = 0;
      for (auto const i : indices) {
        outputs[i] = static_cast<float>(outputs[i] / (sum > 0 ? sum : 1));
        total += outputs[i] != 0.0F ? double{outputs[i]} * upstream[i] : 0.0;
      }
      for (auto const i : indices) {
        expected[i] = outputs[i] != 0.0F ? outputs[i] * (upstream[i] - total) : 0.0;
      }
    });
    auto const output = this->upload(outputs);
    auto const output_gradient = this->upload(upstream);
    auto const where = this->upload(offsets);
    auto const gradient = this->guarded(capacity * width);
    auto const workspace =
        this->workspace(jagged_softmax_gradient_workspace_bytes(this->stream(), capacity, width));
    this->replay([&](Stream stream) {
      jagged_softmax_gradient(stream,
                              {output.data(),
                               output_gradient.data(),
                               where.data(),
                               std::ssize(offsets) - 1,
                               capacity,
                               width,
                               gradient.data(),
                               workspace.data()});
    });
    expect_within(this->read(gradient), expected, 1e-5);
  }

  void expect_both(Integers const& lengths, std::int64_t width, std::int64_t spare) {
    auto const offsets = offsets_of(lengths, spare);
    expect_both_in(offsets.back() + spare, offsets, width);
  }
  void expect_both_in(std::int64_t capacity, Integers const& offsets, std::int64_t width) {
    SCOPED_TRACE(fmt::format("{} segments, {} rows of {}", offsets.size() - 1, capacity, width));
    expect_softmax(offsets, capacity, width, this->random.reals(capacity * width, -20.0F, 20.0F));
    expect_gradient(offsets, capacity, width);
  }
};
TYPED_TEST_SUITE(JaggedSoftmaxTest, StreamKinds, StreamKindName);

TYPED_TEST(JaggedSoftmaxTest, segments_of_any_length_and_any_width) {
  for (std::int64_t const width : {1, 2, 3, 4, 5, 16, 17, 33, 65, 128, 130}) {
    for (std::int64_t const spare : {0, 5}) {
      this->expect_both({}, width, spare);
      this->expect_both({7}, width, spare);
      this->expect_both({0, 0, 0}, width, spare);
      this->expect_both({0, 1, 2, 31, 0, 32, 33, 64, 65, 200, 0}, width, spare);
      // Several segments are too long for a few lanes, and lie among short ones.
      this->expect_both({3, 2500, 0, 4, 2100, 2049, 1}, width, spare);
    }
  }
  this->expect_both({2, 5}, 0, 3);
}

TYPED_TEST(JaggedSoftmaxTest, many_short_segments_and_a_long_one) {
  for (std::int64_t const most : {2, 6, 20, 60}) {
    auto lengths = this->random.integers(5000, 0, most);
    lengths[4321] = 100'000;
    this->expect_both(lengths, 1, 3);
  }
  this->expect_both(this->random.integers(3000, 0, 9), 4, 3);
}

TYPED_TEST(JaggedSoftmaxTest, segments_that_lanes_just_hold_and_just_do_not) {
  for (std::int64_t const width : {1, 3, 64}) {
    for (std::int64_t const lanes : {1, 2, 4, 8, 16, 32}) {
      for (std::int64_t const most : {8 * lanes, 64 * lanes}) {
        this->expect_both({most - 1, most, most, 0, most + 1, 1}, width, 2);
        this->expect_both({most, most - 1, 1, 0}, width, 0);
      }
    }
  }
}

TYPED_TEST(JaggedSoftmaxTest, long_and_short_segments_that_lanes_share) {
  // There are so many segments that a block has several of them.
  auto lengths = this->random.integers(1100, 0, 70);
  lengths[7] = 64;
  lengths[8] = 65;
  this->expect_both(lengths, 64, 1);
}

TYPED_TEST(JaggedSoftmaxTest, segments_that_one_block_or_several_blocks_share) {
  for (std::int64_t const width : {1, 3, 33, 128}) {
    auto const capacity = 24 * part_rows(0, width);
    auto const part = part_rows(capacity, width);
    ASSERT_EQ(part, part_rows(0, width));
    Integers const around{
        3, part - 1, part, part + 1, 0, 2 * part - 1, 2 * part, 9, 2 * part + 1, 5 * part + 3};
    for (std::int64_t const first : {std::int64_t{0}, part - 1, part, part + 1}) {
      this->expect_both_in(capacity, this->offsets_of(around, first), width);
    }
    Integers all(601, 0);
    all[300] = capacity;
    this->expect_both_in(capacity, this->offsets_of(all), width);
    all[300] = capacity - 2;
    this->expect_both_in(capacity, this->offsets_of(all, 1), width);
    this->expect_both_in(capacity, {0, capacity}, width);
    this->expect_both_in(capacity, {0, 1, capacity}, width);
    this->expect_both_in(capacity, {0, capacity - part, capacity}, width);
  }
}

TYPED_TEST(JaggedSoftmaxTest, long_segments_beside_bad_ones) {
  for (std::int64_t const width : {3, 33}) {
    auto const capacity = 24 * part_rows(0, width);
    for (int trial = 0; trial < 8; ++trial) {
      auto offsets = this->random.integers(9, 0, capacity);
      std::sort(offsets.begin(), offsets.end());
      for (int damage = 0; damage < trial % 3; ++damage) {
        offsets[static_cast<std::size_t>(this->random.integer(0, 8))] =
            this->random.integer(-9, capacity + 9);
      }
      this->expect_both_in(capacity, offsets, width);
    }
  }
}

TYPED_TEST(JaggedSoftmaxTest, segments_just_long_enough_for_parts_among_many) {
  auto lengths = this->random.integers(1100, 0, 2);
  lengths[20] = 63;
  lengths[21] = 64;
  lengths[1000] = 65;
  lengths[1098] = 64;
  this->expect_both(lengths, 128, 0);
}

TYPED_TEST(JaggedSoftmaxTest, parts_of_wide_rows_that_blocks_take_in_several_rounds) {
  constexpr std::int64_t kWidth = 34'000;
  this->expect_softmax({0, 130, 256}, 256, kWidth, this->random.reals(256 * kWidth, -9.0F, 9.0F));
}

TYPED_TEST(JaggedSoftmaxTest, parts_neither_overflow_nor_hide_what_is_not_a_number) {
  constexpr std::int64_t kRows = 1600;
  constexpr std::int64_t kWidth = 128;
  ASSERT_LT(20 * part_rows(kRows, kWidth), kRows);
  auto values = this->random.reals(kRows * kWidth, -20.0F, 20.0F);
  auto const at = [&](std::int64_t row, std::int64_t column) -> float& {
    return values[static_cast<std::size_t>(row * kWidth + column)];
  };
  for (std::int64_t row = 0; row < kRows; ++row) {
    at(row, 0) = -kBoundless;
    at(row, 1) = row == 777 ? 3.0F : -kBoundless;
    at(row, 2) = row < 1000 ? -kBoundless : at(row, 2);
    at(row, 3) = row < 500 ? at(row, 3) : -kBoundless;
    at(row, 4) = 12.0F * static_cast<float>(row) - 9000.0F;
    at(row, 5) = 9000.0F - 12.0F * static_cast<float>(row);
    at(row, 6) = -3e38F;
  }
  at(900, 7) = std::nanf("");
  at(kRows - 1, 8) = kBoundless;
  at(0, 9) = kBoundless;
  at(3, 10) = kBoundless;
  at(kRows - 3, 10) = std::nanf("");
  for (std::int64_t row = 0; row < kRows; ++row) {
    at(row, 11) = row == 5 ? std::nanf("") : -kBoundless;
  }
  this->expect_softmax({0, kRows}, kRows, kWidth, values);
  this->expect_softmax({0, 3, kRows - 3, kRows}, kRows, kWidth, values);
}

TYPED_TEST(JaggedSoftmaxTest, neither_overflows_nor_hides_what_is_not_a_number) {
  auto const nan = std::nanf("");
  this->expect_softmax(
      {0, 3, 5, 7, 9, 9, 11},
      11,
      1,
      {1e4F, 1e4F, -kBoundless, nan, 1, -kBoundless, -kBoundless, 1, kBoundless, 3, 3});
  std::vector<float> long_one(5000, 0.0F);
  long_one[4999] = nan;
  this->expect_softmax({0, 5000}, 5000, 1, long_one);
}

TYPED_TEST(JaggedSoftmaxTest, same_bits_again) {
  auto const offsets = this->offsets_of({5000, 3, 70'000, 0, 40});
  auto const capacity = offsets.back();
  auto const input = this->upload(this->random.reals(capacity * 3, -5.0F, 5.0F));
  auto const where = this->upload(offsets);
  auto const softmax_again = [&] {
    auto const output = this->floats(capacity * 3);
    auto const workspace = this->softmax_workspace(capacity, 3);
    jagged_softmax(this->stream(),
                   {input.data(), where.data(), 5, capacity, 3, output.data(), workspace.data()});
    return this->read(output);
  };
  EXPECT_TRUE(softmax_again() == softmax_again());
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
