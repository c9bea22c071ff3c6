// SPDX-License-Identifier: Apache-2.0
#include "common/fp8.hpp"

#include "kernels/kernel_fixture.hpp"
#include "kernels/mixed/fp8_fixture.hpp"
#include "mixed/fp8_product.hpp"
#include "mixed/quantise.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace msstream::ops::kernels::testing {
namespace {

constexpr Fp8Format kFp8Formats[] = {Fp8Format::e4m3, Fp8Format::e5m2};

[[nodiscard]] std::uint8_t expected_code(double number, Fp8Format format) {
  return nearest_fp8(number, format).value_or(kFp8Nan);
}

template <class T>
void expect_every_number_rounded() {
  for (auto const format : kFp8Formats) {
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      float const value = to_float(T{static_cast<std::uint16_t>(bits)});
      ASSERT_EQ(to_fp8(value, format), expected_code(value, format)) << value;
    }
  }
}

TEST(Fp8, every_bfloat16_is_rounded_to_the_nearest_number) {
  expect_every_number_rounded<bfloat16>();
}

TEST(Fp8, every_float16_is_rounded_to_the_nearest_number) {
  expect_every_number_rounded<float16>();
}

TEST(Fp8, float32_beside_the_middle_of_two_numbers_is_rounded_to_the_nearer_one) {
  for (auto const format : kFp8Formats) {
    int const largest = format == Fp8Format::e4m3 ? 0x7E : 0x7B;
    for (int code = 0; code < largest; ++code) {
      auto const low = static_cast<std::uint8_t>(code);
      auto const high = static_cast<std::uint8_t>(code + 1);
      auto const middle =
          static_cast<float>((fp8_number(low, format) + fp8_number(high, format)) / 2);
      EXPECT_EQ(to_fp8(std::nextafter(middle, 0.0F), format), low);
      EXPECT_EQ(to_fp8(middle, format), code % 2 == 0 ? low : high);
      EXPECT_EQ(to_fp8(std::nextafter(middle, 1e9F), format), high);
      EXPECT_EQ(to_fp8(-std::nextafter(middle, 1e9F), format), high | 0x80);
    }
  }
}

TEST(Fp8, a_code_gives_its_number) {
  for (auto const format : kFp8Formats) {
    for (int code = 0; code < 256; ++code) {
      auto const byte = static_cast<std::uint8_t>(code);
      double const expected = fp8_number(byte, format);
      double const value = from_fp8(byte, format);
      EXPECT_TRUE(std::isnan(expected) ? std::isnan(value) : value == expected) << code;
      EXPECT_EQ(std::signbit(value), std::isnan(value) ? std::signbit(value) : code >= 0x80);
    }
    EXPECT_TRUE(std::isnan(from_fp8(kFp8Nan, format)));
    EXPECT_EQ(to_fp8(largest_of(format), format), format == Fp8Format::e4m3 ? 0x7E : 0x7B);
  }
}

TEST(Fp8, a_scale_maps_the_largest_magnitude_to_the_largest_number) {
  for (auto const format : kFp8Formats) {
    EXPECT_EQ(fp8_scale(0.0F, format).scale, 1.0F);
    EXPECT_EQ(fp8_scale(0.0F, format).inverse, 1.0F);
    for (float const largest : {1e-30F, 0.3F, 1.0F, 7.5F, 448.0F, 1e20F, 3.4e38F}) {
      auto const scale = fp8_scale(largest, format);
      EXPECT_NEAR(largest * scale.scale / largest_of(format), 1.0F, 0x1p-23F);
      EXPECT_NEAR(scale.scale * scale.inverse, 1.0F, 0x1p-23F);
    }
    for (float const largest : {0x1p-149F, 1e-44F, 1e-38F, 0x1p-111F, 0x1p-110F}) {
      auto const scale = fp8_scale(largest, format);
      EXPECT_LE(scale.scale, 0x1p126F);
      EXPECT_GE(scale.inverse, 0x1p-126F);
      EXPECT_LE(largest * scale.scale, largest_of(format));
    }
  }
}

TEST(Fp8, a_factor_is_the_product_of_two_inverses) {
  for (float const left : {0x1p-126F, 2.4e-33F, 0.3F, 1.0F, 7.7F, 7.59e35F}) {
    for (float const right : {0x1p-126F, 1.9e-30F, 0.7F, 1.0F, 5.9e33F, 7.59e35F}) {
      auto const factor = fp8_factor(left, right);
      EXPECT_EQ(factor.times(0.0F), 0.0F);
      for (float const sum : {0x1p-18F, 1.0F, -3.7F, 1e8F}) {
        double const exact = double{sum} * left * right;
        float const found = factor.times(sum);
        if (std::abs(exact) > std::numeric_limits<float>::max()) {
          EXPECT_EQ(std::abs(found), std::numeric_limits<float>::infinity());
        } else {
          EXPECT_NEAR(found, exact, std::max(std::abs(exact) * 0x1p-22, 0x1p-149))
              << sum << " * " << left << " * " << right;
        }
      }
    }
  }
  EXPECT_EQ(fp8_factor(0.3F, 0.7F).times(3.1F), 3.1F * (0.3F * 0.7F));
}

template <class Stream>
class Fp8KernelsTest : public KernelTest<Stream> {
 protected:
  /// A matrix and its copies of 8-bit floats.
  template <class T>
  struct Quantised {
    std::vector<T> values;
    Buffer<T> matrix;
    Buffer<std::uint8_t> plain;
    Buffer<std::uint8_t> transposed;
    Buffer<float> scales;
    QuantiseArgs args;
  };

  template <class T>
  std::vector<T> values_of(std::int64_t count, float low = -2.0F, float high = 2.0F) {
    std::vector<T> values;
    for (float const value : this->random.reals(count, low, high)) {
      values.push_back(from_float<T>(value));
    }
    return values;
  }
  /// Makes a matrix that begins `shift` elements behind an aligned address.
  template <class T>
  Quantised<T> quantised(std::vector<T> const& values,
                         std::int64_t rows,
                         std::int64_t columns,
                         Fp8Format format,
                         std::int64_t shift = 0) {
    std::vector<T> all(static_cast<std::size_t>(shift), from_float<T>(1e4F));
    all.insert(all.end(), values.begin(), values.end());
    auto const codes = padded_to_fp8(rows) * padded_to_fp8(columns);
    Quantised<T> made{values,
                      this->upload(all),
                      this->template poisoned<std::uint8_t>(codes),
                      this->template poisoned<std::uint8_t>(codes),
                      this->floats(kFp8Scales),
                      {}};
    made.args = {.matrix = made.matrix.data() + shift,
                 .plain = made.plain.data(),
                 .transposed = made.transposed.data(),
                 .scales = made.scales.data(),
                 .rows = rows,
                 .columns = columns,
                 .format = format,
                 .dtype = dtype_of<T>};
    quantise(this->stream(), made.args);
    return made;
  }
  template <class T>
  static float largest_of_values(std::vector<T> const& values) {
    float largest = 0.0F;
    for (auto const value : values) {
      float const magnitude = std::abs(to_float(value));
      largest = std::isfinite(magnitude) ? std::max(largest, magnitude) : largest;
    }
    return largest;
  }
  /// Expects the codes to be those of the nearest numbers, with zeros behind rows and columns.
  template <class T>
  void expect_codes(Quantised<T> const& made) {
    auto const& args = made.args;
    auto const largest = largest_of_values(made.values);
    auto const scale = largest == 0.0F ? 1.0F : largest_of(args.format) / largest;
    auto const scales = this->read(made.scales);
    EXPECT_EQ(scales[kFp8Largest], largest);
    EXPECT_EQ(scales[kFp8Inverse], 1.0F / scale);
    auto const plain = this->read(made.plain);
    auto const transposed = this->read(made.transposed);
    auto const padded_rows = padded_to_fp8(args.rows);
    auto const padded_columns = padded_to_fp8(args.columns);
    for (std::int64_t row = 0; row < padded_rows; ++row) {
      for (std::int64_t column = 0; column < padded_columns; ++column) {
        std::uint8_t expected = 0;
        if (row < args.rows && column < args.columns) {
          float const value =
              to_float(made.values[static_cast<std::size_t>(row * args.columns + column)]);
          expected = expected_code(value * scale, args.format);
        }
        auto const at = static_cast<std::size_t>(row * padded_columns + column);
        auto const across = static_cast<std::size_t>(column * padded_rows + row);
        ASSERT_EQ(plain[at], expected) << "row " << row << ", column " << column;
        ASSERT_EQ(transposed[across], expected) << "row " << row << ", column " << column;
      }
    }
  }

  struct ProductCase {
    std::int64_t rows;
    std::int64_t columns;
    std::int64_t inner;
    Fp8Format left;
    Fp8Format right;
    Activation activation;
    bool with_bias;
    bool uses_float16;
  };
  template <class T>
  void expect_product(ProductCase const& test);
};
TYPED_TEST_SUITE(Fp8KernelsTest, StreamKinds, StreamKindName);

TYPED_TEST(Fp8KernelsTest, a_matrix_and_its_transpose_are_quantised) {
  for (auto const& [rows, columns, shift] : {std::array{1, 1, 0},
                                             {16, 16, 0},
                                             {3, 70, 0},
                                             {65, 64, 0},
                                             {64, 130, 1},
                                             {130, 63, 0},
                                             {17, 479, 3},
                                             {300, 36, 0},
                                             {5000, 20, 0}}) {
    for (auto const format : kFp8Formats) {
      SCOPED_TRACE(fmt::format("{} x {} behind {}", rows, columns, shift));
      auto const count = std::int64_t{rows} * columns;
      this->expect_codes(
          this->quantised(this->template values_of<float>(count), rows, columns, format, shift));
      this->expect_codes(
          this->quantised(this->template values_of<bfloat16>(count), rows, columns, format, shift));
      this->expect_codes(
          this->quantised(this->template values_of<float16>(count), rows, columns, format, shift));
    }
  }
}

TYPED_TEST(Fp8KernelsTest, every_float16_is_quantised_to_the_nearest_number) {
  for (auto const format : kFp8Formats) {
    // The largest magnitude is that of the format, so that the scale is 1.
    std::vector<float16> values;
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      float16 const value{static_cast<std::uint16_t>(bits)};
      bool const is_larger = std::abs(to_float(value)) > largest_of(format);
      values.push_back(is_larger && std::isfinite(to_float(value)) ? float16{0} : value);
    }
    auto const made = this->quantised(values, 256, 256, format);
    this->expect_codes(made);
    EXPECT_EQ(this->read(made.scales)[kFp8Inverse], 1.0F);
  }
}

TYPED_TEST(Fp8KernelsTest, nan_and_infinities_become_nan_and_do_not_change_the_scale) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (auto const format : kFp8Formats) {
    auto values = this->template values_of<float>(40 * 20);
    values[3] = std::numeric_limits<float>::quiet_NaN();
    values[77] = kInfinity;
    values[500] = -kInfinity;
    auto const made = this->quantised(values, 40, 20, format);
    this->expect_codes(made);
    auto const codes = this->read(made.plain);
    EXPECT_EQ(std::count(codes.begin(), codes.end(), kFp8Nan), 3);
    // Without a finite element but zeros, the scale is 1.
    this->expect_codes(this->quantised(std::vector<float>(12, 0.0F), 3, 4, format));
    this->expect_codes(this->quantised(std::vector<float>(12, -kInfinity), 3, 4, format));
    this->expect_codes(this->quantised(std::vector<float>(12, 3e38F), 3, 4, format));
  }
}

TYPED_TEST(Fp8KernelsTest, matrices_of_tiny_numbers_have_a_finite_scale) {
  for (auto const format : kFp8Formats) {
    auto const made =
        this->quantised(std::vector<float>{1e-36F, -3e-37F, 0.0F, 1e-37F}, 2, 2, format);
    auto const inverse = this->read(made.scales)[kFp8Inverse];
    EXPECT_EQ(inverse, 0x1p-126F);
    auto const codes = this->read(made.plain);
    EXPECT_NEAR(fp8_number(codes[0], format) * inverse, 1e-36, 1e-36 / 8);
    EXPECT_NEAR(fp8_number(codes[1], format) * inverse, -3e-37, 3e-37 / 8);
  }
}

TYPED_TEST(Fp8KernelsTest, matrices_without_elements_have_a_scale) {
  auto const made = this->quantised(std::vector<bfloat16>(), 0, 20, Fp8Format::e4m3);
  EXPECT_EQ(this->read(made.scales), (std::vector<float>{1.0F, 0.0F}));
}

template <class Stream>
template <class T>
void Fp8KernelsTest<Stream>::expect_product(ProductCase const& test) {
  SCOPED_TRACE(fmt::format("{} x {} x {} of {}{}",
                           test.rows,
                           test.columns,
                           test.inner,
                           name_of(dtype_of<T>),
                           test.uses_float16 ? " by float16" : ""));
  auto const left = this->quantised(
      this->template values_of<float>(test.rows * test.inner), test.rows, test.inner, test.left);
  auto const right = this->quantised(
      this->template values_of<T>(test.columns * test.inner), test.columns, test.inner, test.right);
  auto const bias = this->template values_of<T>(test.columns);
  auto const of_bias = this->upload(bias);
  auto const result = this->template poisoned<T>(test.rows * test.columns);
  Fp8ProductArgs args{.left = {left.plain.data(), left.scales.data(), test.left},
                      .right = {right.plain.data(), right.scales.data(), test.right},
                      .bias = test.with_bias ? of_bias.data() : nullptr,
                      .result = result.data(),
                      .rows = test.rows,
                      .columns = test.columns,
                      .inner = test.inner,
                      .activation = test.activation,
                      .dtype = dtype_of<T>,
                      .uses_float16 = test.uses_float16};
  auto const memory = this->workspace(fp8_product_workspace_bytes(this->stream(), args));
  args.workspace = memory.data();
  fp8_product(this->stream(), args);
  auto const found = this->read(result);

  auto const numbers_of = [](auto const& made) {
    std::vector<double> values;
    for (auto const value : made.values) {
      values.push_back(to_float(value));
    }
    return quantised_numbers(values, made.args.format);
  };
  auto const a = numbers_of(left);
  auto const b = numbers_of(right);
  // A result may be rounded twice.
  double const rounding = std::is_same_v<T, float>      ? 0x1p-23
                          : std::is_same_v<T, bfloat16> ? 0x1p-7
                                                        : 0x1p-10;
  for (std::int64_t row = 0; row < test.rows; ++row) {
    for (std::int64_t column = 0; column < test.columns; ++column) {
      double sum = test.with_bias ? to_float(bias[static_cast<std::size_t>(column)]) : 0.0;
      double magnitude = std::abs(sum);
      for (std::int64_t k = 0; k < test.inner; ++k) {
        double const term = a[static_cast<std::size_t>(row * test.inner + k)] *
                            b[static_cast<std::size_t>(column * test.inner + k)];
        sum += term;
        magnitude += std::abs(term);
      }
      double const expected = test.activation == Activation::relu ? std::max(sum, 0.0) : sum;
      double const actual = to_float(found[static_cast<std::size_t>(row * test.columns + column)]);
      double const before = kFp8SumError * magnitude;
      ASSERT_LE(std::abs(actual - expected), before + rounding * (std::abs(expected) + before))
          << "row " << row << ", column " << column << ": " << actual << ", not " << expected;
    }
  }
  auto const again = this->template poisoned<T>(test.rows * test.columns);
  args.result = again.data();
  this->replay([&](Stream stream) { fp8_product(stream, args); });
  auto const replayed = this->read(again);
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(to_float(replayed[i]), to_float(found[i])) << "element " << i << " of a replay";
  }
}

TYPED_TEST(Fp8KernelsTest, products_agree_with_sums_in_double) {
  constexpr auto kE4m3 = Fp8Format::e4m3;
  constexpr auto kE5m2 = Fp8Format::e5m2;
  for (bool const uses_float16 : {false, true}) {
    for (auto const& [rows, columns, inner] : {std::array{1, 1, 1},
                                               {16, 16, 16},
                                               {5, 32, 100},
                                               {64, 48, 33},
                                               {33, 17, 479},
                                               {130, 96, 257},
                                               {70, 65, 0},
                                               {200, 64, 1000}}) {
      this->template expect_product<float>(
          {rows, columns, inner, kE4m3, kE4m3, Activation::relu, true, uses_float16});
      this->template expect_product<float>(
          {rows, columns, inner, kE4m3, kE5m2, Activation::none, false, uses_float16});
      this->template expect_product<bfloat16>(
          {rows, columns, inner, kE4m3, kE4m3, Activation::relu, true, uses_float16});
      this->template expect_product<bfloat16>(
          {rows, columns, inner, kE5m2, kE4m3, Activation::none, false, uses_float16});
      this->template expect_product<float16>(
          {rows, columns, inner, kE4m3, kE4m3, Activation::none, true, uses_float16});
      this->template expect_product<float16>(
          {rows, columns, inner, kE5m2, kE4m3, Activation::relu, false, uses_float16});
    }
  }
}

TYPED_TEST(Fp8KernelsTest, matrices_of_huge_and_tiny_numbers_have_the_products_that_floats_hold) {
  // The largest magnitudes, whose product a float does not hold, are in rows of their own. On CUDA
  // that needs products of float16: cuBLASLt multiplies the two scales first.
  constexpr bool kIsHost = std::is_same_v<TypeParam, HostStream>;
  for (bool const uses_float16 : {!kIsHost, true}) {
    for (float const scale : {1e30F, 1e-30F}) {
      constexpr std::int64_t kSize = 32;
      std::vector<float> of_left(kSize * kSize);
      std::vector<float> of_right(kSize * kSize);
      of_left[0] = scale;                          // of row 0
      of_right[0] = scale > 1.0F ? 1e25F : 1e-8F;  // of row 0; together in column 0
      of_left[kSize + 1] = scale / 64;
      of_right[kSize + 1] = of_right[0] / 64;
      auto const left = this->quantised(of_left, kSize, kSize, Fp8Format::e4m3);
      auto const right = this->quantised(of_right, kSize, kSize, Fp8Format::e4m3);
      auto const result = this->floats(kSize * kSize);
      fp8_product(this->stream(),
                  {.left = {left.plain.data(), left.scales.data(), Fp8Format::e4m3},
                   .right = {right.plain.data(), right.scales.data(), Fp8Format::e4m3},
                   .bias = nullptr,
                   .result = result.data(),
                   .rows = kSize,
                   .columns = kSize,
                   .inner = kSize,
                   .uses_float16 = uses_float16});
      auto const found = this->read(result);
      for (std::int64_t i = 0; i < kSize * kSize; ++i) {
        auto const value = found[static_cast<std::size_t>(i)];
        auto const at = i / kSize == i % kSize ? i / kSize : kSize;
        double const expected = at < 2
                                    ? double{of_left[static_cast<std::size_t>(at * kSize + at)]} *
                                          of_right[static_cast<std::size_t>(at * kSize + at)]
                                    : 0.0;
        if (expected > std::numeric_limits<float>::max()) {
          EXPECT_EQ(value, std::numeric_limits<float>::infinity()) << i;
        } else {
          EXPECT_NEAR(value, expected, std::max(expected * 0x1p-20, 0x1p-149)) << i;
        }
      }
    }
  }
}

TYPED_TEST(Fp8KernelsTest, nan_comes_through_a_product) {
  for (bool const uses_float16 : {false, true}) {
    for (std::int64_t const columns : {32, 20}) {
      auto values = this->template values_of<float>(24 * 40);
      values[5 * 40 + 7] = std::numeric_limits<float>::infinity();
      auto const left = this->quantised(values, 24, 40, Fp8Format::e5m2);
      auto const right = this->quantised(
          this->template values_of<float>(columns * 40), columns, 40, Fp8Format::e4m3);
      auto const result = this->floats(24 * columns);
      Fp8ProductArgs args{.left = {left.plain.data(), left.scales.data(), Fp8Format::e5m2},
                          .right = {right.plain.data(), right.scales.data(), Fp8Format::e4m3},
                          .bias = nullptr,
                          .result = result.data(),
                          .rows = 24,
                          .columns = columns,
                          .inner = 40,
                          .uses_float16 = uses_float16};
      auto const memory = this->workspace(fp8_product_workspace_bytes(this->stream(), args));
      args.workspace = memory.data();
      fp8_product(this->stream(), args);
      auto const found = this->read(result);
      for (std::int64_t i = 0; i < 24 * columns; ++i) {
        EXPECT_EQ(std::isnan(found[static_cast<std::size_t>(i)]), i / columns == 5) << i;
      }
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
