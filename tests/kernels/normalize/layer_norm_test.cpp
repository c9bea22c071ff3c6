// SPDX-License-Identifier: Apache-2.0
#include "normalize/layer_norm.hpp"

#include "kernels/expect_within.hpp"
#include "kernels/kernel_fixture.hpp"

#include <fmt/core.h>

#include <cmath>

namespace msstream::ops::kernels::testing {
namespace {

constexpr float kNormEpsilon = 1e-3F;
/// Widths of rows that take a few lanes, a warp with one to 32 elements per lane, or a block whose
/// threads add one part of each sum or several.
constexpr std::int64_t kNormWidths[] = {
    1,   2,   3,   5,   9,   16,  17,   31,   32,   33,   63,   64,   65,   100,  127,
    129, 200, 255, 257, 500, 513, 1023, 1024, 1025, 3000, 4097, 8191, 8192, 8193, 20'000};

/// A random layer norm problem and its results in double.
struct LayerNormCase {
  std::int64_t rows;
  std::int64_t width;
  std::vector<float> input;
  std::vector<float> weight;
  std::vector<float> bias;
  std::vector<float> output_gradient;
  std::vector<double> means;
  std::vector<double> reciprocals;
  std::vector<double> output;
  std::vector<double> input_gradient;
  /// How large an error of one part in all intermediate values makes that of the input gradient.
  std::vector<double> input_gradient_scale;
  std::vector<double> weight_gradient;
  std::vector<double> bias_gradient;
};

template <class Stream>
class LayerNormTest : public KernelTest<Stream> {
 protected:
  /// Returns a layer norm problem whose elements differ from `centre` by at most 2.
  LayerNormCase random_case(std::int64_t rows, std::int64_t width, float centre = 1.0F) {
    LayerNormCase made{rows,
                       width,
                       this->random.reals(rows * width, centre - 2, centre + 2),
                       this->random.reals(width),
                       this->random.reals(width),
                       this->random.reals(rows * width),
                       {},
                       {},
                       {},
                       {},
                       {},
                       std::vector<double>(static_cast<std::size_t>(width), 0.0),
                       std::vector<double>(static_cast<std::size_t>(width), 0.0)};
    auto const columns = static_cast<std::size_t>(width);
    auto const n = static_cast<double>(width);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
      float const* const x = made.input.data() + row * columns;
      float const* const dy = made.output_gradient.data() + row * columns;
      double mean = 0;
      double variance = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        mean += x[c] / n;
      }
      for (std::size_t c = 0; c < columns; ++c) {
        variance += (x[c] - mean) * (x[c] - mean) / n;
      }
      double const reciprocal = 1 / std::sqrt(variance + double{kNormEpsilon});
      double sum = 0;
      double weighted = 0;
      double magnitude = 0;
      double weighted_magnitude = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        double const normal = (x[c] - mean) * reciprocal;
        made.output.push_back(normal * made.weight[c] + made.bias[c]);
        made.weight_gradient[c] += dy[c] * normal;
        made.bias_gradient[c] += dy[c];
        sum += double{dy[c]} * made.weight[c] / n;
        weighted += double{dy[c]} * made.weight[c] * normal / n;
        magnitude += std::abs(double{dy[c]} * made.weight[c]) / n;
        weighted_magnitude += std::abs(double{dy[c]} * made.weight[c] * normal) / n;
      }
      for (std::size_t c = 0; c < columns; ++c) {
        double const normal = (x[c] - mean) * reciprocal;
        made.input_gradient.push_back(reciprocal *
                                      (double{dy[c]} * made.weight[c] - sum - normal * weighted));
        // A mean that is rounded moves `normal` by its rounding error times the reciprocal.
        made.input_gradient_scale.push_back(
            reciprocal *
            (std::abs(double{dy[c]} * made.weight[c]) + magnitude +
             std::abs(normal) * weighted_magnitude +
             reciprocal * std::abs(mean) * (std::abs(weighted) + std::abs(normal) * magnitude)));
      }
      made.means.push_back(mean);
      made.reciprocals.push_back(reciprocal);
    }
    return made;
  }
  static std::vector<float> in_float(std::vector<double> const& values) {
    return {values.begin(), values.end()};
  }
};
TYPED_TEST_SUITE(LayerNormTest, StreamKinds, StreamKindName);

TYPED_TEST(LayerNormTest, forward_agrees_with_double_also_in_place) {
  for (auto const width : kNormWidths) {
    for (std::int64_t const rows : {0, 1, 67}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, width));
      auto const made = this->random_case(rows, width);
      auto const input = this->upload(made.input);
      auto const weight = this->upload(made.weight);
      auto const bias = this->upload(made.bias);
      auto const output = this->floats(rows * width);
      auto const means = this->floats(rows);
      auto const reciprocals = this->floats(rows);
      for (auto* const target : {output.data(), input.data()}) {
        layer_norm(this->stream(),
                   {input.data(),
                    weight.data(),
                    bias.data(),
                    target,
                    means.data(),
                    reciprocals.data(),
                    rows,
                    width,
                    kNormEpsilon});
      }
      expect_within(this->read(output), made.output, 5e-6);
      expect_within(this->read(input), made.output, 5e-6);
      expect_within(this->read(means), made.means, 5e-6);
      expect_within(this->read(reciprocals), made.reciprocals, 5e-6);
    }
  }
}

TYPED_TEST(LayerNormTest, a_small_variance_beside_a_large_mean_is_not_lost) {
  // The input has a mean so large that a variance computed from the mean of squares would be 0 or
  // negative.
  auto const input = this->upload(std::vector{10'000.0F, 10'001.0F, 10'002.0F, 10'001.0F});
  auto const ones = this->upload(std::vector<float>(4, 1.0F));
  auto const zeros = this->upload(std::vector<float>(4, 0.0F));
  auto const output = this->floats(4);
  auto const means = this->floats(1);
  auto const reciprocals = this->floats(1);
  layer_norm(this->stream(),
             {input.data(),
              ones.data(),
              zeros.data(),
              output.data(),
              means.data(),
              reciprocals.data(),
              1,
              4,
              0.0F});
  double const root = std::sqrt(2.0);
  expect_within(this->read(output), {-root, 0, root, 0});
}

TYPED_TEST(LayerNormTest, input_gradient_agrees_with_double) {
  for (auto const width : kNormWidths) {
    for (std::int64_t const rows : {0, 1, 67}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, width));
      auto const made = this->random_case(rows, width);
      auto const input = this->upload(made.input);
      auto const weight = this->upload(made.weight);
      auto const means = this->upload(this->in_float(made.means));
      auto const reciprocals = this->upload(this->in_float(made.reciprocals));
      auto const output_gradient = this->upload(made.output_gradient);
      auto const gradient = this->floats(rows * width);
      layer_norm_input_gradient(this->stream(),
                                {input.data(),
                                 weight.data(),
                                 means.data(),
                                 reciprocals.data(),
                                 output_gradient.data(),
                                 gradient.data(),
                                 rows,
                                 width});
      auto const actual = this->read(gradient);
      for (std::size_t i = 0; i < actual.size(); ++i) {
        ASSERT_NEAR(actual[i], made.input_gradient[i], 1e-6 * made.input_gradient_scale[i])
            << "element " << i;
      }
    }
  }
}

TYPED_TEST(LayerNormTest, parameter_gradients_agree_with_double_and_are_the_same_in_every_run) {
  for (std::int64_t const width : {1, 3, 32, 33, 100}) {
    for (std::int64_t const rows : {0, 1, 7, 63, 64, 65, 1000, 20'000}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, width));
      auto const made = this->random_case(rows, width);
      auto const input = this->upload(made.input);
      auto const means = this->upload(this->in_float(made.means));
      auto const reciprocals = this->upload(this->in_float(made.reciprocals));
      auto const output_gradient = this->upload(made.output_gradient);
      std::vector<float> before;
      for (int run = 0; run < 2; ++run) {
        auto const workspace =
            this->workspace(layer_norm_workspace_bytes(this->stream(), rows, width));
        auto const weights = this->floats(width);
        auto const biases = this->floats(width);
        layer_norm_parameter_gradient(this->stream(),
                                      {input.data(),
                                       means.data(),
                                       reciprocals.data(),
                                       output_gradient.data(),
                                       rows,
                                       width,
                                       workspace.data(),
                                       weights.data(),
                                       biases.data()});
        auto const weight_gradient = this->read(weights);
        // The error of a sum of up to 20,000 terms of either sign is relative to their magnitudes.
        expect_within(weight_gradient, made.weight_gradient, 1e-3);
        expect_within(this->read(biases), made.bias_gradient, 1e-3);
        if (run > 0) {
          EXPECT_EQ(weight_gradient, before);
        }
        before = weight_gradient;
      }
    }
  }
}

TYPED_TEST(LayerNormTest, all_gradients_at_once_are_those_computed_one_by_one) {
  // The widths are those of rows that lanes or a block share, in vectors or column by column, and
  // of rows that are too long for registers.
  for (std::int64_t const width : {1, 3, 16, 100, 256, 257, 264, 1028, 4095, 8192, 8193}) {
    for (std::int64_t const rows : {0, 1, 67, 300}) {
      SCOPED_TRACE(fmt::format("{} rows of {}", rows, width));
      auto const made = this->random_case(rows, width);
      auto const input = this->upload(made.input);
      auto const weight = this->upload(made.weight);
      auto const means = this->upload(this->in_float(made.means));
      auto const reciprocals = this->upload(this->in_float(made.reciprocals));
      auto const output_gradient = this->upload(made.output_gradient);
      auto const workspace =
          this->workspace(layer_norm_workspace_bytes(this->stream(), rows, width));
      auto const weights = this->floats(width);
      auto const biases = this->floats(width);
      auto const gradient = this->floats(rows * width);
      LayerNormParameterGradientArgs args{input.data(),
                                          means.data(),
                                          reciprocals.data(),
                                          output_gradient.data(),
                                          rows,
                                          width,
                                          workspace.data(),
                                          weights.data(),
                                          biases.data()};
      layer_norm_gradient(this->stream(), args, weight.data(), gradient.data());
      expect_within(this->read(weights), made.weight_gradient, 1e-4);
      expect_within(this->read(biases), made.bias_gradient, 1e-4);
      auto const weights_alone = this->floats(width);
      auto const biases_alone = this->floats(width);
      auto const gradient_alone = this->floats(rows * width);
      args.weight_gradient = weights_alone.data();
      args.bias_gradient = biases_alone.data();
      layer_norm_parameter_gradient(this->stream(), args);
      layer_norm_input_gradient(this->stream(),
                                {input.data(),
                                 weight.data(),
                                 means.data(),
                                 reciprocals.data(),
                                 output_gradient.data(),
                                 gradient_alone.data(),
                                 rows,
                                 width});
      EXPECT_EQ(this->read(weights_alone), this->read(weights));
      EXPECT_EQ(this->read(biases_alone), this->read(biases));
      EXPECT_EQ(this->read(gradient_alone), this->read(gradient));
    }
  }
}

TYPED_TEST(LayerNormTest, rows_at_any_address_have_the_same_results) {
  for (std::int64_t const width : {1, 3, 16, 33, 128, 257, 1000, 4096}) {
    SCOPED_TRACE(width);
    constexpr std::int64_t kRows = 67;
    auto const made = this->random_case(kRows, width);
    // Begins one element after the beginning of a buffer.
    auto const shifted = [&](std::vector<float> const& values) {
      std::vector<float> longer{0.0F};
      longer.insert(longer.end(), values.begin(), values.end());
      return this->upload(longer);
    };
    auto const input = shifted(made.input);
    auto const output_gradient = shifted(made.output_gradient);
    auto const weight = this->upload(made.weight);
    auto const bias = this->upload(made.bias);
    auto const output = this->guarded(kRows * width, 1);
    auto const gradient = this->guarded(kRows * width, 1);
    auto const means = this->floats(kRows);
    auto const reciprocals = this->floats(kRows);
    auto const weights = this->floats(width);
    auto const biases = this->floats(width);
    auto const workspace =
        this->workspace(layer_norm_workspace_bytes(this->stream(), kRows, width));
    layer_norm(this->stream(),
               {input.data() + 1,
                weight.data(),
                bias.data(),
                output.data(),
                means.data(),
                reciprocals.data(),
                kRows,
                width,
                kNormEpsilon});
    layer_norm_gradient(this->stream(),
                        {input.data() + 1,
                         means.data(),
                         reciprocals.data(),
                         output_gradient.data() + 1,
                         kRows,
                         width,
                         workspace.data(),
                         weights.data(),
                         biases.data()},
                        weight.data(),
                        gradient.data());
    expect_within(this->read(output), made.output, 5e-6);
    auto const actual = this->read(gradient);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], made.input_gradient[i], 3e-6 * made.input_gradient_scale[i])
          << "element " << i;
    }
    expect_within(this->read(weights), made.weight_gradient, 1e-4);
    expect_within(this->read(biases), made.bias_gradient, 1e-4);
  }
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
