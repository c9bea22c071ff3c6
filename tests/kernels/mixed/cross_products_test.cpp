// SPDX-License-Identifier: Apache-2.0
#include "mixed/cross_products.hpp"

#include "kernels/kernel_fixture.hpp"
#if MSSTREAM_CUDA
#include "mixed/fused_cross.hpp"
#endif

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <type_traits>
#include <utility>

namespace msstream::ops::kernels::testing {
namespace {

struct CrossSize {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t inner;
};
/// Shapes that are a product and a pass on any device: small ones, rows that are no multiple of 16
/// bytes, more terms than a fused kernel takes, and no rows or no columns at all.
constexpr CrossSize kUnfused[] = {
    {1, 1, 1}, {33, 40, 8}, {7, 45, 13}, {1'030, 257, 3}, {1'024, 256, 520}, {0, 8, 4}, {5, 0, 4}};
/// Shapes that a GPU of compute capability 9.0 computes by one kernel: whole tiles, tiles and boxes
/// of terms that are cut off, blocks without a neighbour, and one tile of columns.
constexpr CrossSize kFused[] = {{32'768, 256, 64},
                                {8'199, 1'032, 8},
                                {16'513, 520, 72},
                                {8'400, 1'000, 512},
                                {70'000, 120, 16}};
/// A shape of which only the forward is one kernel.
constexpr CrossSize kFusedForward{2'051, 1'152, 40};

template <class Stream>
class CrossProductsTest : public KernelTest<Stream> {
 protected:
  /// A matrix in memory of the kernels, and its values.
  template <class T>
  struct Operand {
    Buffer<T> memory;
    std::vector<double> values;
    std::int64_t shift;

    [[nodiscard]] T* data() const { return memory.data() + shift; }
    [[nodiscard]] double operator[](std::int64_t i) const {
      return values[static_cast<std::size_t>(i)];
    }
  };
  template <class T>
  Operand<T> operand(std::int64_t count, std::int64_t shift) {
    std::vector<T> all(static_cast<std::size_t>(shift), from_float<T>(7.0F));
    std::vector<double> values;
    for (float const value : this->random.reals(count)) {
      all.push_back(from_float<T>(value));
      values.push_back(to_float(all.back()));
    }
    return {this->upload(all), std::move(values), shift};
  }
  template <class T>
  Operand<T> result(std::int64_t count, std::int64_t shift) {
    return {this->template poisoned<T>(shift + count), {}, shift};
  }
  template <class T>
  void read_back(Operand<T>& result) {
    auto const all = this->read(result.memory);
    for (auto i = static_cast<std::size_t>(result.shift); i < all.size(); ++i) {
      result.values.push_back(to_float(all[i]));
    }
  }

  /// The unit roundoff of T, twice.
  template <class T>
  static constexpr double kRoundoff = std::is_same_v<T, bfloat16>  ? 0x1p-8
                                      : std::is_same_v<T, float16> ? 0x1p-11
                                                                   : 0x1p-23;
  /// A number, and the sum of the magnitudes of its terms.
  struct Sum {
    double value = 0;
    double magnitude = 0;

    void add(double term) {
      value += term;
      magnitude += std::abs(term);
    }
    /// The error of a sum in float32 that is rounded to T, a number of times.
    template <class T>
    [[nodiscard]] double bound(int roundings) const {
      return roundings * kRoundoff<T> * magnitude + 1e-5 * magnitude + 1e-6;
    }
  };
  /// Returns the distance of the elements whose products are computed in double.
  static std::int64_t stride_of(CrossSize const& size) {
    constexpr std::int64_t kMostTerms = std::int64_t{1} << 22;
    return size.rows * size.columns * size.inner / kMostTerms | 1;
  }
  template <class T>
  static Sum term_sum(Operand<T> const& rows,
                      Operand<T> const& weight,
                      CrossSize const& size,
                      std::int64_t row,
                      std::int64_t column,
                      bool by_rows) {
    Sum sum;
    for (std::int64_t k = 0; k < size.inner; ++k) {
      sum.add(rows[row * size.inner + k] *
              weight[by_rows ? column * size.inner + k : k * size.columns + column]);
    }
    return sum;
  }

  template <class T>
  void expect_forward(CrossSize const& size, std::int64_t shift, bool keeps) {
    auto const count = size.rows * size.columns;
    auto const hidden = operand<T>(size.rows * size.inner, shift);
    auto const up = operand<T>(size.inner * size.columns, shift);
    auto const bias = operand<T>(size.columns, shift);
    auto const first = operand<T>(count, shift);
    auto const input = operand<T>(count, shift);
    auto projected = result<T>(count, shift);
    auto output = result<T>(count, shift);
    cross_forward(this->stream(),
                  {.hidden = hidden.data(),
                   .up = up.data(),
                   .bias = bias.data(),
                   .first = first.data(),
                   .input = input.data(),
                   .projected = keeps ? projected.data() : nullptr,
                   .output = output.data(),
                   .shape = {size.rows, size.columns, size.inner, dtype_of<T>}});
    read_back(projected);
    read_back(output);
    for (std::int64_t i = 0; i < count; i += stride_of(size)) {
      auto sum = term_sum(hidden, up, size, i / size.columns, i % size.columns, false);
      sum.add(bias[i % size.columns]);
      Sum crossed;
      crossed.add(input[i]);
      if (keeps) {
        ASSERT_NEAR(projected[i], sum.value, sum.template bound<T>(1)) << "element " << i;
        crossed.add(first[i] * projected[i]);
        ASSERT_NEAR(output[i], crossed.value, crossed.template bound<T>(1)) << "element " << i;
      } else {
        crossed.add(first[i] * sum.value);
        ASSERT_NEAR(output[i],
                    crossed.value,
                    crossed.template bound<T>(1) + std::abs(first[i]) * sum.template bound<T>(1))
            << "element " << i;
      }
    }
  }

  template <class T>
  void expect_gradient(CrossSize const& size, std::int64_t shift) {
    auto const count = size.rows * size.columns;
    auto const gradient = operand<T>(size.rows * size.inner, shift);
    auto const down = operand<T>(size.columns * size.inner, shift);
    auto const added = operand<T>(count, shift);
    auto const first = operand<T>(count, shift);
    auto sum = result<T>(count, shift);
    auto projected = result<T>(count, shift);
    auto const sums = this->floats(size.columns);
    CrossGradientArgs args{.gradient = gradient.data(),
                           .down = down.data(),
                           .added = added.data(),
                           .first = first.data(),
                           .sum = sum.data(),
                           .projected = projected.data(),
                           .column_sums = sums.data(),
                           .workspace = nullptr,
                           .shape = {size.rows, size.columns, size.inner, dtype_of<T>}};
    auto const bytes = cross_gradient_workspace_bytes(this->stream(), args);
    auto const workspace = this->template poisoned<std::byte>(static_cast<std::int64_t>(bytes));
    args.workspace = workspace.data();
    cross_gradient(this->stream(), args);
    read_back(sum);
    read_back(projected);
    std::vector<Sum> expected(static_cast<std::size_t>(size.columns));
    for (std::int64_t i = 0; i < count; ++i) {
      if (i % stride_of(size) == 0) {
        auto terms = term_sum(gradient, down, size, i / size.columns, i % size.columns, true);
        terms.add(added[i]);
        ASSERT_NEAR(sum[i], terms.value, terms.template bound<T>(2)) << "element " << i;
      }
      double const product = sum[i] * first[i];
      ASSERT_NEAR(projected[i], product, kRoundoff<T> * std::abs(product) + 1e-7)
          << "element " << i;
      expected[static_cast<std::size_t>(i % size.columns)].add(product);
    }
    auto const found = this->read(sums);
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i].value, 1e-5 * expected[i].magnitude + 1e-6)
          << "column " << i;
    }
  }

  template <class T>
  void expect_last_gradient(CrossSize const& size, std::int64_t shift, int layers) {
    auto const count = size.rows * size.columns;
    auto const gradient = operand<T>(size.rows * size.inner, shift);
    auto const down = operand<T>(size.columns * size.inner, shift);
    std::vector<std::array<Operand<T>, 2>> pairs;
    for (int i = 0; i < layers; ++i) {
      pairs.push_back({operand<T>(count, shift), operand<T>(count, shift)});
    }
    auto found = result<T>(count, shift);
    CrossLastGradientArgs args{.gradient = gradient.data(),
                               .down = down.data(),
                               .layers = {},
                               .input_gradient = found.data(),
                               .shape = {size.rows, size.columns, size.inner, dtype_of<T>}};
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      args.layers[i] = {pairs[i][0].data(), pairs[i][1].data()};
    }
    cross_last_gradient(this->stream(), args);
    read_back(found);
    for (std::int64_t i = 0; i < count; i += stride_of(size)) {
      auto terms = term_sum(gradient, down, size, i / size.columns, i % size.columns, true);
      terms.add(pairs[0][0][i]);
      for (auto const& pair : pairs) {
        terms.add(pair[0][i] * pair[1][i]);
      }
      ASSERT_NEAR(found[i], terms.value, terms.template bound<T>(2)) << "element " << i;
    }
  }

  template <class T>
  void expect_all(CrossSize const& size, std::int64_t shift) {
    SCOPED_TRACE(fmt::format("{} x {}, {} terms, {}, shift {}",
                             size.rows,
                             size.columns,
                             size.inner,
                             name_of(dtype_of<T>),
                             shift));
    expect_forward<T>(size, shift, true);
    expect_forward<T>(size, shift, false);
    expect_gradient<T>(size, shift);
    expect_last_gradient<T>(size, shift, 1);
    expect_last_gradient<T>(size, shift, kMostCrossLayers);
    expect_last_gradient<T>(size, shift, 2);
  }
};
TYPED_TEST_SUITE(CrossProductsTest, StreamKinds, StreamKindName);

TYPED_TEST(CrossProductsTest, products_and_passes_agree_with_double) {
  for (auto const& size : kUnfused) {
    this->template expect_all<float>(size, 0);
    this->template expect_all<float16>(size, 0);
    this->template expect_all<bfloat16>(size, 1);
  }
}

TYPED_TEST(CrossProductsTest, large_matrices_of_half_precision_agree_with_double) {
  if constexpr (std::is_same_v<TypeParam, HostStream>) {  // has no fused kernels
    return this->template expect_all<bfloat16>({1'030, 264, 72}, 0);
  }
  for (auto const& size : kFused) {
    this->template expect_all<bfloat16>(size, 0);
  }
  this->template expect_all<float16>(kFused[2], 8);
  this->template expect_all<bfloat16>(kFusedForward, 0);
  this->template expect_all<bfloat16>(kFused[1], 1);  // not aligned to 16 bytes
}

#if MSSTREAM_CUDA
// Without it, the tests above would pass on products and passes alone.
TEST(FusedCrossTest, kernels_are_fused_on_compute_capability_9_0) {
  if (auto const why = Machine<CudaStream>::why_unavailable(); !why.empty()) {
    GTEST_SKIP() << why;
  }
  Machine<CudaStream> machine;
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  bool const has_kernels = properties.major == 9 && properties.minor == 0;
  for (auto const stage : {CrossStage::forward, CrossStage::gradient, CrossStage::last_gradient}) {
    for (auto const& size : kFused) {
      for (auto const dtype : {DType::float16, DType::bfloat16}) {
        EXPECT_EQ(fuses_cross_products(
                      machine.stream(), stage, {size.rows, size.columns, size.inner, dtype}),
                  has_kernels)
            << "is the library compiled for 90?";
      }
    }
  }
  // The forward is fused from fewer elements on than the gradients.
  CrossShape const small{2'048, 1'152, 64, DType::bfloat16};
  EXPECT_EQ(fuses_cross_products(machine.stream(), CrossStage::forward, small), has_kernels);
  EXPECT_FALSE(fuses_cross_products(machine.stream(), CrossStage::last_gradient, small));
  CrossShape const wide{2'048, 1'152, 520, DType::bfloat16};
  EXPECT_FALSE(fuses_cross_products(machine.stream(), CrossStage::forward, wide));
}
#endif

TYPED_TEST(CrossProductsTest, products_have_the_same_bits_each_time_and_captured) {
  bool const fuses = !std::is_same_v<TypeParam, HostStream>;
  CrossSize const size{fuses ? 8'500 : 85, 1'000, 200};
  auto const count = size.rows * size.columns;
  auto const gradient = this->template operand<bfloat16>(size.rows * size.inner, 0);
  auto const down = this->template operand<bfloat16>(size.columns * size.inner, 0);
  auto const added = this->template operand<bfloat16>(count, 0);
  auto const first = this->template operand<bfloat16>(count, 0);
  auto const sum = this->template poisoned<bfloat16>(count);
  auto const projected = this->template poisoned<bfloat16>(count);
  auto const sums = this->floats(size.columns);
  CrossGradientArgs args{.gradient = gradient.data(),
                         .down = down.data(),
                         .added = added.data(),
                         .first = first.data(),
                         .sum = sum.data(),
                         .projected = projected.data(),
                         .column_sums = sums.data(),
                         .workspace = nullptr,
                         .shape = {size.rows, size.columns, size.inner, DType::bfloat16}};
  auto const workspace = this->template poisoned<std::byte>(
      static_cast<std::int64_t>(cross_gradient_workspace_bytes(this->stream(), args)));
  args.workspace = workspace.data();
  auto const bits = [&] {
    std::vector<std::uint16_t> all;
    for (auto const& buffer : {sum, projected}) {
      for (auto const value : this->read(buffer)) {
        all.push_back(value.bits);
      }
    }
    return std::pair(all, this->read(sums));
  };
  auto const issue = [&](auto stream) { cross_gradient(stream, args); };
  issue(this->stream());
  auto const expected = bits();
  for (int repetition = 0; repetition < 4; ++repetition) {
    repetition % 2 == 0 ? issue(this->stream()) : this->replay(issue);
    ASSERT_EQ(bits(), expected);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
