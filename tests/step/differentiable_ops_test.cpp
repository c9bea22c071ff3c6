// SPDX-License-Identifier: Apache-2.0
#include "ops/ops_fixture.hpp"

#include <msstream/step/differentiable_ops.hpp>

#include <algorithm>
#include <functional>
#include <numeric>

namespace msstream::testing {
namespace {

using ops::Pooling;

/// Central differences of a function of doubles: good to about 1e-9 where it is smooth.
Doubles numeric_gradient(std::function<double(Doubles const&)> const& function, Doubles at) {
  constexpr double kStep = 1e-6;
  Doubles gradient;
  for (auto& x : at) {
    double const middle = x;
    x = middle + kStep;
    double const above = function(at);
    x = middle - kStep;
    double const below = function(at);
    x = middle;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

/// Each operation's result goes through the loss of the training program against random labels, so
/// that every element of the result has a gradient of its own. The references are in double and
/// share nothing with the kernels.
template <class R>
class DifferentiableOpsTest : public OpsTest<R> {
 protected:
  using Input = Tensor<float, R>;

  /// `op` of one tensor of the given shape with the gradient that the tape gives, against central
  /// differences of `reference`, which is the same in double.
  void expect_gradient(Shape const& shape,
                       std::function<Input(GradientTape<R>&, Input const&)> const& op,
                       std::function<Doubles(Doubles const&)> const& reference) {
    auto const values = this->random.reals(shape.count());
    auto const x = this->put(values, shape);
    GradientTape tape(this->device());
    auto const result = op(tape, x);
    auto const labels = this->random.reals(result.count(), 0.0F, 1.0F);
    tape.backward(ops::mean_bce_with_logits(tape, result, this->put(labels, result.shape())));
    expect_near(to_host(tape.gradient(x)),
                numeric_gradient([&](Doubles const& at) { return loss(reference(at), labels); },
                                 to_doubles(values)));
  }

  static double loss(Doubles const& logits, Floats const& labels) {
    double sum = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
      double const p = 1 / (1 + std::exp(-logits[i]));
      sum -= labels[i] * std::log(p) + (1 - labels[i]) * std::log(1 - p);
    }
    return sum / static_cast<double>(logits.size());
  }
};
TYPED_TEST_SUITE(DifferentiableOpsTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableOpsTest, loss) {
  this->expect_gradient(
      {7, 3}, [](auto&, auto const& x) { return x; }, [](Doubles const& x) { return x; });
}

TYPED_TEST(DifferentiableOpsTest, scale_and_sigmoid) {
  auto const each = [](auto function) {
    return [function](Doubles x) {
      std::ranges::transform(x, x.begin(), function);
      return x;
    };
  };
  this->expect_gradient(
      {5, 4},
      [](auto& tape, auto const& x) { return ops::scale(tape, x, -1.75F); },
      each([](double x) { return -1.75 * x; }));
  this->expect_gradient(
      {5, 4}, [](auto& tape, auto const& x) { return ops::sigmoid(tape, x); }, each([](double x) {
        return 1 / (1 + std::exp(-x));
      }));
}

TYPED_TEST(DifferentiableOpsTest, sum_and_mean) {
  this->expect_gradient(
      {5, 4},
      [](auto& tape, auto const& x) { return ops::sum(tape, x); },
      [](Doubles const& x) { return Doubles{std::accumulate(x.begin(), x.end(), 0.0)}; });
  this->expect_gradient(
      {5, 4},
      [](auto& tape, auto const& x) { return ops::mean(tape, x); },
      [](Doubles const& x) { return Doubles{std::accumulate(x.begin(), x.end(), 0.0) / 20}; });
}

TYPED_TEST(DifferentiableOpsTest, add_of_a_tensor_that_stands_twice_and_another) {
  auto const other = this->random.reals(6);
  this->expect_gradient(
      {6},
      [&](auto& tape, auto const& x) {
        return ops::add(tape, std::vector{x, this->put(other, {6}), x});
      },
      [&](Doubles x) {
        for (std::size_t i = 0; i < x.size(); ++i) {
          x[i] = 2 * x[i] + other[i];
        }
        return x;
      });
}

TYPED_TEST(DifferentiableOpsTest, concat_of_a_tensor_that_stands_twice_and_another) {
  auto const other = this->random.reals(4);
  this->expect_gradient(
      {4, 2},
      [&](auto& tape, auto const& x) {
        return ops::concat(tape, std::vector{x, this->put(other, {4, 1}), x});
      },
      [&](Doubles const& x) {
        Doubles packed;
        for (std::size_t row = 0; row < 4; ++row) {
          packed.insert(packed.end(),
                        {x[2 * row], x[2 * row + 1], other[row], x[2 * row], x[2 * row + 1]});
        }
        return packed;
      });
}

/// activation(input · weight + bias) in double.
Doubles dense_reference(Doubles const& input,
                        Doubles const& weight,
                        Doubles const& bias,
                        ops::Activation activation) {
  std::size_t const outputs = bias.size();
  std::size_t const inputs = weight.size() / outputs;
  Doubles result;
  for (std::size_t row = 0; row < input.size() / inputs; ++row) {
    for (std::size_t column = 0; column < outputs; ++column) {
      double sum = bias[column];
      for (std::size_t k = 0; k < inputs; ++k) {
        sum += input[row * inputs + k] * weight[k * outputs + column];
      }
      result.push_back(activation == ops::Activation::relu ? std::max(sum, 0.0) : sum);
    }
  }
  return result;
}

TYPED_TEST(DifferentiableOpsTest, dense_by_each_of_its_inputs) {
  // Signs are chosen so that no sum of relu comes near 0, where there is no derivative.
  for (float const shift : {0.0F, 4.0F, -4.0F}) {
    auto const activation = shift == 0 ? ops::Activation::none : ops::Activation::relu;
    auto const input = this->random.reals(5 * 3);
    auto const weight = this->random.reals(3 * 4);
    Floats bias = this->random.reals(4, -0.5F, 0.5F);
    for (std::size_t i = 0; i < bias.size(); ++i) {
      bias[i] += i % 2 == 0 ? shift : -shift;
    }
    auto const x = to_doubles(input);
    auto const w = to_doubles(weight);
    auto const b = to_doubles(bias);
    this->expect_gradient(
        {5, 3},
        [&](auto& tape, auto const& at) {
          return ops::dense(tape, at, this->put(weight, {3, 4}), this->put(bias), activation);
        },
        [&](Doubles const& at) { return dense_reference(at, w, b, activation); });
    this->expect_gradient(
        {3, 4},
        [&](auto& tape, auto const& at) {
          return ops::dense(tape, this->put(input, {5, 3}), at, this->put(bias), activation);
        },
        [&](Doubles const& at) { return dense_reference(x, at, b, activation); });
    this->expect_gradient(
        {4},
        [&](auto& tape, auto const& at) {
          auto const shifted = ops::add(tape, std::vector{at, this->put(bias)});
          return ops::dense(
              tape, this->put(input, {5, 3}), this->put(weight, {3, 4}), shifted, activation);
        },
        [&](Doubles at) {
          std::ranges::transform(at, b, at.begin(), std::plus());
          return dense_reference(x, w, at, activation);
        });
  }
}

TYPED_TEST(DifferentiableOpsTest, segment_reduce_with_rows_in_no_segment) {
  Integers const offsets = {0, 3, 3, 4, 7};
  for (auto const pooling : {Pooling::sum, Pooling::mean}) {
    this->expect_gradient(
        {9, 2},
        [&](auto& tape, auto const& x) {
          return ops::segment_reduce(tape, x, this->put(offsets), pooling);
        },
        [&](Doubles const& x) {
          Doubles reduced;
          for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
            auto const length = static_cast<double>(offsets[s + 1] - offsets[s]);
            for (std::size_t column = 0; column < 2; ++column) {
              double sum = 0;
              for (auto row = offsets[s]; row < offsets[s + 1]; ++row) {
                sum += x[static_cast<std::size_t>(row) * 2 + column];
              }
              reduced.push_back(pooling == Pooling::mean && length > 0 ? sum / length : sum);
            }
          }
          return reduced;
        });
  }
}

/// A lookup's row gradients, laid out as the whole table.
template <Runtime R>
Floats whole_table(std::vector<typename GradientTape<R>::RowGradientPart> const& parts,
                   Shape const& shape) {
  auto const width = static_cast<std::size_t>(shape[1]);
  Floats gradient(static_cast<std::size_t>(shape.count()), 0.0F);
  for (auto const& part : parts) {
    auto const count = to_host(part.rows.count).front();
    auto const ids = to_host(part.rows.ids.rows(0, count));
    auto const values = to_host(part.rows.values.rows(0, count));
    for (std::size_t i = 0; i < values.size(); ++i) {
      gradient.at(static_cast<std::size_t>(ids[i / width]) * width + i % width) += values[i];
    }
  }
  return gradient;
}

TYPED_TEST(DifferentiableOpsTest, embedding_lookup_fixed_and_jagged_with_bad_ids) {
  constexpr std::int64_t kRows = 6;
  constexpr std::size_t kWidth = 3;
  Integers const ids = {1, 5, 1, -1, 6, 0, 2, 2, 5, 4, 3, 3};
  for (auto const pooling : {Pooling::sum, Pooling::mean}) {
    for (bool const jagged : {false, true}) {
      Integers const offsets = jagged ? Integers{0, 3, 3, 5, 10} : Integers{0, 3, 6, 9, 12};
      auto const bags = jagged ? ops::Bags<TypeParam>(this->put(ids), this->put(offsets))
                               : ops::Bags<TypeParam>(this->put(ids, {4, 3}));
      auto const reference = [&](Doubles const& table) {
        Doubles pooled;
        for (std::size_t bag = 0; bag + 1 < offsets.size(); ++bag) {
          Doubles sum(kWidth, 0.0);
          double valid = 0;
          for (auto place = offsets[bag]; place < offsets[bag + 1]; ++place) {
            auto const id = ids[static_cast<std::size_t>(place)];
            if (id >= 0 && id < kRows) {
              ++valid;
              for (std::size_t c = 0; c < kWidth; ++c) {
                sum[c] += table[static_cast<std::size_t>(id) * kWidth + c];
              }
            }
          }
          for (auto const element : sum) {
            pooled.push_back(pooling == Pooling::mean && valid > 0 ? element / valid : element);
          }
        }
        return pooled;
      };
      auto const values = this->random.reals(kRows * static_cast<std::int64_t>(kWidth));
      auto const labels = this->random.reals(4 * static_cast<std::int64_t>(kWidth), 0.0F, 1.0F);
      auto const expected = numeric_gradient(
          [&](Doubles const& at) { return this->loss(reference(at), labels); }, to_doubles(values));
      auto const table = this->put(values, {kRows, kWidth});
      GradientTape tape(this->device());
      auto const pooled = ops::embedding_lookup(tape, table, bags, {.pooling = pooling});
      expect_near(to_host(pooled), reference(to_doubles(values)));
      tape.backward(ops::mean_bce_with_logits(tape, pooled, this->put(labels, pooled.shape())));
      expect_near(whole_table<TypeParam>(tape.row_gradients(table), table.shape()), expected);
    }
  }
}

TYPED_TEST(DifferentiableOpsTest, a_chain_through_shared_tensors) {
  // y = sigmoid(x W + b) + x W + b, used again by a mean: each use adds its part.
  auto const weight = this->random.reals(9);
  auto const w = to_doubles(weight);
  this->expect_gradient(
      {4, 3},
      [&](auto& tape, auto const& x) {
        auto const h = ops::dense(tape, x, this->put(weight, {3, 3}), this->put(Floats(3, 0.5F)));
        auto const y = ops::add(tape, std::vector{ops::sigmoid(tape, h), h, x});
        return ops::concat(tape, std::vector{y, h, ops::scale(tape, y, 0.25F)});
      },
      [&](Doubles const& x) {
        auto const h = dense_reference(x, w, Doubles(3, 0.5), ops::Activation::none);
        Doubles packed;
        for (std::size_t row = 0; row < 4; ++row) {
          Doubles y;
          for (std::size_t i = 3 * row; i < 3 * row + 3; ++i) {
            y.push_back(1 / (1 + std::exp(-h[i])) + h[i] + x[i]);
          }
          packed.insert(packed.end(), y.begin(), y.end());
          packed.insert(packed.end(),
                        h.begin() + 3 * static_cast<std::ptrdiff_t>(row),
                        h.begin() + 3 * static_cast<std::ptrdiff_t>(row) + 3);
          for (auto const element : y) {
            packed.push_back(element / 4);
          }
        }
        return packed;
      });
}

}  // namespace
}  // namespace msstream::testing
