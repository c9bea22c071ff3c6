// SPDX-License-Identifier: Apache-2.0
#include "jagged/jagged_softmax.hpp"

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

  /// Calls each(indices) with the indices of the elements of each column of each segment.
  template <class Each>
  static void for_each_column(Integers const& offsets, std::int64_t width, Each const& each) {
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      for (std::int64_t column = 0; column < width; ++column) {
        std::vector<std::size_t> indices;
        for (auto row = offsets[s]; row < offsets[s + 1]; ++row) {
          indices.push_back(static_cast<std::size_t>(row * width + column));
        }
        each(indices);
      }
    }
  }

  void expect_softmax(Integers const& offsets,
                      std::int64_t capacity,
                      std::int64_t width,
                      std::vector<float> const& values) {
    std::vector<double> expected(values.size(), 0.0);
    for_each_column(offsets, width, [&](auto const& indices) {
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
    this->replay([&](Stream stream) {
      jagged_softmax(
          stream,
          {input.data(), where.data(), std::ssize(offsets) - 1, capacity, width, output.data()});
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
    for_each_column(offsets, width, [&](auto const& indices) {
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
    this->replay([&](Stream stream) {
      jagged_softmax_gradient(stream,
                              {output.data(),
                               output_gradient.data(),
                               where.data(),
                               std::ssize(offsets) - 1,
                               capacity,
                               width,
                               gradient.data()});
    });
    expect_within(this->read(gradient), expected, 1e-5);
  }

  void expect_both(Integers const& lengths, std::int64_t width, std::int64_t spare) {
    auto const offsets = offsets_of(lengths, spare);
    auto const capacity = offsets.back() + spare;
    SCOPED_TRACE(fmt::format("{} segments, {} rows of {}", lengths.size(), capacity, width));
    expect_softmax(offsets, capacity, width, this->random.reals(capacity * width, -20.0F, 20.0F));
    expect_gradient(offsets, capacity, width);
  }
};
TYPED_TEST_SUITE(JaggedSoftmaxTest, StreamKinds, StreamKindName);

TYPED_TEST(JaggedSoftmaxTest, segments_of_any_length_and_any_width) {
  for (std::int64_t const width : {1, 2, 3, 4, 16, 33, 128}) {
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
    jagged_softmax(this->stream(), {input.data(), where.data(), 5, capacity, 3, output.data()});
    return this->read(output);
  };
  EXPECT_TRUE(softmax_again() == softmax_again());
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
