// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/step/captured_step.hpp>

#include <cmath>
#include <limits>
#include <optional>

namespace msstream::testing {
namespace {

/// Computes, for each row, the softmax over its leading lengths[row] columns.
Doubles softmax_of_rows(Doubles const& x, std::size_t columns, Integers const& lengths) {
  Doubles out(x.size(), 0.0);
  for (std::size_t row = 0; row < lengths.size(); ++row) {
    auto const first = row * columns;
    auto const last = first + static_cast<std::size_t>(lengths[row]);
    double sum = 0;
    for (auto i = first; i < last; ++i) {
      sum += std::exp(x[i]);
    }
    for (auto i = first; i < last; ++i) {
      out[i] = std::exp(x[i]) / sum;
    }
  }
  return out;
}

/// The numbers of a mean cross-entropy over sampled candidates, which may repeat an id.
struct SampledSoftmax {
  std::size_t columns;
  Floats logits;
  Integers classes;
  Integers ids;
  Floats weights;
  std::optional<std::int64_t> ignored = {};

  [[nodiscard]] bool takes_part(std::size_t row, std::size_t column) const {
    auto const chosen = static_cast<std::size_t>(classes[row]);
    return column == chosen || ids[column] != ids[chosen];
  }
  [[nodiscard]] bool counts(std::size_t row) const {
    return classes[row] >= 0 && classes[row] < static_cast<std::int64_t>(columns) &&
           classes[row] != ignored && weights[row] != 0.0F;
  }
  /// Returns the divisor of the mean.
  [[nodiscard]] double divisor(ops::LossReduction reduction) const {
    double sum = 0;
    for (std::size_t row = 0; row < classes.size(); ++row) {
      double const weight = reduction == ops::LossReduction::mean ? 1.0 : weights[row];
      sum += classes[row] != ignored ? weight : 0.0;
    }
    return sum;
  }
  /// Computes the loss in double, and behind it the gradients by all logits.
  [[nodiscard]] Doubles loss_and_gradients(ops::LossReduction reduction) const {
    Doubles all(1 + logits.size(), 0.0);
    for (std::size_t row = 0; row < classes.size(); ++row) {
      if (!counts(row)) {
        continue;
      }
      auto const chosen = static_cast<std::size_t>(classes[row]);
      double const factor = weights[row] / divisor(reduction);
      double sum = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        sum += takes_part(row, c) ? std::exp(double{logits[row * columns + c]}) : 0.0;
      }
      all[0] += factor * (std::log(sum) - logits[row * columns + chosen]);
      for (std::size_t c = 0; c < columns; ++c) {
        double const p = takes_part(row, c) ? std::exp(double{logits[row * columns + c]}) / sum : 0;
        all[1 + row * columns + c] = factor * (p - (c == chosen ? 1.0 : 0.0));
      }
    }
    return all;
  }
};

template <class R>
class DifferentiableSoftmaxTest : public GradientTest<R> {
 protected:
  /// Returns candidates of which many share an id, classes of which the last is out of range, and
  /// weights of which some are 0. Logits that must not count are NaN or infinite.
  SampledSoftmax random_sampled(std::int64_t rows, std::int64_t columns) {
    auto const count = static_cast<std::size_t>(rows);
    SampledSoftmax sampled{static_cast<std::size_t>(columns),
                           this->random.reals(rows * columns, -3.0F, 3.0F),
                           this->random.integers(rows, 0, columns - 1),
                           this->random.integers(columns, 0, columns / 2),
                           this->random.reals(rows, 0.1F, 2.0F)};
    sampled.classes.back() = columns;
    for (std::size_t row = 0; row < count; ++row) {
      sampled.weights[row] = row % 3 == 1 ? 0.0F : sampled.weights[row];
      for (std::size_t c = 0; c < sampled.columns; ++c) {
        bool const is_used = sampled.counts(row) && sampled.takes_part(row, c);
        float const bad = c % 2 == 0 ? std::nanf("") : std::numeric_limits<float>::infinity();
        auto& logit = sampled.logits[row * sampled.columns + c];
        logit = is_used ? logit : bad;
      }
    }
    return sampled;
  }
  ops::CrossEntropyOptions<R> options_of(SampledSoftmax const& sampled,
                                         ops::LossReduction reduction) {
    return {.ignore_index = sampled.ignored,
            .sample_weight = this->put(sampled.weights),
            .reduction = reduction,
            .candidate_ids = this->put(sampled.ids)};
  }
};
TYPED_TEST_SUITE(DifferentiableSoftmaxTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableSoftmaxTest, softmax) {
  this->expect_gradient(
      {3, 4},
      [](auto& tape, auto const& x) { return ops::softmax(tape, x); },
      [](Doubles const& x) {
        return softmax_of_rows(x, 4, {4, 4, 4});
      });
}

TYPED_TEST(DifferentiableSoftmaxTest, softmax_with_lengths) {
  this->expect_gradient(
      {4, 5},
      [&](auto& tape, auto const& x) {
        return ops::softmax(tape, x, this->put(Integers{3, 0}));
      },
      [](Doubles const& x) {
        return softmax_of_rows(x, 5, {3, 3, 0, 0});
      });
}

TYPED_TEST(DifferentiableSoftmaxTest, mean_softmax_cross_entropy) {
  Integers const classes = {2, 0, 3, 1};  // class 3 is out of range
  this->expect_gradient(
      {4, 3},
      [&](auto& tape, auto const& x) {
        return ops::mean_softmax_cross_entropy(tape, x, this->put(classes));
      },
      [&](Doubles const& x) {
        double sum = 0;
        for (std::size_t row : {0U, 1U, 3U}) {
          double exponentials = 0;
          for (std::size_t c = 0; c < 3; ++c) {
            exponentials += std::exp(x[3 * row + c]);
          }
          sum += std::log(exponentials) - x[3 * row + static_cast<std::size_t>(classes[row])];
        }
        return Doubles{sum / 4};
      });
}

TYPED_TEST(DifferentiableSoftmaxTest, weights_of_examples_and_accidental_hits) {
  for (std::int64_t const columns : {1, 2, 33, 300, 1500}) {
    for (bool const ignores : {false, true}) {
      for (auto const reduction : {ops::LossReduction::mean, ops::LossReduction::weighted_mean}) {
        auto sampled = this->random_sampled(7, columns);
        if (ignores) {
          sampled.ignored = sampled.classes.front();
        }
        auto const options = this->options_of(sampled, reduction);
        auto const x = this->put(sampled.logits, {7, columns});
        auto const classes = this->put(sampled.classes);
        GradientTape tape(this->device());
        auto const loss = ops::mean_softmax_cross_entropy(tape, x, classes, options);
        tape.backward(loss);
        auto found = to_host(loss);
        for (float const gradient : to_host(tape.gradient(x))) {
          found.push_back(gradient);
        }
        expect_near(found, sampled.loss_and_gradients(reduction));
      }
    }
  }
}

TYPED_TEST(DifferentiableSoftmaxTest, examples_of_weight_0_alone_have_a_loss_of_0) {
  auto const bad = this->scalar(0);
  auto const x = this->put(Floats(4, std::nanf("")), {2, 2});
  for (auto const reduction : {ops::LossReduction::mean, ops::LossReduction::weighted_mean}) {
    GradientTape tape(this->device());
    auto const loss = ops::mean_softmax_cross_entropy(tape,
                                                      x,
                                                      this->put(Integers{7, 0}),
                                                      {.out_of_range = ops::OutOfRange::count,
                                                       .bad_id_count = bad,
                                                       .sample_weight = this->put(Floats{0, 0}),
                                                       .reduction = reduction});
    tape.backward(loss);
    EXPECT_EQ(to_host(loss)[0], 0.0F);
    EXPECT_EQ(to_host(tape.gradient(x)), Floats(4, 0.0F));
  }
  EXPECT_EQ(to_host(bad)[0], 0);
}

TYPED_TEST(DifferentiableSoftmaxTest, captured_steps_read_the_ids_and_weights_of_each_replay) {
  constexpr std::int64_t kColumns = 40;
  auto const logits = zeros<float>(this->device(), {9, kColumns});
  auto const classes = zeros<std::int64_t>(this->device(), {9});
  auto const ids = zeros<std::int64_t>(this->device(), {kColumns});
  auto const weights = zeros<float>(this->device(), {9});
  auto const gradients = zeros<float>(this->device(), {9, kColumns});
  auto const step = [&](auto const& x) {
    GradientTape tape(this->device());
    tape.backward(ops::mean_softmax_cross_entropy(tape,
                                                  x,
                                                  classes,
                                                  {.sample_weight = weights,
                                                   .reduction = ops::LossReduction::weighted_mean,
                                                   .candidate_ids = ids}));
    copy(gradients, tape.gradient(x));
  };
  CapturedStep<TypeParam> captured(this->device(), [&] { step(logits); });
  for (int i = 0; i < 3; ++i) {
    auto const sampled = this->random_sampled(9, kColumns);
    copy(logits, this->put(sampled.logits, {9, kColumns}));
    copy(classes, this->put(sampled.classes));
    copy(ids, this->put(sampled.ids));
    copy(weights, this->put(sampled.weights));
    step(logits);
    auto const eager = to_host(gradients);
    copy(gradients, this->put(Floats(9 * kColumns, -1.0F), {9, kColumns}));
    captured.replay();
    EXPECT_EQ(to_host(gradients), eager);
    auto expected = sampled.loss_and_gradients(ops::LossReduction::weighted_mean);
    expected.erase(expected.begin());
    expect_near(eager, expected);
  }
}

TYPED_TEST(DifferentiableSoftmaxTest, refuses_weights_and_ids_of_other_shapes) {
  auto const x = this->any({2, 3});
  auto const classes = this->put(Integers{0, 1});
  auto const expect_message = [&](ops::CrossEntropyOptions<TypeParam> const& options,
                                  char const* what,
                                  char const* expected) {
    expect_refused([&] { (void)ops::mean_softmax_cross_entropy(no_tape, x, classes, options); },
                   "mean_softmax_cross_entropy",
                   what,
                   expected);
  };
  expect_message({.sample_weight = this->any({3})}, "sample_weight of shape [3]", "[batch] = [2]");
  expect_message({.candidate_ids = this->template any<std::int64_t>({2})},
                 "candidate_ids of shape [2]",
                 "[classes] = [3]");
  expect_message({.label_smoothing = 0.5F, .candidate_ids = this->template any<std::int64_t>({3})},
                 "label_smoothing of 0.5",
                 "expected 0");
}

}  // namespace
}  // namespace msstream::testing
