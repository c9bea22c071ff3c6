// SPDX-License-Identifier: Apache-2.0
#include "mixed/summed_gradients.hpp"

#include "kernels/kernel_fixture.hpp"
#include "mixed/convert.hpp"
#include "mixed/cross.hpp"
#include "mixed/half_columns.hpp"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <numbers>

namespace msstream::ops::kernels::testing {
namespace {

struct SummedSize {
  std::int64_t rows;
  std::int64_t columns;
};
/// Matrices without elements, of odd and even widths, wider than a block, and so tall that their
/// rows are summed in many parts.
constexpr SummedSize kSummedMatrices[] = {{0, 5},
                                          {3, 0},
                                          {1, 1},
                                          {7, 3},
                                          {64, 16},
                                          {33, 257},
                                          {40, 1024},
                                          {20, 4808},
                                          {30, 601},
                                          {2'000, 8},
                                          {20'000, 24}};

template <class Stream>
class MixedKernelsTest : public KernelTest<Stream> {
 protected:
  template <class T>
  std::vector<T> values_of(std::int64_t count) {
    std::vector<T> values;
    for (float const value : this->random.reals(count)) {
      values.push_back(from_float<T>(value));
    }
    return values;
  }
  /// Returns the elements behind the first `shift` elements of memory of a kernel.
  template <class T>
  std::vector<T> elements_behind(Buffer<T> const& memory, std::int64_t shift) {
    auto const all = this->read(memory);
    return {all.begin() + shift, all.end()};
  }
  /// Puts values behind `shift` other elements.
  template <class T>
  Buffer<T> shifted(std::vector<T> const& values, std::int64_t shift) {
    std::vector<T> all(static_cast<std::size_t>(shift), from_float<T>(7.0F));
    all.insert(all.end(), values.begin(), values.end());
    return this->upload(all);
  }
  template <class T>
  static double at(std::vector<T> const& values, std::int64_t i) {
    return to_float(values[static_cast<std::size_t>(i)]);
  }
  static void expect_sums(std::vector<float> const& sums, std::vector<double> const& expected) {
    ASSERT_EQ(sums.size(), expected.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      ASSERT_NEAR(sums[i], expected[i], 2e-4 * (1 + std::abs(expected[i]))) << "column " << i;
    }
  }

  /// Returns the derivative of an activation in double.
  static double slope_of(Activation activation, double saved) {
    if (activation != Activation::gelu_tanh) {
      return activation == Activation::none || saved > 0 ? 1.0 : 0.0;
    }
    double const factor = std::sqrt(2 / std::numbers::pi);
    double const t = std::tanh(factor * (saved + 0.044715 * saved * saved * saved));
    return 0.5 * (1 + t) + 0.5 * saved * (1 - t * t) * factor * (1 + 3 * 0.044715 * saved * saved);
  }

  template <class T>
  void expect_activation_sums(SummedSize const& size,
                              std::int64_t shift,
                              Activation activation,
                              bool writes) {
    auto const count = size.rows * size.columns;
    std::vector<T> saved;
    for (float const value : this->random.reals(count, -6.0F, 6.0F)) {
      saved.push_back(from_float<T>(value));
    }
    auto const gradient = values_of<T>(count);
    auto const of_saved = shifted(saved, shift);
    auto const of_gradient = shifted(gradient, shift);
    auto const before = this->template poisoned<T>(shift + count);
    auto const sums = this->floats(size.columns);
    activation_gradient_sums(
        this->stream(),
        {.activation = activation,
         .saved = activation != Activation::none ? of_saved.data() + shift : nullptr,
         .output_gradient = of_gradient.data() + shift,
         .input_gradient = writes ? before.data() + shift : nullptr,
         .sums = sums.data(),
         .rows = size.rows,
         .columns = size.columns,
         .dtype = dtype_of<T>});
    constexpr double kRoundoff = std::is_same_v<T, bfloat16>  ? 0x1p-8
                                 : std::is_same_v<T, float16> ? 0x1p-11
                                                              : 0x1p-24;
    double const error = activation == Activation::gelu_tanh ? 4e-6 : 0.0;
    std::vector<double> expected(static_cast<std::size_t>(size.columns), 0.0);
    auto const found = elements_behind(before, shift);
    for (std::int64_t i = 0; i < count; ++i) {
      double const value = slope_of(activation, at(saved, i)) * at(gradient, i);
      expected[static_cast<std::size_t>(i % size.columns)] += value;
      if (writes && activation != Activation::gelu_tanh) {
        ASSERT_EQ(at(found, i), value) << "element " << i;
      } else if (writes) {
        ASSERT_NEAR(at(found, i), value, kRoundoff * std::abs(value) + error) << "element " << i;
      }
    }
    expect_sums(this->read(sums), expected);
  }

  template <class T>
  void expect_cross_sums(SummedSize const& size, std::int64_t shift, bool wants_first) {
    auto const count = size.rows * size.columns;
    std::array<std::vector<T>, 3> const in{
        values_of<T>(count), values_of<T>(count), values_of<T>(count)};
    auto const first = shifted(in[0], shift);
    auto const projected = shifted(in[1], shift);
    auto const gradient = shifted(in[2], shift);
    auto const of_first = this->template poisoned<T>(shift + count);
    auto const of_projected = this->template poisoned<T>(shift + count);
    auto const sums = this->floats(size.columns);
    cross_gradient_sums(this->stream(),
                        {.first = first.data() + shift,
                         .projected = wants_first ? projected.data() + shift : nullptr,
                         .output_gradient = gradient.data() + shift,
                         .first_gradient = wants_first ? of_first.data() + shift : nullptr,
                         .projected_gradient = of_projected.data() + shift,
                         .sums = sums.data(),
                         .rows = size.rows,
                         .columns = size.columns,
                         .dtype = dtype_of<T>});
    constexpr double kRounding = std::is_same_v<T, float> ? 1e-6 : 0.01;
    std::vector<double> expected(static_cast<std::size_t>(size.columns), 0.0);
    auto const found_first = elements_behind(of_first, shift);
    auto const found_projected = elements_behind(of_projected, shift);
    for (std::int64_t i = 0; i < count; ++i) {
      double const g = at(in[2], i);
      double const product = g * at(in[0], i);
      expected[static_cast<std::size_t>(i % size.columns)] += product;
      ASSERT_NEAR(at(found_projected, i), product, kRounding) << "element " << i;
      if (wants_first) {
        ASSERT_NEAR(at(found_first, i), g * at(in[1], i), kRounding) << "element " << i;
      }
    }
    expect_sums(this->read(sums), expected);
  }
};
TYPED_TEST_SUITE(MixedKernelsTest, StreamKinds, StreamKindName);

TYPED_TEST(MixedKernelsTest, gradients_before_activations_are_computed_and_summed) {
  for (auto const& size : kSummedMatrices) {
    for (std::int64_t const shift : {0, 1, 8}) {
      SCOPED_TRACE(fmt::format("{} x {}, shift {}", size.rows, size.columns, shift));
      for (auto const activation : {Activation::relu, Activation::gelu_tanh}) {
        this->template expect_activation_sums<bfloat16>(size, shift, activation, true);
        this->template expect_activation_sums<float16>(size, shift, activation, true);
        this->template expect_activation_sums<float>(size, shift, activation, shift != 1);
      }
      this->template expect_activation_sums<float16>(size, shift, Activation::none, false);
    }
  }
}

TYPED_TEST(MixedKernelsTest, gradients_of_gelu_of_large_numbers_are_those_of_relu) {
  std::vector<float> const saved{1e4F, -1e4F, 60.0F, -60.0F, INFINITY, -INFINITY, 0.0F, NAN};
  std::vector<float> const expected{2.0F, 0.0F, 2.0F, 0.0F, 2.0F, 0.0F, 1.0F, NAN};
  auto const expect_gradients = [&]<class T>(T) {
    std::vector<T> of_saved;
    for (float const value : saved) {
      of_saved.push_back(from_float<T>(value));
    }
    auto const count = static_cast<std::int64_t>(saved.size());
    auto const at_saved = this->upload(of_saved);
    auto const gradient = this->upload(std::vector(saved.size(), from_float<T>(2.0F)));
    auto const before = this->template poisoned<T>(count);
    auto const sums = this->floats(count);
    activation_gradient_sums(this->stream(),
                             {.activation = Activation::gelu_tanh,
                              .saved = at_saved.data(),
                              .output_gradient = gradient.data(),
                              .input_gradient = before.data(),
                              .sums = sums.data(),
                              .rows = 1,
                              .columns = count,
                              .dtype = dtype_of<T>});
    auto const found = this->read(before);
    auto const summed = this->read(sums);
    for (std::size_t i = 0; i < saved.size(); ++i) {
      if (std::isnan(expected[i])) {
        EXPECT_TRUE(std::isnan(to_float(found[i])) && std::isnan(summed[i]));
      } else {
        EXPECT_EQ(to_float(found[i]), expected[i]) << "of " << saved[i];
        EXPECT_EQ(summed[i], expected[i]) << "of " << saved[i];
      }
    }
  };
  expect_gradients(float{});
  expect_gradients(float16{});
  expect_gradients(bfloat16{});
}

// Many blocks add the rows of a tall matrix, each with sums of its own in the workspace.
TYPED_TEST(MixedKernelsTest, sums_of_tall_matrices_are_right_in_launch_after_launch) {
  for (int repetition = 0; repetition < 3; ++repetition) {
    this->template expect_activation_sums<bfloat16>({70'000, 128}, 0, Activation::relu, false);
    this->template expect_activation_sums<bfloat16>({70'000, 12}, 1, Activation::none, false);
    this->template expect_cross_sums<float16>({40'000, 64}, 0, true);
    this->template expect_activation_sums<bfloat16>({2'000, 3'464}, 0, Activation::relu, true);
  }
}

TYPED_TEST(MixedKernelsTest, sums_have_the_same_bits_each_time_and_captured) {
  for (auto const& size : {SummedSize{20'000, 136}, SummedSize{9'000, 37}, SummedSize{5'000, 8}}) {
    auto const count = size.rows * size.columns;
    auto const gradient = this->upload(this->template values_of<bfloat16>(count));
    auto const saved = this->upload(this->template values_of<bfloat16>(count));
    auto const before = this->template poisoned<bfloat16>(count);
    std::vector<std::vector<float>> results;
    for (int repetition = 0; repetition < 6; ++repetition) {
      auto const sums = this->floats(size.columns);
      auto const launch = [&](auto stream) {
        activation_gradient_sums(stream,
                                 {.activation = Activation::relu,
                                  .saved = saved.data(),
                                  .output_gradient = gradient.data(),
                                  .input_gradient = before.data(),
                                  .sums = sums.data(),
                                  .rows = size.rows,
                                  .columns = size.columns,
                                  .dtype = DType::bfloat16});
      };
      if (repetition % 2 == 0) {
        launch(this->stream());
      } else {
        this->replay(launch);
      }
      results.push_back(this->read(sums));
      ASSERT_EQ(results.back(), results.front()) << size.rows << " x " << size.columns;
    }
  }
}

TYPED_TEST(MixedKernelsTest, gradients_of_cross_layers_are_computed_and_summed) {
  for (auto const& size : kSummedMatrices) {
    for (std::int64_t const shift : {0, 3}) {
      SCOPED_TRACE(fmt::format("{} x {}, shift {}", size.rows, size.columns, shift));
      this->template expect_cross_sums<bfloat16>(size, shift, true);
      this->template expect_cross_sums<float16>(size, shift, false);
      this->template expect_cross_sums<float>(size, shift, true);
    }
  }
}

TYPED_TEST(MixedKernelsTest, columns_are_cut_off_and_appended) {
  for (auto const& [rows, from, to] : {std::array<std::int64_t, 3>{5, 3, 8},
                                       {5, 8, 3},
                                       {1, 479, 480},
                                       {700, 13, 16},
                                       {4, 6, 6},
                                       {3, 0, 2},
                                       {3, 2, 0},
                                       {0, 4, 8}}) {
    auto const values = this->template values_of<float16>(rows * from);
    auto const input = this->upload(values);
    auto const output = this->template poisoned<float16>(rows * to);
    resize_half_columns(this->stream(), {input.data(), output.data(), rows, from, to});
    auto const found = this->read(output);
    for (std::int64_t i = 0; i < rows * to; ++i) {
      auto const column = i % to;
      double const expected = column < from ? this->at(values, i / to * from + column) : 0.0;
      ASSERT_EQ(this->at(found, i), expected) << rows << " x " << from << " to " << to;
    }
  }
}

TYPED_TEST(MixedKernelsTest, many_terms_are_added_in_launches_that_round_once) {
  for (std::int64_t const count : {1, 5, 2'049}) {
    for (std::size_t const terms : {1U, 2U, 31U, 32U, 33U, 70U}) {
      std::vector<Buffer<bfloat16>> inputs;
      std::vector<void const*> pointers;
      std::vector<float> sums(static_cast<std::size_t>(count), 0.0F);
      for (std::size_t k = 0; k < terms; ++k) {
        // Integers, so that sums of a launch are exact before they are rounded.
        std::vector<bfloat16> values;
        for (auto& sum : sums) {
          values.push_back(from_float<bfloat16>(static_cast<float>(this->random.integer(-9, 9))));
          sum += to_float(values.back());
        }
        // The first launch adds 32 terms, a later one 31 to the sum before.
        if (k + 1 >= kHalvesPerLaunch && (k - kHalvesPerLaunch + 1) % (kHalvesPerLaunch - 1) == 0) {
          for (auto& sum : sums) {
            sum = to_float(from_float<bfloat16>(sum));
          }
        }
        inputs.push_back(this->upload(values));
        pointers.push_back(inputs.back().data());
      }
      auto const output = this->template poisoned<bfloat16>(count);
      add_halves(this->stream(), pointers, output.data(), count, DType::bfloat16);
      auto const found = this->read(output);
      for (std::int64_t i = 0; i < count; ++i) {
        auto const expected = from_float<bfloat16>(sums[static_cast<std::size_t>(i)]);
        ASSERT_EQ(found[static_cast<std::size_t>(i)].bits, expected.bits) << terms << " terms";
      }
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
