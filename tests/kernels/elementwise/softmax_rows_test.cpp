// SPDX-License-Identifier: Apache-2.0
#include "elementwise/softmax.hpp"
#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"

#include <msstream/base/dtype.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

/// Softmaxes and cross-entropies of all element types, of few rows and of many, whose first element
/// lies anywhere behind a multiple of 16 bytes.
namespace msstream::ops::kernels::testing {
namespace {

struct RowSizes {
  std::int64_t rows;
  std::int64_t columns;
};
/// Sizes around those from which rows take other threads, and numbers of rows for which a block has
/// one turn, or several.
constexpr RowSizes kRowSizes[] = {
    {3, 1},    {700, 7},  {701, 8},  {901, 9},  {17'003, 33}, {901, 64},   {8500, 72},
    {67, 100}, {60, 256}, {61, 257}, {70, 504}, {71, 512},    {4225, 513}, {70, 640},
    {70, 641}, {70, 513}, {70, 520}, {3, 1000}, {70, 1023},   {70, 1024},  {70, 1025},
    {5, 1032}, {7, 4097}, {3, 8184}, {5, 8191}, {5, 8192},    {3, 8193},   {3, 8200}};

template <class Stream>
class SoftmaxRowsTest : public KernelTest<Stream> {
 protected:
  /// Elements of type T in memory that begins `offset` elements behind an aligned address and has
  /// poisoned elements before and after them.
  template <class T>
  struct Elements {
    Buffer<T> memory;
    std::int64_t offset;
    std::int64_t count;

    [[nodiscard]] T* data() const { return memory.data() + offset; }
  };
  static constexpr std::int64_t kGuardElements = 64;

  template <class T>
  Elements<T> place(std::int64_t count, std::int64_t offset) {
    return {this->template poisoned<T>(offset + count + kGuardElements), offset, count};
  }
  /// Uploads values, which are rounded to T, too.
  template <class T>
  Elements<T> put(std::vector<float>& values, std::int64_t offset) {
    auto const placed = place<T>(std::ssize(values), offset);
    auto all = this->read(placed.memory);
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto& element = all[static_cast<std::size_t>(offset) + i];
      element = from_float<T>(values[i]);
      values[i] = to_float(element);
    }
    this->write(placed.memory, all);
    return placed;
  }
  /// Returns the elements. The test fails if a kernel wrote to those around them.
  template <class T>
  std::vector<float> values_of(Elements<T> const& elements) {
    std::vector<float> out;
    std::int64_t at = -elements.offset;
    for (T const element : this->read(elements.memory)) {
      float const value = to_float(element);
      if (at >= 0 && at < elements.count) {
        out.push_back(value);
      } else {
        EXPECT_TRUE(std::isnan(value)) << "written at element " << at << " of " << elements.count;
      }
      ++at;
    }
    return out;
  }
  /// Returns the tolerance for results of type T that are rounded once, and for sums of float32.
  template <class T>
  [[nodiscard]] static double tolerance() {
    return dtype_of<T> == DType::float32   ? 3e-6
           : dtype_of<T> == DType::float16 ? 0.51 / 1024
                                           : 0.51 / 128;
  }

  template <class T, class Input = float>
  void expect_softmax(RowSizes sizes, std::int64_t offset) {
    auto values = this->random.reals(sizes.rows * sizes.columns, -6.0F, 6.0F);
    auto const input = put<Input>(values, offset);
    auto const output = place<T>(sizes.rows * sizes.columns, offset);
    softmax(this->stream(),
            {.input = input.data(),
             .output = output.data(),
             .rows = sizes.rows,
             .columns = sizes.columns,
             .dtype = dtype_of<T>,
             .input_dtype = dtype_of<Input>});
    expect_within(values_of(output), probabilities(values, sizes), tolerance<T>());
  }
  template <class T>
  void expect_gradient(RowSizes sizes, std::int64_t offset) {
    auto const count = sizes.rows * sizes.columns;
    auto outputs = this->random.reals(count, 0.0F, 2.0F / static_cast<float>(sizes.columns));
    auto gradients = this->random.reals(count);
    auto const output = put<T>(outputs, offset);
    auto const output_gradient = put<T>(gradients, offset + 1);
    auto const gradient = place<T>(count, offset);
    softmax_gradient(this->stream(),
                     {output.data(),
                      output_gradient.data(),
                      gradient.data(),
                      sizes.rows,
                      sizes.columns,
                      dtype_of<T>});
    std::vector<double> expected;
    for (std::size_t first = 0; first < outputs.size();) {
      auto const last = first + static_cast<std::size_t>(sizes.columns);
      double total = 0;
      for (auto i = first; i < last; ++i) {
        total += double{outputs[i]} * gradients[i];
      }
      for (; first < last; ++first) {
        expected.push_back(outputs[first] * (gradients[first] - total));
      }
    }
    expect_within(values_of(gradient), expected, tolerance<T>());
  }
  template <class T, class Gradient>
  void expect_cross_entropy(RowSizes sizes, std::int64_t offset, float smoothing) {
    auto values = this->random.reals(sizes.rows * sizes.columns, -6.0F, 6.0F);
    auto const classes = this->random.integers(sizes.rows, -1, sizes.columns);
    auto const weights = this->random.reals(sizes.rows, 0.5F, 2.0F);
    auto const logits = put<T>(values, offset);
    auto gradients = probabilities(values, sizes);
    std::vector<double> losses;
    std::uint64_t bad = 0;
    auto const n = static_cast<double>(sizes.columns);
    for (std::size_t row = 0; row < classes.size(); ++row) {
      auto const first = row * static_cast<std::size_t>(sizes.columns);
      bool const is_bad = classes[row] < 0 || classes[row] >= sizes.columns;
      bad += is_bad ? 1 : 0;
      losses.push_back(0);
      for (std::int64_t c = 0; c < sizes.columns; ++c) {
        auto& p = gradients[first + static_cast<std::size_t>(c)];
        double const target = smoothing / n + (c == classes[row] ? 1 - double{smoothing} : 0);
        losses.back() -= is_bad ? 0 : weights[row] * target * std::log(p);
        p = is_bad ? 0 : weights[row] * (p - target);
      }
    }
    auto const classes_in = this->upload(classes);
    auto const weights_in = this->upload(weights);
    auto const losses_out = place<float>(sizes.rows, 0);
    auto const gradients_out = place<Gradient>(sizes.rows * sizes.columns, offset);
    auto const counter = this->upload(std::vector<std::uint64_t>{7});
    softmax_cross_entropy(this->stream(),
                          {.logits = logits.data(),
                           .classes = classes_in.data(),
                           .losses = losses_out.data(),
                           .gradients = gradients_out.data(),
                           .rows = sizes.rows,
                           .columns = sizes.columns,
                           .report = {.count = counter.data()},
                           .smoothing = smoothing,
                           .weights = weights_in.data(),
                           .dtype = dtype_of<T>,
                           .gradient_dtype = dtype_of<Gradient>});
    expect_within(values_of(losses_out), losses, 3e-6);
    expect_within(values_of(gradients_out), gradients, tolerance<Gradient>());
    EXPECT_EQ(this->read(counter).front(), 7 + bad);
  }

 private:
  /// Returns the softmax of each row in double.
  static std::vector<double> probabilities(std::vector<float> const& values, RowSizes sizes) {
    std::vector<double> out;
    out.reserve(values.size());
    for (std::size_t first = 0; first < values.size();) {
      auto const last = first + static_cast<std::size_t>(sizes.columns);
      double sum = 0;
      for (auto i = first; i < last; ++i) {
        sum += std::exp(double{values[i]});
      }
      for (; first < last; ++first) {
        out.push_back(std::exp(double{values[first]}) / sum);
      }
    }
    return out;
  }
};
TYPED_TEST_SUITE(SoftmaxRowsTest, StreamKinds, StreamKindName);

TYPED_TEST(SoftmaxRowsTest, softmaxes_of_any_rows_and_types_agree_with_double) {
  for (auto const& sizes : kRowSizes) {
    auto const offset = this->random.integer(0, 7);
    SCOPED_TRACE(fmt::format("{} x {} from element {}", sizes.rows, sizes.columns, offset));
    this->template expect_softmax<float>(sizes, 0);
    this->template expect_softmax<float16>(sizes, 0);
    this->template expect_softmax<bfloat16>(sizes, 0);
    this->template expect_softmax<float>(sizes, offset);
    this->template expect_softmax<bfloat16>(sizes, offset);
    this->template expect_softmax<float16, float16>(sizes, 0);
    this->template expect_softmax<bfloat16, bfloat16>(sizes, 0);
    this->template expect_softmax<float16, float16>(sizes, offset);
    this->template expect_softmax<bfloat16, bfloat16>(sizes, offset);
  }
}

TYPED_TEST(SoftmaxRowsTest, gradients_of_any_rows_and_types_agree_with_double) {
  for (auto const& sizes : kRowSizes) {
    auto const offset = this->random.integer(0, 7);
    SCOPED_TRACE(fmt::format("{} x {} from element {}", sizes.rows, sizes.columns, offset));
    this->template expect_gradient<float>(sizes, offset);
    this->template expect_gradient<float16>(sizes, offset);
    this->template expect_gradient<bfloat16>(sizes, offset);
  }
}

TYPED_TEST(SoftmaxRowsTest, gradients_of_aligned_halves_agree_with_those_of_any_address) {
  for (auto const& sizes : kRowSizes) {
    SCOPED_TRACE(fmt::format("{} x {}", sizes.rows, sizes.columns));
    auto const count = sizes.rows * sizes.columns;
    auto outputs = this->random.reals(count, 0.0F, 2.0F / static_cast<float>(sizes.columns));
    auto gradients = this->random.reals(count);
    std::vector<std::vector<float>> found;
    for (std::int64_t const offset : {0, 3}) {
      auto const output = this->template put<float16>(outputs, offset);
      auto const output_gradient = this->template put<float16>(gradients, offset);
      auto const gradient = this->template place<float16>(count, offset);
      softmax_gradient(this->stream(),
                       {output.data(),
                        output_gradient.data(),
                        gradient.data(),
                        sizes.rows,
                        sizes.columns,
                        DType::float16});
      found.push_back(this->values_of(gradient));
    }
    expect_within(found[0],
                  std::vector<double>(found[1].begin(), found[1].end()),
                  this->template tolerance<float16>());
  }
}

TYPED_TEST(SoftmaxRowsTest, cross_entropies_of_any_rows_and_types_agree_with_double) {
  for (auto const& sizes : kRowSizes) {
    for (float const smoothing : {0.0F, 0.125F}) {
      if (smoothing != 0.0F && sizes.rows > 1000) {
        continue;
      }
      auto const offset = this->random.integer(1, 7);
      SCOPED_TRACE(fmt::format(
          "{} x {} from element {}, smoothing {}", sizes.rows, sizes.columns, offset, smoothing));
      this->template expect_cross_entropy<float, float>(sizes, 0, smoothing);
      this->template expect_cross_entropy<float16, float16>(sizes, 0, smoothing);
      this->template expect_cross_entropy<bfloat16, bfloat16>(sizes, 0, smoothing);
      this->template expect_cross_entropy<float16, float>(sizes, 0, smoothing);
      this->template expect_cross_entropy<bfloat16, float>(sizes, 0, smoothing);
      this->template expect_cross_entropy<float, float>(sizes, offset, smoothing);
      this->template expect_cross_entropy<bfloat16, bfloat16>(sizes, offset, smoothing);
      this->template expect_cross_entropy<float16, float>(sizes, offset, smoothing);
    }
  }
}

TYPED_TEST(SoftmaxRowsTest, lengths_leave_out_columns_of_half_precision_whatever_they_hold) {
  for (std::int64_t const columns : {3, 8, 33, 512, 1000, 8193}) {
    SCOPED_TRACE(columns);
    constexpr std::int64_t kRows = 4;
    std::vector<std::int64_t> const lengths = {0, 1, columns / 2 + 1, columns + 5};
    auto const width = static_cast<std::size_t>(columns);
    auto values = this->random.reals(kRows * columns, -6.0F, 6.0F);
    std::vector<double> expected(values.size(), 0.0);
    for (std::size_t row = 0; row < kRows; ++row) {
      auto const length = static_cast<std::size_t>(std::min(lengths[row], columns));
      std::fill(values.begin() + static_cast<std::ptrdiff_t>(row * width + length),
                values.begin() + static_cast<std::ptrdiff_t>((row + 1) * width),
                std::nanf(""));
    }
    auto const input = this->template put<bfloat16>(values, 0);
    for (std::size_t row = 0; row < kRows; ++row) {
      double sum = 0;
      auto const length = static_cast<std::size_t>(std::min(lengths[row], columns));
      for (std::size_t c = 0; c < length; ++c) {
        expected[row * width + c] = std::exp(double{values[row * width + c]});
        sum += expected[row * width + c];
      }
      for (std::size_t c = 0; c < length; ++c) {
        expected[row * width + c] /= sum;
      }
    }
    auto const of_rows = this->upload(lengths);
    // In place, as inputs and outputs have one type.
    softmax(this->stream(),
            {.input = input.data(),
             .output = input.data(),
             .rows = kRows,
             .columns = columns,
             .lengths = of_rows.data(),
             .dtype = DType::bfloat16,
             .input_dtype = DType::bfloat16});
    expect_within(this->values_of(input), expected, this->template tolerance<bfloat16>());
  }
}

TYPED_TEST(SoftmaxRowsTest, infinite_logits_of_half_precision_give_the_limit) {
  float const unlimited = std::numeric_limits<float>::infinity();
  for (std::int64_t const columns : {3, 8, 33, 512, 1000, 1023, 2000, 2001, 9000}) {
    SCOPED_TRACE(columns);
    auto const width = static_cast<std::size_t>(columns);
    std::vector<float> values(4 * width, -unlimited);
    values[0] = unlimited;          // of the class
    values[width + 1] = unlimited;  // of another column
    values[2 * width + 2] = 5.0F;   // the only logit
    std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(3 * width), width, 0.0F);
    values[3 * width] = std::nanf("");
    auto const logits = this->template put<bfloat16>(values, 0);
    auto const classes = this->upload(std::vector<std::int64_t>{0, 0, 2, 0});
    auto const losses = this->template place<float>(4, 0);
    auto const gradients = this->template place<bfloat16>(4 * columns, 0);
    softmax_cross_entropy(this->stream(),
                          {.logits = logits.data(),
                           .classes = classes.data(),
                           .losses = losses.data(),
                           .gradients = gradients.data(),
                           .rows = 4,
                           .columns = columns,
                           .report = {},
                           .dtype = DType::bfloat16,
                           .gradient_dtype = DType::bfloat16});
    std::vector<double> expected(4 * width, 0.0);
    expected[width] = -1;
    expected[width + 1] = 1;
    std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(3 * width), width, std::nan(""));
    expect_within(this->values_of(losses), {0, unlimited, 0, std::nan("")});
    expect_within(this->values_of(gradients), expected);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
