// SPDX-License-Identifier: Apache-2.0
#include "normalize/batch_norm.hpp"

#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"
#include "normalize/gates.hpp"

#include <fmt/core.h>

#include <cmath>

namespace msstream::ops::kernels::testing {
namespace {

using Float64s = std::vector<double>;

constexpr float kBatchEpsilon = 1e-3F;
constexpr float kBatchMomentum = 0.25F;

struct MatrixSizes {
  std::int64_t rows;
  std::int64_t width;
};
/// Sizes of one chunk of rows and of several, with columns that fill a tile and others, and sizes
/// for which neighbouring rows are one row of the tiles.
constexpr MatrixSizes kMatrices[] = {
    {1, 1},      {2, 3},     {31, 32},    {33, 31},    {64, 33},     {65, 1},
    {127, 200},  {4097, 5},  {1000, 129}, {2, 1000},   {31, 4096},   {1000, 128},
    {31, 100},   {8192, 3},  {8192, 16},  {20'001, 2}, {264'001, 1}, {90'005, 3},
    {52'435, 5}, {9001, 31}, {2100, 129}, {2055, 130}, {127'101, 33}};

/// The statistics of columns in double.
struct Columns64 {
  MatrixSizes sizes;
  Float64s means;
  Float64s variances;

  Columns64(MatrixSizes of, std::vector<float> const& input) : sizes(of) {
    for (std::int64_t c = 0; c < sizes.width; ++c) {
      double sum = 0;
      for (std::int64_t r = 0; r < sizes.rows; ++r) {
        sum += input[static_cast<std::size_t>(r * sizes.width + c)];
      }
      double const mean = sum / static_cast<double>(sizes.rows);
      double squares = 0;
      for (std::int64_t r = 0; r < sizes.rows; ++r) {
        double const d = input[static_cast<std::size_t>(r * sizes.width + c)] - mean;
        squares += d * d;
      }
      means.push_back(mean);
      variances.push_back(squares / static_cast<double>(sizes.rows));
    }
  }
  [[nodiscard]] double reciprocal(std::size_t c) const {
    return 1 / std::sqrt(variances[c] + double{kBatchEpsilon});
  }
  [[nodiscard]] double normal(std::size_t c, double x) const {
    return (x - means[c]) * reciprocal(c);
  }
};

template <class Stream>
class BatchNormTest : public KernelTest<Stream> {
 protected:
  struct Statistics {
    Buffer<float> of_batch;
    Buffer<float> mean;
    Buffer<float> variance;
  };
  Statistics statistics(MatrixSizes sizes, Buffer<float> const& input, RowMask mask = {}) {
    auto const width = static_cast<std::size_t>(sizes.width);
    Statistics made{this->floats(4 * sizes.width),
                    this->upload(std::vector<float>(width, 0.5F)),
                    this->upload(std::vector<float>(width, 2.0F))};
    auto const workspace =
        this->workspace(column_statistics_workspace_bytes(this->stream(), sizes.rows, sizes.width));
    column_statistics(this->stream(),
                      {input.data(),
                       sizes.rows,
                       sizes.width,
                       kBatchEpsilon,
                       kBatchMomentum,
                       made.of_batch.data(),
                       made.mean.data(),
                       made.variance.data(),
                       workspace.data(),
                       mask});
    this->synchronise();
    return made;
  }
  template <class Function>
  static Float64s each(MatrixSizes sizes, Function const& function) {
    Float64s out;
    for (std::int64_t i = 0; i < sizes.rows * sizes.width; ++i) {
      out.push_back(
          function(static_cast<std::size_t>(i), static_cast<std::size_t>(i % sizes.width)));
    }
    return out;
  }
};
TYPED_TEST_SUITE(BatchNormTest, StreamKinds, StreamKindName);

TYPED_TEST(BatchNormTest, statistics_and_output_agree_with_double) {
  for (auto const& sizes : kMatrices) {
    for (float const centre : {0.0F, 1000.0F}) {
      SCOPED_TRACE(fmt::format("{} x {} about {}", sizes.rows, sizes.width, centre));
      auto const count = sizes.rows * sizes.width;
      auto const values = this->random.reals(count, centre - 2, centre + 2);
      auto const input = this->upload(values);
      auto const statistics = this->statistics(sizes, input);
      Columns64 const expected(sizes, values);
      auto const found = this->read(statistics.of_batch);
      Float64s running_means;
      Float64s running_variances;
      for (std::size_t c = 0; c < expected.means.size(); ++c) {
        auto const width = expected.means.size();
        EXPECT_NEAR(double{found[c]} + found[width + c], expected.means[c], 1e-9 * (1 + centre));
        EXPECT_NEAR(found[2 * width + c] / expected.reciprocal(c), 1.0, 1e-6);
        double const n = static_cast<double>(sizes.rows);
        bool const is_taken = sizes.rows > 1;
        double const unbiased = is_taken ? expected.variances[c] * n / (n - 1) : 0.0;
        running_means.push_back(is_taken ? 0.75 * 0.5 + 0.25 * expected.means[c] : 0.5);
        running_variances.push_back(is_taken ? 0.75 * 2.0 + 0.25 * unbiased : 2.0);
      }
      expect_within(this->read(statistics.mean), running_means);
      expect_within(this->read(statistics.variance), running_variances);

      auto const weights = this->random.reals(sizes.width);
      auto const biases = this->random.reals(sizes.width);
      auto const weight = this->upload(weights);
      auto const bias = this->upload(biases);
      auto const output = this->guarded(count);
      batch_norm(this->stream(),
                 {input.data(),
                  weight.data(),
                  bias.data(),
                  {statistics.of_batch.data(), nullptr, nullptr, 0.0F},
                  output.data(),
                  sizes.rows,
                  sizes.width});
      expect_within(this->read(output),
                    this->each(sizes,
                               [&](std::size_t i, std::size_t c) {
                                 return expected.normal(c, values[i]) * weights[c] + biases[c];
                               }),
                    2e-6);
    }
  }
}

TYPED_TEST(BatchNormTest, running_statistics_normalise_as_well) {
  MatrixSizes const sizes{33, 31};
  auto const values = this->random.reals(33 * 31);
  auto const means = this->random.reals(31);
  auto const variances = this->random.reals(31, 0.1F, 2.0F);
  auto const ones = this->upload(std::vector<float>(31, 1.0F));
  auto const zeros = this->upload(std::vector<float>(31, 0.0F));
  auto const input = this->upload(values);
  auto const mean = this->upload(means);
  auto const variance = this->upload(variances);
  auto const output = this->guarded(33 * 31);
  batch_norm(this->stream(),
             {input.data(),
              ones.data(),
              zeros.data(),
              {nullptr, mean.data(), variance.data(), kBatchEpsilon},
              output.data(),
              33,
              31});
  expect_within(this->read(output),
                this->each(sizes,
                           [&](std::size_t i, std::size_t c) {
                             return (values[i] - means[c]) /
                                    std::sqrt(variances[c] + double{kBatchEpsilon});
                           }),
                2e-6);
}

TYPED_TEST(BatchNormTest, without_rows_the_running_statistics_stay) {
  auto const input = this->floats(0);
  auto const statistics = this->statistics({0, 3}, input);
  EXPECT_EQ(this->read(statistics.of_batch),
            (std::vector<float>{0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(this->read(statistics.mean), std::vector<float>(3, 0.5F));
  EXPECT_EQ(this->read(statistics.variance), std::vector<float>(3, 2.0F));
}

TYPED_TEST(BatchNormTest, running_statistics_do_not_take_what_is_not_finite) {
  for (auto const& sizes : kMatrices) {
    if (sizes.rows < 2) {
      continue;
    }
    SCOPED_TRACE(fmt::format("{} x {}", sizes.rows, sizes.width));
    auto values = this->random.reals(sizes.rows * sizes.width);
    auto const finite = this->upload(values);
    auto const expected = this->statistics(sizes, finite);
    // A bad number in every column but each fourth: NaN, infinity, and two whose variance is above
    // the range of float32.
    auto const width = static_cast<std::size_t>(sizes.width);
    for (std::size_t c = 0; c < width; ++c) {
      auto const at = static_cast<std::size_t>(this->random.integer(0, sizes.rows - 1)) * width + c;
      if (c % 4 == 0) {
        values[at] = std::nanf("");
      } else if (c % 4 == 1) {
        values[at] = -INFINITY;
      } else if (c % 4 == 2) {
        values[c] = 3e38F;
        values[width + c] = -3e38F;
      }
    }
    auto const input = this->upload(values);
    auto const found = this->statistics(sizes, input);
    auto const of_batch = this->read(found.of_batch);
    auto means = this->read(expected.mean);
    auto variances = this->read(expected.variance);
    for (std::size_t c = 0; c < width; ++c) {
      if (c % 4 != 3) {
        means[c] = 0.5F;
        variances[c] = 2.0F;
        EXPECT_EQ(std::isnan(of_batch[2 * width + c]), c % 4 != 2) << "the batch stays as it is";
      }
    }
    EXPECT_EQ(this->read(found.mean), means);
    EXPECT_EQ(this->read(found.variance), variances);
  }
}

TYPED_TEST(BatchNormTest, one_row_that_counts_has_statistics_that_do_not_run) {
  auto const input = this->upload(this->random.reals(4 * 3));
  auto const mask = this->upload(std::vector<float>{0, 0, 1, 0});
  auto const found = this->statistics({4, 3}, input, {mask.data(), 1});
  auto const of_batch = this->read(found.of_batch);
  EXPECT_EQ(of_batch[0], this->read(input)[6]);
  EXPECT_EQ(of_batch[9], 1.0F);
  EXPECT_EQ(this->read(found.mean), std::vector<float>(3, 0.5F));
  EXPECT_EQ(this->read(found.variance), std::vector<float>(3, 2.0F));
}

TYPED_TEST(BatchNormTest, rows_that_do_not_count_are_not_looked_at) {
  for (auto const& sizes : kMatrices) {
    for (std::int64_t const rows_a_mark : {1, 3}) {
      SCOPED_TRACE(fmt::format("{} x {}, {} a mark", sizes.rows, sizes.width, rows_a_mark));
      auto values = this->random.reals(sizes.rows * sizes.width);
      auto const marks = (sizes.rows + rows_a_mark - 1) / rows_a_mark;
      std::vector<float> mask;
      for (std::int64_t i = 0; i < marks; ++i) {
        mask.push_back(static_cast<float>(this->random.integer(0, 1)));
      }
      std::vector<float> counted;
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto const row = static_cast<std::int64_t>(i) / sizes.width;
        if (mask[static_cast<std::size_t>(row / rows_a_mark)] != 0.0F) {
          counted.push_back(values[i]);
        } else {
          values[i] = std::nanf("");
        }
      }
      auto const input = this->upload(values);
      auto const marked = this->upload(mask);
      auto const found = this->statistics(sizes, input, {marked.data(), rows_a_mark});
      auto const rows = static_cast<std::int64_t>(counted.size()) / sizes.width;
      auto const alone = this->upload(counted);
      auto const expected = this->statistics({rows, sizes.width}, alone);
      auto const statistics = this->read(found.of_batch);
      auto const of_rows = this->read(expected.of_batch);
      for (std::size_t c = 0; c < static_cast<std::size_t>(sizes.width); ++c) {
        auto const width = static_cast<std::size_t>(sizes.width);
        EXPECT_NEAR(double{statistics[c]} + statistics[width + c],
                    double{of_rows[c]} + of_rows[width + c],
                    1e-12);
        EXPECT_NEAR(statistics[2 * width + c] / of_rows[2 * width + c], 1.0F, 1e-6F);
        EXPECT_EQ(statistics[3 * width + c], static_cast<float>(rows));
      }
      auto const as_doubles = [](std::vector<float> const& all) {
        return Float64s(all.begin(), all.end());
      };
      expect_within(this->read(found.mean), as_doubles(this->read(expected.mean)));
      expect_within(this->read(found.variance), as_doubles(this->read(expected.variance)));
    }
  }
}

TYPED_TEST(BatchNormTest, large_numbers_in_rows_that_do_not_count_cost_no_digits) {
  for (auto const& sizes : kMatrices) {
    for (std::int64_t const first : {std::int64_t{1}, sizes.rows / 2, sizes.rows - 1}) {
      SCOPED_TRACE(fmt::format("{} x {} from row {}", sizes.rows, sizes.width, first));
      auto values = this->random.reals(sizes.rows * sizes.width, 1.0F, 3.0F);
      std::vector<float> mask(static_cast<std::size_t>(sizes.rows), 1.0F);
      std::vector<float> counted;
      for (std::size_t i = 0; i < values.size(); ++i) {
        auto const row = static_cast<std::int64_t>(i) / sizes.width;
        if (row >= first && (row - first) % 3 < 2) {  // the rows that count
          counted.push_back(values[i]);
        } else {
          mask[static_cast<std::size_t>(row)] = 0.0F;
          values[i] = 1e12F;
        }
      }
      auto const input = this->upload(values);
      auto const marks = this->upload(mask);
      auto const found = this->read(this->statistics(sizes, input, {marks.data(), 1}).of_batch);
      Columns64 const expected({std::ssize(counted) / sizes.width, sizes.width}, counted);
      for (std::size_t c = 0, width = expected.means.size(); !counted.empty() && c < width; ++c) {
        EXPECT_NEAR(double{found[c]} + found[width + c], expected.means[c], 1e-12);
        EXPECT_NEAR(found[2 * width + c] / expected.reciprocal(c), 1.0, 1e-6);
      }
    }
  }
}

TYPED_TEST(BatchNormTest, gradients_agree_with_double) {
  for (auto const& sizes : kMatrices) {
    SCOPED_TRACE(fmt::format("{} x {}", sizes.rows, sizes.width));
    auto const count = sizes.rows * sizes.width;
    auto const values = this->random.reals(count, -1.0F, 3.0F);
    auto const gradients = this->random.reals(count);
    auto const weights = this->random.reals(sizes.width);
    auto const input = this->upload(values);
    auto const statistics = this->statistics(sizes, input);
    auto const weight = this->upload(weights);
    auto const gradient = this->upload(gradients);
    auto const workspace = this->workspace(
        batch_norm_gradient_workspace_bytes(this->stream(), sizes.rows, sizes.width));
    auto const of_input = this->guarded(count);
    auto const of_weight = this->guarded(sizes.width);
    auto const of_bias = this->guarded(sizes.width);
    batch_norm_gradient(this->stream(),
                        {input.data(),
                         weight.data(),
                         statistics.of_batch.data(),
                         gradient.data(),
                         sizes.rows,
                         sizes.width,
                         workspace.data(),
                         of_input.data(),
                         of_weight.data(),
                         of_bias.data()});
    Columns64 const columns(sizes, values);
    Float64s weight_sums(static_cast<std::size_t>(sizes.width), 0.0);
    Float64s bias_sums(static_cast<std::size_t>(sizes.width), 0.0);
    (void)this->each(sizes, [&](std::size_t i, std::size_t c) {
      weight_sums[c] += gradients[i] * columns.normal(c, values[i]);
      bias_sums[c] += gradients[i];
      return 0.0;
    });
    // Normalised elements have errors of a few units, which add up in the weight's gradient.
    expect_within(this->read(of_weight), weight_sums, 1e-5);
    expect_within(this->read(of_bias), bias_sums);
    double const n = static_cast<double>(sizes.rows);
    expect_within(this->read(of_input),
                  this->each(sizes,
                             [&](std::size_t i, std::size_t c) {
                               return weights[c] * columns.reciprocal(c) *
                                      (gradients[i] - bias_sums[c] / n -
                                       columns.normal(c, values[i]) * weight_sums[c] / n);
                             }),
                  1e-5);
  }
}

TYPED_TEST(BatchNormTest, gates_agree_with_double) {
  for (auto const& sizes : kMatrices) {
    for (auto const kind : {Gate::prelu, Gate::dice}) {
      for (bool const one_weight : {false, true}) {
        SCOPED_TRACE(fmt::format(
            "{} x {}, dice {}, one {}", sizes.rows, sizes.width, kind == Gate::dice, one_weight));
        auto const count = sizes.rows * sizes.width;
        auto const values = this->random.reals(count, -2.0F, 2.0F);
        auto const gradients = this->random.reals(count);
        auto const weights = this->random.reals(one_weight ? 1 : sizes.width);
        auto const input = this->upload(values);
        auto const statistics = this->statistics(sizes, input);
        auto const weight = this->upload(weights);
        auto const gradient = this->upload(gradients);
        // Outputs of rows of an even width that do not begin at multiples of 8 bytes, too.
        std::int64_t const offset = one_weight ? 1 : 0;
        auto const output = this->guarded(count, offset);
        gate(this->stream(),
             {kind,
              input.data(),
              weight.data(),
              one_weight,
              {statistics.of_batch.data(), nullptr, nullptr, 0.0F},
              output.data(),
              sizes.rows,
              sizes.width});
        Columns64 const columns(sizes, values);
        auto const weight_of = [&](std::size_t c) { return double{weights[one_weight ? 0 : c]}; };
        auto const open = [&](std::size_t i, std::size_t c) {
          return kind == Gate::prelu ? (values[i] > 0 ? 1.0 : 0.0)
                                     : 1 / (1 + std::exp(-columns.normal(c, values[i])));
        };
        expect_within(this->read(output),
                      this->each(sizes,
                                 [&](std::size_t i, std::size_t c) {
                                   double const g = open(i, c);
                                   return values[i] * (g + weight_of(c) * (1 - g));
                                 }),
                      2e-6);

        auto const workspace =
            this->workspace(gate_gradient_workspace_bytes(this->stream(), sizes.rows, sizes.width));
        auto const of_input = this->guarded(count, offset);
        auto const of_weight = this->guarded(one_weight ? 1 : sizes.width);
        gate_gradient(this->stream(),
                      {kind,
                       input.data(),
                       weight.data(),
                       one_weight,
                       statistics.of_batch.data(),
                       gradient.data(),
                       sizes.rows,
                       sizes.width,
                       workspace.data(),
                       of_input.data(),
                       of_weight.data()});
        Float64s weight_sums(weights.size(), 0.0);
        Float64s sums(columns.means.size(), 0.0);
        Float64s products(columns.means.size(), 0.0);
        auto const of_normal = [&](std::size_t i, std::size_t c) {
          double const g = open(i, c);
          return kind == Gate::dice
                     ? double{gradients[i]} * values[i] * (1 - weight_of(c)) * g * (1 - g)
                     : 0.0;
        };
        (void)this->each(sizes, [&](std::size_t i, std::size_t c) {
          weight_sums[one_weight ? 0 : c] += double{gradients[i]} * values[i] * (1 - open(i, c));
          sums[c] += of_normal(i, c);
          products[c] += of_normal(i, c) * columns.normal(c, values[i]);
          return 0.0;
        });
        expect_within(this->read(of_weight), weight_sums, 1e-5);
        double const n = static_cast<double>(sizes.rows);
        expect_within(this->read(of_input),
                      this->each(sizes,
                                 [&](std::size_t i, std::size_t c) {
                                   double const g = open(i, c);
                                   double const through =
                                       columns.reciprocal(c) *
                                       (of_normal(i, c) - sums[c] / n -
                                        columns.normal(c, values[i]) * products[c] / n);
                                   return gradients[i] * (g + weight_of(c) * (1 - g)) +
                                          (kind == Gate::dice ? through : 0.0);
                                 }),
                      1e-5);
      }
    }
  }
}

// On a GPU, threads that have two columns need rows that begin at multiples of 8 bytes.
TYPED_TEST(BatchNormTest, matrices_at_any_address_agree_with_double) {
  for (auto const& sizes : {MatrixSizes{31, 4}, {300, 128}, {8192, 2}}) {
    auto const count = sizes.rows * sizes.width;
    auto const values = this->random.reals(count, -1.0F, 3.0F);
    Columns64 const expected(sizes, values);
    auto const ones = this->upload(std::vector<float>(expected.means.size(), 1.0F));
    auto const zeros = this->upload(std::vector<float>(expected.means.size(), 0.0F));
    for (std::int64_t offset = 0; offset < 4; ++offset) {
      SCOPED_TRACE(fmt::format("{} x {} from {}", sizes.rows, sizes.width, offset));
      std::vector<float> moved(static_cast<std::size_t>(offset), 1e6F);
      moved.insert(moved.end(), values.begin(), values.end());
      auto const input = this->upload(moved).slice(offset, count);
      auto const statistics = this->statistics(sizes, input);
      auto const output = this->guarded(count, offset);
      batch_norm(this->stream(),
                 {input.data(),
                  ones.data(),
                  zeros.data(),
                  {statistics.of_batch.data(), nullptr, nullptr, 0.0F},
                  output.data(),
                  sizes.rows,
                  sizes.width});
      expect_within(
          this->read(output),
          this->each(sizes,
                     [&](std::size_t i, std::size_t c) { return expected.normal(c, values[i]); }),
          2e-6);
    }
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
