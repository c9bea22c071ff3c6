// SPDX-License-Identifier: Apache-2.0
#include "elementwise/top_k.hpp"

#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace msstream::ops::kernels::testing {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr float kInfinite = std::numeric_limits<float>::infinity();

/// Lengths of rows that a warp handles with one to 32 elements per lane, sorting all elements or
/// searching for a bound first, and of rows that a block handles.
constexpr std::int64_t kRowLengths[] = {1,   2,    5,    31,   32,   33,    64,  65,
                                        127, 128,  129,  256,  257,  300,   512, 513,
                                        992, 1000, 1024, 1025, 3000, 20'001};

/// Returns whether `a` is before `b` in descending order, with NaN before all numbers. Equal
/// elements keep their order.
bool comes_before(float a, float b) {
  return std::isnan(a) ? !std::isnan(b) : a > b;
}

template <class Stream>
class TopKTest : public KernelTest<Stream> {
 protected:
  void expect_top(std::vector<float> const& values, std::int64_t columns, std::int64_t k) {
    auto const rows = std::ssize(values) / columns;
    SCOPED_TRACE(fmt::format("the greatest {} in {} rows of {}", k, rows, columns));
    Integers expected_indices;
    std::vector<double> expected;
    for (std::int64_t row = 0; row < rows; ++row) {
      auto const* const first = values.data() + row * columns;
      Integers order(static_cast<std::size_t>(columns));
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
        return comes_before(first[a], first[b]);
      });
      for (std::int64_t j = 0; j < k; ++j) {
        expected_indices.push_back(order[static_cast<std::size_t>(j)]);
        expected.push_back(first[expected_indices.back()]);
      }
    }
    auto const input = this->upload(values);
    auto const top = this->guarded(rows * k);
    auto const indices = this->integers(rows * k);
    auto const memory = this->workspace(top_k_workspace_bytes(this->stream(), columns));
    this->replay([&](Stream stream) {
      top_k(stream, {input.data(), rows, columns, k, top.data(), indices.data(), memory.data()});
    });
    EXPECT_TRUE(this->read(indices) == expected_indices);
    expect_within(this->read(top), expected, 0.0);
  }

  void expect_top_of_each_size(std::vector<float> const& values, std::int64_t columns) {
    for (std::int64_t const k : {1, 2, 10, 100, 256}) {
      expect_top(values, columns, std::min(k, columns));
    }
  }
  /// Tests values of k around the powers of two that a warp sorts.
  void expect_top_of_every_size(std::vector<float> const& values, std::int64_t columns) {
    for (std::int64_t const k :
         {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256}) {
      if (k <= columns) {
        expect_top(values, columns, k);
      }
    }
  }
};
TYPED_TEST_SUITE(TopKTest, StreamKinds, StreamKindName);

TYPED_TEST(TopKTest, rows_of_any_length) {
  for (auto const columns : kRowLengths) {
    for (std::int64_t const rows : {0, 1, 13}) {
      this->expect_top_of_each_size(this->random.reals(rows * columns, -5.0F, 5.0F), columns);
    }
  }
  this->expect_top(this->random.reals(2 * 300'000), 300'000, 256);
}

TYPED_TEST(TopKTest, of_equal_elements_the_lower_columns) {
  for (auto const columns : kRowLengths) {
    this->expect_top_of_each_size(std::vector<float>(static_cast<std::size_t>(2 * columns), -3.0F),
                                  columns);
    std::vector<float> values;
    for (auto const value : this->random.integers(5 * columns, -2, 2)) {
      values.push_back(static_cast<float>(value));
    }
    this->expect_top_of_each_size(values, columns);
  }
}

TYPED_TEST(TopKTest, zeros_of_both_signs_infinities_and_what_is_not_a_number) {
  auto const nan = std::nanf("");
  float const specials[] = {0.0F, -0.0F, kInfinite, -kInfinite, nan, -nan, 1e-45F, -1e-45F, 1.0F};
  for (auto const columns : kRowLengths) {
    std::vector<float> values;
    for (auto const which : this->random.integers(5 * columns, 0, 8)) {
      values.push_back(specials[which]);
    }
    this->expect_top_of_each_size(values, columns);
    // Hardly any element is greater than -infinity.
    std::vector<float> lowest(static_cast<std::size_t>(columns), -kInfinite);
    lowest.back() = -0.0F;
    this->expect_top_of_each_size(lowest, columns);
  }
}

TYPED_TEST(TopKTest, elements_that_differ_in_their_last_bits_alone) {
  for (std::int64_t const columns : {2000, 20'000}) {
    std::vector<float> values;
    for (auto const step : this->random.integers(3 * columns, 0, 3 * columns)) {
      values.push_back(1.0F + static_cast<float>(step) * 0x1p-23F);
    }
    this->expect_top_of_each_size(values, columns);
  }
}

TYPED_TEST(TopKTest, rows_in_any_order_and_as_many_as_a_warp_sorts) {
  for (std::int64_t const columns : {31, 128, 129, 255, 256, 500, 1000, 1024}) {
    auto const ascending = [&] {
      auto values = this->random.reals(columns);
      std::sort(values.begin(), values.end());
      return values;
    }();
    auto values = ascending;
    values.insert(values.end(), ascending.rbegin(), ascending.rend());
    auto const shuffled = this->random.reals(columns, -1e30F, 1e30F);
    values.insert(values.end(), shuffled.begin(), shuffled.end());
    // The greatest elements of the row all belong to one lane, or are neighbours.
    for (std::int64_t column = 0; column < columns; ++column) {
      values.push_back(this->random.real() + (column % 32 == 7 ? 10.0F : 0.0F));
    }
    for (std::int64_t column = 0; column < columns; ++column) {
      values.push_back(this->random.real() + (column / 128 == 0 ? 10.0F : 0.0F));
    }
    this->expect_top_of_every_size(values, columns);
  }
}

TYPED_TEST(TopKTest, more_equal_elements_than_a_warp_sorts) {
  auto const nan = std::nanf("");
  for (std::int64_t const columns : {129, 256, 500, 1000, 1024}) {
    for (float const equal : {1.0F, 0.0F, -0.0F, kInfinite, -kInfinite, nan}) {
      std::vector<float> values(static_cast<std::size_t>(3 * columns), equal);
      // The second row gets a few equal greater elements, the third row a few random ones.
      for (std::int64_t i = 0; i < 20; ++i) {
        values[static_cast<std::size_t>(columns + this->random.integer(0, columns - 1))] = 2.0F;
      }
      for (std::int64_t i = 0; i < columns / 2; ++i) {
        values[static_cast<std::size_t>(2 * columns + this->random.integer(0, columns - 1))] =
            this->random.real(-3.0F, 3.0F);
      }
      this->expect_top_of_every_size(values, columns);
    }
  }
}

TYPED_TEST(TopKTest, many_short_rows) {
  for (std::int64_t const columns : {3, 40, 100, 200}) {
    this->expect_top(this->random.reals(10'001 * columns), columns, 3);
  }
}

TYPED_TEST(TopKTest, gradient_goes_to_the_columns_found) {
  for (std::int64_t const columns : {1, 7, 3000}) {
    for (std::int64_t const rows : {0, 1, 50}) {
      std::int64_t const k = std::min<std::int64_t>(columns, 5);
      auto const upstream = this->random.reals(rows * k);
      Integers indices;
      std::vector<double> expected(static_cast<std::size_t>(rows * columns), 0.0);
      for (std::int64_t row = 0; row < rows; ++row) {
        auto const first = this->random.integer(0, columns - 1);
        for (std::int64_t j = 0; j < k; ++j) {
          indices.push_back((first + j) % columns);
          expected[static_cast<std::size_t>(row * columns + indices.back())] =
              upstream[static_cast<std::size_t>(row * k + j)];
        }
      }
      if (rows > 1) {
        expected[static_cast<std::size_t>(indices[0])] = 0;
        expected[static_cast<std::size_t>(columns + indices[static_cast<std::size_t>(k)])] = 0;
        indices[0] = -1;
        indices[static_cast<std::size_t>(k)] = columns;
      }
      auto const top_gradient = this->upload(upstream);
      auto const where = this->upload(indices);
      auto const gradient = this->guarded(rows * columns);
      this->replay([&](TypeParam stream) {
        top_k_gradient(stream,
                       {top_gradient.data(), where.data(), rows, columns, k, gradient.data()});
      });
      expect_within(this->read(gradient), expected, 0.0);
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
