// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/step/dense_stack.hpp>
#include <msstream/step/differentiable_ops.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace msstream::testing {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

/// Computes the weighted binary cross-entropy of one element.
double weighted_bce_of(double x, double label, double positive, double weight) {
  return weight *
         (positive * label * std::log1p(std::exp(-x)) + (1 - label) * std::log1p(std::exp(x)));
}

/// Computes the mean of function(i) over n elements.
template <class Function>
Doubles mean_over(std::size_t n, Function const& function) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += function(i);
  }
  return {sum / static_cast<double>(n)};
}

/// Computes the smoothed cross-entropy of each row, 0 for a class that is not one, divided by
/// `divisor`.
Doubles cross_entropy_of(
    Doubles const& x, std::size_t columns, Integers const& classes, double smoothing, double by) {
  double sum = 0;
  for (std::size_t row = 0; row < classes.size(); ++row) {
    if (classes[row] < 0 || classes[row] >= static_cast<std::int64_t>(columns)) {
      continue;
    }
    double exponentials = 0;
    for (std::size_t c = 0; c < columns; ++c) {
      exponentials += std::exp(x[columns * row + c]);
    }
    for (std::size_t c = 0; c < columns; ++c) {
      double const target = smoothing / static_cast<double>(columns) +
                            (static_cast<std::int64_t>(c) == classes[row] ? 1 - smoothing : 0);
      sum += target * (std::log(exponentials) - x[columns * row + c]);
    }
  }
  return {sum / by};
}

template <class R>
class DifferentiableLossesTest : public GradientTest<R> {
 protected:
  using Of = std::function<Tensor<float, R>(GradientTape<R>&, Tensor<float, R> const&)>;

  /// Returns random multiples of 1 / 8, less 1 / 16: no difference of a hinge is near 0.
  Floats between_kinks(std::int64_t count) {
    Floats values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<float>(this->random.integer(-20, 20)) / 8.0F + 0.0625F);
    }
    return values;
  }
  Floats classes_of_two(std::int64_t count) {
    Floats labels;
    for (std::int64_t i = 0; i < count; ++i) {
      labels.push_back(static_cast<float>(this->random.integer(0, 1)));
    }
    return labels;
  }
  /// Compares the value of a loss and the tape's gradient with a reference.
  template <class Loss>
  void expect_loss(Floats const& values,
                   Shape const& shape,
                   Loss const& loss,
                   std::function<Doubles(Doubles const&)> const& reference) {
    auto const expected = reference(to_doubles(values));
    expect_near(to_host(loss(no_tape, this->put(values, shape))), expected);
    this->expect_gradient(values, shape, loss, reference);
  }
};
TYPED_TEST_SUITE(DifferentiableLossesTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableLossesTest, bce_with_weights_of_examples_and_of_positives) {
  for (std::int64_t const rows : {1, 7, 33, 257}) {
    for (std::int64_t const columns : {1, 3}) {
      auto const count = static_cast<std::size_t>(rows * columns);
      auto const values = this->random.reals(rows * columns, -2.0F, 2.0F);
      auto const labels = this->random.reals(rows * columns, 0.0F, 1.0F);
      for (Shape const& of_weights : {Shape{rows, columns}, Shape{rows, 1}, Shape{rows}}) {
        auto const weights = this->random.reals(of_weights.count(), 0.0F, 1.0F);
        auto const each = count / weights.size();
        auto const loss = [&](auto& tape, auto const& x) {
          return ops::mean_bce_with_logits(
              tape,
              x,
              this->put(labels, {rows, columns}),
              {.weight = this->put(weights, of_weights), .pos_weight = 2.5F});
        };
        this->expect_loss(values, {rows, columns}, loss, [&](Doubles const& x) {
          return mean_over(count, [&](std::size_t i) {
            return weighted_bce_of(x[i], labels[i], 2.5, weights[i / each]);
          });
        });
      }
    }
  }
  // The losses of the elements themselves.
  Floats const labels{0, 1, 0.25F, 1};
  auto const each = [&](auto& tape, auto const& x) {
    return ops::bce_with_logits(tape, x, this->put(labels, {4}), {.pos_weight = 0.5F});
  };
  this->expect_loss(this->random.reals(4), {4}, each, [&](Doubles x) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = weighted_bce_of(x[i], labels[i], 0.5, 1.0);
    }
    return x;
  });
}

TYPED_TEST(DifferentiableLossesTest, a_weighted_mean_is_divided_by_the_sum_of_weights) {
  for (Shape const& of_weights : {Shape{9, 3}, Shape{9}}) {
    auto const values = this->random.reals(27, -2.0F, 2.0F);
    auto const labels = this->random.reals(27, 0.0F, 1.0F);
    auto weights = this->random.reals(of_weights.count(), 0.1F, 2.0F);
    weights[1] = 0;
    auto const each = 27 / weights.size();
    ops::LossOptions<TypeParam> const options{.weight = this->put(weights, of_weights),
                                              .reduction = ops::LossReduction::weighted_mean};
    double all = 0;
    for (float const weight : weights) {
      all += weight * static_cast<double>(each);
    }
    auto const mean = [&](Doubles const& x, auto const& of_element) {
      double sum = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        sum += weights[i / each] * of_element(x[i], static_cast<double>(labels[i]));
      }
      return Doubles{sum / all};
    };
    this->expect_loss(
        values,
        {9, 3},
        [&](auto& tape, auto const& x) {
          return ops::mean_bce_with_logits(tape, x, this->put(labels, {9, 3}), options);
        },
        [&](Doubles const& x) {
          return mean(
              x, [](double logit, double label) { return weighted_bce_of(logit, label, 1, 1); });
        });
    this->expect_loss(
        values,
        {9, 3},
        [&](auto& tape, auto const& x) {
          return ops::mse_loss(tape, x, this->put(labels, {9, 3}), options);
        },
        [&](Doubles const& x) {
          return mean(x, [](double p, double target) { return (p - target) * (p - target); });
        });
  }
}

TYPED_TEST(DifferentiableLossesTest, a_weighted_mean_without_weight_is_0) {
  GradientTape tape(this->device());
  auto const x = this->put(Floats{1, 2}, {2, 1});
  auto const loss = ops::mse_loss(
      tape,
      x,
      this->put(Floats{0, 0}, {2, 1}),
      {.weight = this->put(Floats{0, 0}), .reduction = ops::LossReduction::weighted_mean});
  tape.backward(loss);
  EXPECT_EQ(to_host(loss), Floats{0});
  EXPECT_EQ(to_host(tape.gradient(x)), (Floats{0, 0}));
}

TYPED_TEST(DifferentiableLossesTest, a_weight_of_0_leaves_an_example_out) {
  auto const nan = std::nanf("");
  auto const result =
      ops::bce_with_logits(this->put(Floats{nan, 2, kInfinite, 2}, {4, 1}),
                           this->put(Floats{1, nan, 0, nan}, {4, 1}),
                           {.weight = this->put(Floats{0, 0, 0, 1}, {4}), .pos_weight = 3.0F});
  auto const losses = to_host(result.losses);
  auto const gradients = to_host(result.gradients);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(losses[i], 0.0F);
    EXPECT_EQ(gradients[i], 0.0F);
  }
  EXPECT_TRUE(std::isnan(losses[3]) && std::isnan(gradients[3]));
}

TYPED_TEST(DifferentiableLossesTest, infinite_logits_have_the_limit_with_weights_of_positives) {
  auto const result =
      ops::bce_with_logits(this->put(Floats{kInfinite, -kInfinite, kInfinite, -100}),
                           this->put(Floats{1, 0, 0, 1}),
                           {.pos_weight = 3.0F});
  EXPECT_EQ(to_host(result.losses), (Floats{0, 0, kInfinite, 300}));
  EXPECT_EQ(to_host(result.gradients), (Floats{0, 0, 1, -3}));
}

TYPED_TEST(DifferentiableLossesTest, squared_errors) {
  for (std::int64_t const count : {1, 31, 1025}) {
    auto const n = static_cast<std::size_t>(count);
    auto const targets = this->random.reals(count);
    auto const weights = this->random.reals(count, 0.0F, 1.0F);
    for (bool const weighted : {false, true}) {
      auto const loss = [&](auto& tape, auto const& x) {
        ops::LossOptions<TypeParam> options;
        if (weighted) {
          options.weight = this->put(weights, {count});
        }
        return ops::mse_loss(tape, x, this->put(targets, {count}), options);
      };
      this->expect_loss(this->random.reals(count), {count}, loss, [&](Doubles const& x) {
        return mean_over(n, [&](std::size_t i) {
          return (weighted ? weights[i] : 1.0) * std::pow(x[i] - targets[i], 2);
        });
      });
    }
  }
}

TYPED_TEST(DifferentiableLossesTest, hinge_loss) {
  for (std::int64_t const count : {1, 63, 257}) {
    auto const labels = this->classes_of_two(count);
    for (float const margin : {1.0F, 0.5F}) {
      auto const loss = [&](auto& tape, auto const& x) {
        return ops::hinge_loss(tape, x, this->put(labels, {count, 1}), margin);
      };
      this->expect_loss(this->between_kinks(count), {count, 1}, loss, [&](Doubles const& x) {
        return mean_over(x.size(), [&](std::size_t i) {
          return std::max(0.0, margin - (labels[i] > 0.5F ? x[i] : -x[i]));
        });
      });
    }
  }
  GradientTape tape(this->device());
  auto const bad = ops::hinge_loss(tape, this->put(Floats{1}), this->put(Floats{1.5F}));
  EXPECT_TRUE(std::isnan(to_host(bad)[0]));
}

TYPED_TEST(DifferentiableLossesTest, losses_of_pairs) {
  for (std::int64_t const batch : {1, 5, 33}) {
    for (std::int64_t const each : {1, 4}) {
      auto const pairs = static_cast<std::size_t>(batch * each);
      auto const repeats = static_cast<std::size_t>(each);
      auto const positives = this->between_kinks(batch);
      auto negatives = this->between_kinks(batch * each);
      for (auto& negative : negatives) {
        negative -= 0.03125F;
      }
      auto const expect_pairs = [&](auto const& loss, auto const& of_difference) {
        auto const of_positives = [&](auto& tape, auto const& x) {
          return loss(tape, x, this->put(negatives, {batch, each}));
        };
        this->expect_loss(positives, {batch, 1}, of_positives, [&](Doubles const& x) {
          return mean_over(
              pairs, [&](std::size_t i) { return of_difference(x[i / repeats] - negatives[i]); });
        });
        auto const of_negatives = [&](auto& tape, auto const& x) {
          return loss(tape, this->put(positives, {batch, 1}), x);
        };
        this->expect_loss(negatives, {batch, each}, of_negatives, [&](Doubles const& x) {
          return mean_over(
              pairs, [&](std::size_t i) { return of_difference(positives[i / repeats] - x[i]); });
        });
      };
      expect_pairs(
          [](auto& tape, auto const& p, auto const& n) { return ops::bpr_loss(tape, p, n); },
          [](double d) { return std::log1p(std::exp(-d)); });
      expect_pairs(
          [](auto& tape, auto const& p, auto const& n) {
            return ops::margin_ranking_loss(tape, p, n, 0.5F);
          },
          [](double d) { return std::max(0.0, 0.5 - d); });
    }
  }
}

TYPED_TEST(DifferentiableLossesTest, smoothed_and_ignored_classes) {
  for (std::int64_t const columns : {1, 3, 33, 1500}) {
    Integers const classes{0, columns - 1, -100, columns / 2, columns};  // the last is out of range
    auto const rows = static_cast<std::int64_t>(classes.size());
    for (float const smoothing : {0.0F, 0.1F, 1.0F}) {
      for (bool const ignores : {false, true}) {
        auto const loss = [&](auto& tape, auto const& x) {
          ops::CrossEntropyOptions<TypeParam> options{.label_smoothing = smoothing};
          if (ignores) {
            options.ignore_index = -100;
          }
          return ops::mean_softmax_cross_entropy(tape, x, this->put(classes), options);
        };
        auto const reference = [&](Doubles const& x) {
          return cross_entropy_of(
              x, static_cast<std::size_t>(columns), classes, smoothing, ignores ? 4.0 : 5.0);
        };
        auto const values = this->random.reals(rows * columns);
        if (columns < 100) {
          this->expect_loss(values, {rows, columns}, loss, reference);
        } else {
          expect_near(to_host(loss(no_tape, this->put(values, {rows, columns}))),
                      reference(to_doubles(values)));
        }
      }
    }
  }
}

TYPED_TEST(DifferentiableLossesTest, cross_entropies_of_rows_that_are_weighted_afterwards) {
  for (std::int64_t const columns : {1, 3, 33}) {
    Integers const classes{0, columns - 1, -100, columns / 2, columns};  // the last is out of range
    auto const rows = static_cast<std::int64_t>(classes.size());
    auto const factors = this->random.reals(rows);
    auto const weights = this->random.reals(rows, 0.5F, 2.0F);
    for (float const smoothing : {0.0F, 0.1F}) {
      auto const loss = [&](auto& tape, auto const& x) {
        auto const each = ops::softmax_cross_entropy(tape,
                                                     x,
                                                     this->put(classes),
                                                     {.ignore_index = -100,
                                                      .label_smoothing = smoothing,
                                                      .sample_weight = this->put(weights)});
        EXPECT_EQ(each.shape(), Shape{rows});
        return ops::sum(tape, ops::multiply(tape, each, this->put(factors)));
      };
      auto const reference = [&](Doubles const& x) {
        double sum = 0;
        for (std::size_t row = 0; row < classes.size(); ++row) {
          auto const first = x.begin() + static_cast<std::int64_t>(row) * columns;
          sum += double{factors[row]} * weights[row] *
                 cross_entropy_of(Doubles(first, first + columns),
                                  static_cast<std::size_t>(columns),
                                  {classes[row]},
                                  smoothing,
                                  1.0)[0];
        }
        return Doubles{sum};
      };
      this->expect_loss(this->random.reals(rows * columns), {rows, columns}, loss, reference);
    }
  }
}

TYPED_TEST(DifferentiableLossesTest, cross_entropies_of_no_rows) {
  auto const none = this->put(Floats{}, {0, 4});
  GradientTape tape(this->device());
  auto const each = ops::softmax_cross_entropy(tape, none, this->put(Integers{}));
  EXPECT_EQ(each.shape(), Shape{0});
  tape.backward(ops::sum(tape, each));
  EXPECT_EQ(tape.gradient(none).shape(), (Shape{0, 4}));
}

TYPED_TEST(DifferentiableLossesTest, gradients_of_smoothed_rows_of_many_columns) {
  constexpr std::int64_t kColumns = 5000;
  auto const values = this->random.reals(2 * kColumns);
  auto const result = ops::softmax_cross_entropy(this->put(values, {2, kColumns}),
                                                 this->put(Integers{17, kColumns - 1}),
                                                 {.label_smoothing = 0.3F});
  auto const gradients = to_host(result.gradients);
  for (std::size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (std::size_t c = 0; c < kColumns; ++c) {
      sum += std::exp(static_cast<double>(values[row * kColumns + c]));
    }
    for (std::size_t c = 0; c < kColumns; ++c) {
      double const target =
          0.3 / kColumns + (c == (row == 0 ? 17U : std::size_t{kColumns - 1}) ? 0.7 : 0.0);
      ASSERT_NEAR(gradients[row * kColumns + c],
                  std::exp(static_cast<double>(values[row * kColumns + c])) / sum - target,
                  1e-6);
    }
  }
}

TYPED_TEST(DifferentiableLossesTest, an_ignored_class_is_not_reported) {
  auto const bad = this->scalar(0);
  auto const result = ops::softmax_cross_entropy(
      this->put(this->random.reals(9), {3, 3}),
      this->put(Integers{-100, 7, 1}),
      {.out_of_range = ops::OutOfRange::count, .bad_id_count = bad, .ignore_index = -100});
  EXPECT_EQ(to_host(bad)[0], 1);
  EXPECT_EQ(to_host(result.losses)[0], 0.0F);
  // A valid class may be ignored, too; if nothing counts, the loss is 0.
  auto const x = this->put(this->random.reals(6), {2, 3});
  GradientTape tape(this->device());
  auto const loss =
      ops::mean_softmax_cross_entropy(tape, x, this->put(Integers{2, 2}), {.ignore_index = 2});
  tape.backward(loss);
  EXPECT_EQ(to_host(loss)[0], 0.0F);
  EXPECT_EQ(to_host(tape.gradient(x)), Floats(6, 0.0F));
}

TYPED_TEST(DifferentiableLossesTest, batches_without_rows_have_a_loss_of_0) {
  Parameters<TypeParam> parameters(this->device());
  DenseStack<TypeParam> const stack(parameters, "stack", 2, {3, 1});
  auto const none = this->put(Floats{}, {0, 2});
  auto const nothing = this->put(Floats{}, {0, 1});
  auto const expect_none = [&](auto const& loss_of) {
    GradientTape tape(this->device());
    auto const loss = loss_of(tape, stack(tape, none));
    EXPECT_EQ(to_host(loss), Floats{0.0F});
    tape.backward(loss);
    for (auto const* const name : {"stack/0/weight", "stack/1/weight", "stack/1/bias"}) {
      auto const gradient = to_host(tape.gradient(parameters.find(name)));
      EXPECT_EQ(gradient, Floats(gradient.size(), 0.0F)) << name;
    }
    EXPECT_EQ(to_host(loss_of(no_tape, stack(no_tape, none))), Floats{0.0F});
  };
  expect_none(
      [&](auto& tape, auto const& x) { return ops::mean_bce_with_logits(tape, x, nothing); });
  expect_none([&](auto& tape, auto const& x) {
    return ops::mean_bce_with_logits(tape, x, nothing, {.weight = this->put(Floats{}, {0})});
  });
  expect_none([&](auto& tape, auto const& x) { return ops::mse_loss(tape, x, nothing); });
  expect_none([&](auto& tape, auto const& x) { return ops::hinge_loss(tape, x, nothing); });
  expect_none([&](auto& tape, auto const& x) { return ops::bpr_loss(tape, x, nothing); });
  for (std::optional<std::int64_t> const ignored :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(0)}) {
    expect_none([&](auto& tape, auto const& x) {
      return ops::mean_softmax_cross_entropy(
          tape, x, this->put(Integers{}), {.ignore_index = ignored});
    });
  }
}

TYPED_TEST(DifferentiableLossesTest, refusals_name_the_loss) {
  auto const x = this->put(Floats{1, 2}, {2, 1});
  auto const y = this->put(Floats{1, 0}, {2});
  GradientTape tape(this->device());
  expect_refused(
      [&] { (void)ops::mean_bce_with_logits(tape, x, y); }, "mean_bce_with_logits: ", "[2]");
  expect_refused([&] { (void)ops::mse_loss(no_tape, x, y); }, "mse_loss: ", "[2, 1]");
  expect_refused([&] { (void)ops::hinge_loss(tape, x, y); }, "hinge_loss: ");
  expect_refused([&] { (void)ops::hinge_loss(tape, x, x, -1.0F); }, "hinge_loss: ", "margin of -1");
  expect_refused(
      [&] { (void)ops::mse_loss(tape, x, x, {.pos_weight = 2.0F}); }, "mse_loss: ", "pos_weight");
  expect_refused([&] { (void)ops::bce_with_logits(x, x, {.pos_weight = -2.0F}); },
                 "bce_with_logits: ",
                 "pos_weight");
  expect_refused([&] { (void)ops::bce_with_logits(x, x, {.weight = this->put(Floats{1})}); },
                 "bce_with_logits: ",
                 "weights [1]");
  auto const three = this->put(Floats{1, 0, 1}, {3, 1});
  expect_refused([&] { (void)ops::bpr_loss(tape, x, three); }, "bpr_loss: ", "[3, 1]");
  expect_refused([&] { (void)ops::margin_ranking_loss(tape, x, three); }, "margin_ranking_loss: ");
  // [2] beside [2, 1] would make four pairs.
  expect_refused([&] { (void)ops::bpr_loss(tape, y, x); }, "bpr_loss: ", "[2]", "[2, 1]");
  expect_refused([&] { (void)ops::mean_softmax_cross_entropy(tape, x, this->put(Integers{1})); },
                 "mean_softmax_cross_entropy: ");
  expect_refused(
      [&] {
        (void)ops::softmax_cross_entropy(x, this->put(Integers{0, 0}), {.label_smoothing = 1.5F});
      },
      "label_smoothing of 1.5");
}

}  // namespace
}  // namespace msstream::testing
