// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <algorithm>
#include <cmath>

namespace msstream::testing {
namespace {

/// The columns of a matrix, normalised by the means and variances of the rows with a mark above 0.
/// Without marks all rows have one.
Doubles normalised(Doubles const& x, std::size_t width, double epsilon, Floats const& marks = {}) {
  Doubles out(x.size());
  auto const counts = [&](std::size_t i) { return marks.empty() || marks[i / width] > 0 ? 1 : 0; };
  for (std::size_t c = 0; c < width; ++c) {
    double rows = 0;
    double mean = 0;
    double variance = 0;
    for (std::size_t i = c; i < x.size(); i += width) {
      rows += counts(i);
      mean += x[i] * counts(i);
    }
    mean /= rows;
    for (std::size_t i = c; i < x.size(); i += width) {
      variance += (x[i] - mean) * (x[i] - mean) / rows * counts(i);
    }
    for (std::size_t i = c; i < x.size(); i += width) {
      out[i] = (x[i] - mean) / std::sqrt(variance + epsilon);
    }
  }
  return out;
}
Doubles dice_of(Doubles const& x,
                Doubles const& weight,
                std::size_t width,
                double epsilon,
                Floats const& marks = {}) {
  auto out = normalised(x, width, epsilon, marks);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const p = 1 / (1 + std::exp(-out[i]));
    double const w = weight[weight.size() == 1 ? 0 : i % width];
    out[i] = x[i] * (p + w * (1 - p));
  }
  return out;
}

constexpr float kStatisticsEpsilon = 0.25F;

template <class R>
class DifferentiableActivationTest : public GradientTest<R> {
 protected:
  using Input = Tensor<float, R>;

  /// Compares gradients at elements with magnitudes in [0.1, 2], half of them negative.
  void check(auto op, double (*function)(double)) {
    this->expect_gradient(away_from_zero(20), {5, 4}, op, [function](Doubles x) {
      std::ranges::transform(x, x.begin(), function);
      return x;
    });
  }
  Floats away_from_zero(std::int64_t count) {
    auto values = this->random.reals(count, 0.1F, 2.0F);
    for (std::size_t i = 0; i < values.size(); i += 2) {
      values[i] = -values[i];
    }
    return values;
  }
  [[nodiscard]] ops::RunningStatistics<R> running(std::size_t width) const {
    return {this->put(Floats(width, 0.0F)), this->put(Floats(width, 1.0F))};
  }
};
TYPED_TEST_SUITE(DifferentiableActivationTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableActivationTest, functions_of_each_element) {
  this->check([](auto& tape, auto const& x) { return ops::tanh(tape, x); },
              [](double x) { return std::tanh(x); });
  this->check([](auto& tape, auto const& x) { return ops::gelu(tape, x); },
              [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); });
  this->check([](auto& tape, auto const& x) { return ops::gelu_tanh(tape, x); },
              [](double x) {
                double const u = std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
                return x * 0.5 * (1 + std::tanh(u));
              });
  this->check([](auto& tape, auto const& x) { return ops::silu(tape, x); },
              [](double x) { return x / (1 + std::exp(-x)); });
  this->check([](auto& tape, auto const& x) { return ops::add_scalar(tape, x, 0.75F); },
              [](double x) { return x + 0.75; });
  this->check([](auto& tape, auto const& x) { return ops::clamp(tape, x, -3.0F, 0.05F); },
              [](double x) { return std::clamp(x, -3.0, 0.05F + 0.0); });
}

TYPED_TEST(DifferentiableActivationTest, prelu_by_input_and_weight) {
  auto const x = this->away_from_zero(5 * 3);
  for (std::int64_t const weights : {1, 3}) {
    auto const weight = this->random.reals(weights);
    auto const reference = [](Doubles const& values, Doubles const& slopes) {
      Doubles out;
      for (std::size_t i = 0; i < values.size(); ++i) {
        double const slope = slopes[slopes.size() == 1 ? 0 : i % 3];
        out.push_back(values[i] > 0 ? values[i] : slope * values[i]);
      }
      return out;
    };
    this->expect_gradient(
        x,
        {5, 3},
        [&](auto& tape, auto const& in) { return ops::prelu(tape, in, this->put(weight)); },
        [&](Doubles const& in) { return reference(in, to_doubles(weight)); });
    this->expect_gradient(
        weight,
        {weights},
        [&](auto& tape, auto const& in) {
          return ops::prelu(tape, this->put(x, {5, 3}), in);
        },
        [&](Doubles const& in) { return reference(to_doubles(x), in); });
  }
}

TYPED_TEST(DifferentiableActivationTest, dice_by_input_and_weight) {
  auto const x = this->random.reals(7 * 3);
  ops::BatchNormOptions<TypeParam> const options{.epsilon = kStatisticsEpsilon};
  for (std::int64_t const weights : {1, 3}) {
    auto const weight = this->random.reals(weights);
    this->expect_gradient(
        x,
        {7, 3},
        [&](auto& tape, auto const& in) {
          return ops::dice(tape, in, this->put(weight), this->running(3), options);
        },
        [&](Doubles const& in) {
          return dice_of(in, to_doubles(weight), 3, double{kStatisticsEpsilon});
        });
    this->expect_gradient(
        weight,
        {weights},
        [&](auto& tape, auto const& in) {
          return ops::dice(tape, this->put(x, {7, 3}), in, this->running(3), options);
        },
        [&](Doubles const& in) {
          return dice_of(to_doubles(x), in, 3, double{kStatisticsEpsilon});
        });
  }
}

TYPED_TEST(DifferentiableActivationTest, batch_norm_by_each_operand) {
  auto const x = this->random.reals(7 * 3);
  auto const weight = this->random.reals(3);
  auto const bias = this->random.reals(3);
  ops::BatchNormOptions<TypeParam> const options{.epsilon = kStatisticsEpsilon};
  auto const reference = [](Doubles const& values, Doubles const& weights, Doubles const& biases) {
    auto out = normalised(values, 3, double{kStatisticsEpsilon});
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = out[i] * weights[i % 3] + biases[i % 3];
    }
    return out;
  };
  auto const op = [&](auto& tape, auto const& in, auto const& weights, auto const& biases) {
    return ops::batch_norm(tape, in, weights, biases, this->running(3), options);
  };
  this->expect_gradient(
      x,
      {7, 3},
      [&](auto& tape, auto const& in) { return op(tape, in, this->put(weight), this->put(bias)); },
      [&](Doubles const& in) { return reference(in, to_doubles(weight), to_doubles(bias)); });
  this->expect_gradient(
      weight,
      {3},
      [&](auto& tape, auto const& in) {
        return op(tape, this->put(x, {7, 3}), in, this->put(bias));
      },
      [&](Doubles const& in) { return reference(to_doubles(x), in, to_doubles(bias)); });
  this->expect_gradient(
      bias,
      {3},
      [&](auto& tape, auto const& in) {
        return op(tape, this->put(x, {7, 3}), this->put(weight), in);
      },
      [&](Doubles const& in) { return reference(to_doubles(x), to_doubles(weight), in); });
}

TYPED_TEST(DifferentiableActivationTest, rows_that_do_not_count_have_gradients_of_their_own_alone) {
  auto const x = this->random.reals(7 * 3);
  auto const weight = this->random.reals(3);
  Floats const marks{1, 0, 1, 1, 0, 1, 0};
  ops::BatchNormOptions<TypeParam> const options{.epsilon = kStatisticsEpsilon,
                                                 .mask = this->put(marks, {7, 1})};
  this->expect_gradient(
      x,
      {7, 3},
      [&](auto& tape, auto const& in) {
        auto const ones = this->put(Floats(3, 1.0F));
        return ops::batch_norm(tape, in, ones, ones, this->running(3), options);
      },
      [&](Doubles const& in) {
        auto out = normalised(in, 3, double{kStatisticsEpsilon}, marks);
        std::ranges::transform(out, out.begin(), [](double n) { return n + 1; });
        return out;
      });
  this->expect_gradient(
      x,
      {7, 3},
      [&](auto& tape, auto const& in) {
        return ops::dice(tape, in, this->put(weight), this->running(3), options);
      },
      [&](Doubles const& in) {
        return dice_of(in, to_doubles(weight), 3, double{kStatisticsEpsilon}, marks);
      });
}

TYPED_TEST(DifferentiableActivationTest, l2_normalize) {
  this->expect_gradient(
      {4, 5},
      [](auto& tape, auto const& in) { return ops::l2_normalize(tape, in); },
      [](Doubles const& x) {
        Doubles out;
        for (std::size_t first = 0; first < x.size(); first += 5) {
          double squares = 0;
          for (std::size_t c = first; c < first + 5; ++c) {
            squares += x[c] * x[c];
          }
          for (std::size_t c = first; c < first + 5; ++c) {
            out.push_back(x[c] / std::sqrt(squares));
          }
        }
        return out;
      });
}

TYPED_TEST(DifferentiableActivationTest, dot_interaction_by_both_operands) {
  constexpr std::size_t kWide = 3;
  auto const dense = this->random.reals(2 * 3);
  auto const embeddings = this->random.reals(2 * 6);
  auto const reference = [](Doubles const& of_dense, Doubles const& of_features) {
    Doubles out;
    for (std::size_t s = 0; s < 2; ++s) {
      double const* const vectors[] = {of_dense.data() + s * kWide,
                                       of_features.data() + 2 * s * kWide,
                                       of_features.data() + (2 * s + 1) * kWide};
      out.insert(out.end(), vectors[0], vectors[0] + kWide);
      for (std::size_t i = 1; i < 3; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          double sum = 0;
          for (std::size_t c = 0; c < kWide; ++c) {
            sum += vectors[i][c] * vectors[j][c];
          }
          out.push_back(sum);
        }
      }
    }
    return out;
  };
  this->expect_gradient(
      dense,
      {2, 3},
      [&](auto& tape, auto const& in) {
        return ops::dot_interaction(tape, in, this->put(embeddings, {2, 2, 3}));
      },
      [&](Doubles const& in) { return reference(in, to_doubles(embeddings)); });
  this->expect_gradient(
      embeddings,
      {2, 6},
      [&](auto& tape, auto const& in) {
        return ops::dot_interaction(tape, this->put(dense, {2, 3}), in);
      },
      [&](Doubles const& in) { return reference(to_doubles(dense), in); });
}

TYPED_TEST(DifferentiableActivationTest, dropout_even_if_the_generator_was_advanced) {
  RandomGenerator random(this->device(), {.seed = 5});
  auto const x = this->random.reals(11 * 7);
  ops::DropoutOptions const options{.rate = 0.4F};
  auto const kept =
      to_host(ops::dropout(this->put(Floats(11 * 7, 1.0F), {11, 7}), options, random, "a").output);
  this->expect_gradient(
      x,
      {11, 7},
      [&](auto& tape, auto const& in) {
        auto const dropped = ops::dropout(tape, in, options, random, "a");
        random.advance();
        return dropped;
      },
      [&](Doubles values) {
        for (std::size_t i = 0; i < values.size(); ++i) {
          values[i] *= kept[i];
        }
        return values;
      });
}

TYPED_TEST(DifferentiableActivationTest, evaluation_drops_nothing_and_leaves_running_statistics) {
  RandomGenerator random(this->device());
  auto const running = this->running(3);
  auto const x = this->random_tensor({4, 3});
  auto const ones = this->put(Floats(3, 1.0F));
  GradientTape tape(this->device());
  auto const expect_evaluation = [&](auto& on) {
    EXPECT_EQ(ops::dropout(on, x, {.rate = 0.5F}, random, "a").data(), x.data());
    EXPECT_EQ(to_host(ops::batch_norm(on, x, ones, ones, running)),
              to_host(ops::batch_norm_inference(x, ones, ones, running)));
    EXPECT_EQ(to_host(ops::dice(on, x, ones, running)),
              to_host(ops::dice_inference(x, ones, running)));
    EXPECT_EQ(to_host(running.mean), Floats(3, 0.0F));
    EXPECT_EQ(to_host(running.variance), Floats(3, 1.0F));
  };
  expect_evaluation(no_tape);
  {
    typename GradientTape<TypeParam>::Pause const pause(tape);
    expect_evaluation(tape);
  }
  expect_refused([&] { (void)ops::dropout(no_tape, x, {.rate = 2.0F}, random, "a"); }, "rate of 2");
}

}  // namespace
}  // namespace msstream::testing
