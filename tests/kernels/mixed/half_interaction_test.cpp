// SPDX-License-Identifier: Apache-2.0
#include "mixed/half_interaction.hpp"

#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <cmath>

namespace msstream::ops::kernels::testing {
namespace {

struct HalfInteractionSizes {
  std::int64_t batch;
  std::int64_t features;
  std::int64_t width;
};
/// Sizes that take each path: one to four tiles of 16 vectors, all of them in use and not, rows of
/// whole chunks of 16 bytes, of pairs of halves and of odd widths, more vectors than the tiles
/// hold, and vectors that do not fit into shared memory.
constexpr HalfInteractionSizes kHalfInteractions[] = {
    {0, 3, 4},    {3, 0, 5},   {3, 3, 0},     {5, 1, 1},    {33, 2, 8},   {31, 8, 32},
    {127, 8, 33}, {9, 26, 64}, {6, 26, 128},  {4, 26, 126}, {3, 31, 127}, {5, 15, 16},
    {5, 16, 24},  {3, 32, 20}, {3, 47, 34},   {3, 48, 8},   {3, 63, 128}, {2, 63, 1},
    {2, 64, 8},   {2, 70, 40}, {2, 26, 1000}, {2, 2, 8184}, {2, 2, 9000}, {4097, 3, 8}};

/// Positions of the first element within a chunk of 8 halves, of each array.
struct Shifts {
  std::int64_t dense = 0;
  std::int64_t embeddings = 0;
  std::int64_t outputs = 0;
  std::int64_t dense_gradient = 0;
  std::int64_t embeddings_gradient = 0;
};
constexpr Shifts kShifts[] = {{}, {2, 4, 6, 2, 4}, {1, 2, 3, 4, 5}, {0, 0, 7, 0, 0}};

template <class Pair>
class HalfInteractionTest : public KernelTest<typename Pair::first_type> {
 protected:
  using T = typename Pair::second_type;
  static constexpr std::int64_t kGuard = 3000;  // more than a block of threads writes at once

  /// Memory for a kernel: `count` elements between poisoned ones.
  struct Halves {
    Buffer<T> memory;
    std::int64_t shift;
    std::int64_t count;

    [[nodiscard]] T* data() const { return memory.data() + kGuard + shift; }
  };
  Halves halves(std::int64_t count, std::int64_t shift) {
    return {this->template poisoned<T>(kGuard + shift + count + kGuard), shift, count};
  }
  Halves halves(std::vector<T> const& values, std::int64_t shift) {
    auto const count = std::ssize(values);
    auto const result = halves(count, shift);
    auto all = this->read(result.memory);
    std::copy(values.begin(), values.end(), all.begin() + kGuard + shift);
    this->write(result.memory, all);
    return result;
  }
  /// Returns the elements. The test fails if a kernel wrote beside them.
  std::vector<T> elements(Halves const& halves) {
    auto const all = this->read(halves.memory);
    auto const first = all.begin() + kGuard + halves.shift;
    auto const last = first + halves.count;
    auto const is_poison = [](T value) { return value.bits == 0xFFFF; };
    EXPECT_TRUE(std::all_of(all.begin(), first, is_poison)) << "written before an array";
    EXPECT_TRUE(std::all_of(last, all.end(), is_poison)) << "written behind an array";
    return {first, last};
  }
  std::vector<T> random_halves(std::int64_t count) {
    std::vector<T> values;
    for (float const value : this->random.reals(count)) {
      values.push_back(from_float<T>(value));
    }
    return values;
  }

  struct Problem {
    HalfInteractionSizes sizes;
    std::vector<T> dense;
    std::vector<T> embeddings;
    std::vector<T> output_gradient;

    [[nodiscard]] std::int64_t outputs() const {
      return sizes.width + pairs_of(sizes.features + 1);
    }
    [[nodiscard]] double element(std::int64_t sample,
                                 std::int64_t vector,
                                 std::int64_t column) const {
      auto const& all = vector == 0 ? dense : embeddings;
      auto const row = vector == 0 ? sample : sample * sizes.features + vector - 1;
      return to_float(all[static_cast<std::size_t>(row * sizes.width + column)]);
    }
    [[nodiscard]] double gradient(std::int64_t sample, std::int64_t output) const {
      return to_float(output_gradient[static_cast<std::size_t>(sample * outputs() + output)]);
    }
  };
  Problem problem(HalfInteractionSizes const& sizes) {
    auto const outputs = sizes.batch * (sizes.width + pairs_of(sizes.features + 1));
    return {sizes,
            random_halves(sizes.batch * sizes.width),
            random_halves(sizes.batch * sizes.features * sizes.width),
            random_halves(outputs)};
  }
  std::vector<T> products(Problem const& problem, Shifts const& shifts) {
    auto const& [batch, features, width] = problem.sizes;
    auto const dense = halves(problem.dense, shifts.dense);
    auto const embeddings = halves(problem.embeddings, shifts.embeddings);
    auto const output = halves(batch * problem.outputs(), shifts.outputs);
    dot_interaction(this->stream(),
                    InteractionArgsOf<T>{
                        dense.data(), embeddings.data(), output.data(), batch, features, width});
    return elements(output);
  }
  struct Gradients {
    std::vector<T> dense;
    std::vector<T> embeddings;
  };
  Gradients gradients(Problem const& problem,
                      Shifts const& shifts,
                      bool of_dense = true,
                      bool of_embeddings = true) {
    auto const& [batch, features, width] = problem.sizes;
    auto const dense = halves(problem.dense, shifts.dense);
    auto const embeddings = halves(problem.embeddings, shifts.embeddings);
    auto const output_gradient = halves(problem.output_gradient, shifts.outputs);
    auto const dense_gradient = halves(batch * width, shifts.dense_gradient);
    auto const embeddings_gradient = halves(batch * features * width, shifts.embeddings_gradient);
    dot_interaction_gradient(
        this->stream(),
        InteractionGradientArgsOf<T>{dense.data(),
                                     embeddings.data(),
                                     output_gradient.data(),
                                     of_dense ? dense_gradient.data() : nullptr,
                                     of_embeddings ? embeddings_gradient.data() : nullptr,
                                     batch,
                                     features,
                                     width});
    return {elements(dense_gradient), elements(embeddings_gradient)};
  }

  /// A float64 sum, and the sum of the magnitudes of its terms.
  struct Sum {
    double value = 0;
    double magnitude = 0;

    void add(double term) {
      value += term;
      magnitude += std::abs(term);
    }
  };
  /// Expects elements that are sums rounded to T once, after float32 errors of up to two units for
  /// each of `terms` terms: a tensor core does not round, but truncates.
  static void expect_sums(std::vector<T> const& actual,
                          std::vector<Sum> const& expected,
                          std::int64_t terms) {
    ASSERT_EQ(actual.size(), expected.size());
    double const unit = std::is_same_v<T, float16> ? 0x1p-11 : 0x1p-8;
    constexpr double kLeastFloat16 = 0x1p-24;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      auto const& [value, magnitude] = expected[i];
      double const of_sum = static_cast<double>(terms) * 0x1p-23 * magnitude;
      ASSERT_LE(std::abs(to_float(actual[i]) - value),
                unit * (std::abs(value) + of_sum) + of_sum + kLeastFloat16)
          << "element " << i << " is " << actual[i] << ", not " << value;
    }
  }
  static std::vector<std::uint16_t> bits(std::vector<T> const& values) {
    std::vector<std::uint16_t> all;
    for (auto const value : values) {
      all.push_back(value.bits);
    }
    return all;
  }
};

using HalfInteractionKinds = ::testing::Types<
#if MSSTREAM_CUDA
    std::pair<CudaStream, float16>,
    std::pair<CudaStream, bfloat16>,
#endif
    std::pair<HostStream, float16>,
    std::pair<HostStream, bfloat16>>;
struct HalfInteractionKindName {
  template <class Pair>
  static std::string GetName(int) {
    return StreamKindName::GetName<typename Pair::first_type>(0) +
           (std::is_same_v<typename Pair::second_type, float16> ? "Float16" : "Bfloat16");
  }
};
TYPED_TEST_SUITE(HalfInteractionTest, HalfInteractionKinds, HalfInteractionKindName);

TYPED_TEST(HalfInteractionTest, products_agree_with_double) {
  for (auto const& sizes : kHalfInteractions) {
    auto const problem = this->problem(sizes);
    std::vector<typename TestFixture::Sum> expected;
    for (std::int64_t s = 0; s < sizes.batch; ++s) {
      for (std::int64_t c = 0; c < sizes.width; ++c) {
        expected.push_back({problem.element(s, 0, c), 0.0});
      }
      for (std::int64_t i = 1; i <= sizes.features; ++i) {
        for (std::int64_t j = 0; j < i; ++j) {
          auto& sum = expected.emplace_back();
          for (std::int64_t c = 0; c < sizes.width; ++c) {
            sum.add(problem.element(s, i, c) * problem.element(s, j, c));
          }
        }
      }
    }
    for (auto const& shifts : kShifts) {
      SCOPED_TRACE(fmt::format("{} x {} x {}, outputs shifted by {}",
                               sizes.batch,
                               sizes.features,
                               sizes.width,
                               shifts.outputs));
      this->expect_sums(this->products(problem, shifts), expected, sizes.width);
    }
  }
}

TYPED_TEST(HalfInteractionTest, gradients_agree_with_double) {
  for (auto const& sizes : kHalfInteractions) {
    auto const problem = this->problem(sizes);
    std::vector<typename TestFixture::Sum> expected[2];
    for (std::int64_t s = 0; s < sizes.batch; ++s) {
      for (std::int64_t i = 0; i <= sizes.features; ++i) {
        for (std::int64_t c = 0; c < sizes.width; ++c) {
          auto& sum = expected[i > 0].emplace_back();
          if (i == 0) {
            sum.add(problem.gradient(s, c));
          }
          for (std::int64_t j = 0; j <= sizes.features; ++j) {
            if (j != i) {
              auto const pair = i > j ? pair_number(i, j) : pair_number(j, i);
              sum.add(problem.gradient(s, sizes.width + pair) * problem.element(s, j, c));
            }
          }
        }
      }
    }
    for (auto const& shifts : kShifts) {
      SCOPED_TRACE(fmt::format("{} x {} x {}, outputs shifted by {}",
                               sizes.batch,
                               sizes.features,
                               sizes.width,
                               shifts.outputs));
      auto const actual = this->gradients(problem, shifts);
      this->expect_sums(actual.dense, expected[0], sizes.features + 1);
      this->expect_sums(actual.embeddings, expected[1], sizes.features + 1);
    }
  }
}

TYPED_TEST(HalfInteractionTest, an_infinite_element_makes_the_gradients_of_the_others_infinite) {
  for (auto const& sizes : kHalfInteractions) {
    if (sizes.batch == 0 || sizes.width == 0 || sizes.features == 0) {
      continue;
    }
    SCOPED_TRACE(fmt::format("{} x {} x {}", sizes.batch, sizes.features, sizes.width));
    auto problem = this->problem(sizes);
    for (auto& gradient : problem.output_gradient) {
      gradient = from_float<typename TestFixture::T>(1.0F);
    }
    // The last vector of the first sample, in its first column.
    problem.embeddings[static_cast<std::size_t>((sizes.features - 1) * sizes.width)] =
        from_float<typename TestFixture::T>(INFINITY);
    auto const found = this->gradients(problem, {});
    ASSERT_EQ(to_float(found.dense.front()), INFINITY);
    for (std::int64_t feature = 0; feature + 1 < sizes.features; ++feature) {
      ASSERT_EQ(to_float(found.embeddings[static_cast<std::size_t>(feature * sizes.width)]),
                INFINITY)
          << "feature " << feature;
    }
  }
}

TYPED_TEST(HalfInteractionTest, computes_the_gradient_that_is_wanted) {
  auto const problem = this->problem({5, 4, 8});
  auto const both = this->gradients(problem, {});
  auto const of_dense = this->gradients(problem, {}, true, false);
  auto const of_embeddings = this->gradients(problem, {}, false, true);
  auto const is_poison = [](auto value) { return value.bits == 0xFFFF; };
  EXPECT_EQ(this->bits(of_dense.dense), this->bits(both.dense));
  EXPECT_TRUE(std::all_of(of_dense.embeddings.begin(), of_dense.embeddings.end(), is_poison));
  EXPECT_EQ(this->bits(of_embeddings.embeddings), this->bits(both.embeddings));
  EXPECT_TRUE(std::all_of(of_embeddings.dense.begin(), of_embeddings.dense.end(), is_poison));
}

TYPED_TEST(HalfInteractionTest, unaligned_arrays_and_parts_of_a_batch_give_equal_bits) {
  auto const problem = this->problem({7, 26, 128});
  auto const outputs = this->products(problem, {});
  auto const gradients = this->gradients(problem, {});
  for (auto const& shifts : kShifts) {
    EXPECT_EQ(this->bits(this->products(problem, shifts)), this->bits(outputs));
    auto const shifted = this->gradients(problem, shifts);
    EXPECT_EQ(this->bits(shifted.dense), this->bits(gradients.dense));
    EXPECT_EQ(this->bits(shifted.embeddings), this->bits(gradients.embeddings));
  }
  auto last = problem;
  auto const keep_last = [](auto& values) {
    values.erase(values.begin(), values.end() - std::ssize(values) / 7);
  };
  last.sizes.batch = 1;
  keep_last(last.dense);
  keep_last(last.embeddings);
  keep_last(last.output_gradient);
  auto const ends_with = [](auto const& all, auto const& part) {
    return part.size() * 7 == all.size() &&
           std::equal(part.begin(), part.end(), all.end() - std::ssize(part));
  };
  EXPECT_TRUE(ends_with(this->bits(outputs), this->bits(this->products(last, {}))));
  auto const of_last = this->gradients(last, {});
  EXPECT_TRUE(ends_with(this->bits(gradients.dense), this->bits(of_last.dense)));
  EXPECT_TRUE(ends_with(this->bits(gradients.embeddings), this->bits(of_last.embeddings)));
}

// Samples at the ends of an array, whose neighbours cannot be read with them, and between others.
TYPED_TEST(HalfInteractionTest, samples_at_the_ends_of_a_batch_equal_those_between) {
  constexpr std::int64_t kSmall = 7;
  auto const repeated = [](auto const& values, std::int64_t times) {
    auto all = values;
    all.clear();
    for (std::int64_t i = 0; i < times; ++i) {
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  struct Large {
    std::int64_t features;
    std::int64_t width;
    std::int64_t times;
  };
  for (auto const& [features, width, times] :
       {Large{26, 128, 90}, Large{3, 8, 600}, Large{31, 33, 90}, Large{40, 24, 90}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", kSmall * times, features, width));
    auto const small = this->problem({kSmall, features, width});
    auto large = small;
    large.sizes.batch *= times;
    large.dense = repeated(small.dense, times);
    large.embeddings = repeated(small.embeddings, times);
    large.output_gradient = repeated(small.output_gradient, times);
    EXPECT_TRUE(this->bits(this->products(large, {})) ==
                repeated(this->bits(this->products(small, {})), times));
    auto const expected = this->gradients(small, {});
    auto const actual = this->gradients(large, {});
    EXPECT_TRUE(this->bits(actual.dense) == repeated(this->bits(expected.dense), times));
    EXPECT_TRUE(this->bits(actual.embeddings) == repeated(this->bits(expected.embeddings), times));
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
