// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/memory/device.hpp>

#include <cmath>
#include <cstddef>

namespace msstream::testing {
namespace {

/// Computes attention in double, for two samples of 2 queries of width 4 over 3 keys, of which only
/// the first lengths[b] count.
Doubles attention_in_double(Doubles const& queries,
                            Doubles const& keys,
                            Doubles const& values,
                            Integers const& lengths) {
  auto const outputs = values.size() / 6;
  Doubles attended(4 * outputs, 0.0);
  for (std::size_t row = 0; row < 4; ++row) {
    double sum = 0;
    Doubles scores;
    for (std::size_t k = 0; k < static_cast<std::size_t>(lengths[row / 2]); ++k) {
      double product = 0;
      for (std::size_t c = 0; c < 4; ++c) {
        product += queries[row * 4 + c] * keys[(row / 2 * 3 + k) * 4 + c];
      }
      scores.push_back(std::exp(product / 2));
      sum += scores.back();
    }
    for (std::size_t k = 0; k < scores.size(); ++k) {
      for (std::size_t o = 0; o < outputs; ++o) {
        attended[row * outputs + o] += scores[k] / sum * values[(row / 2 * 3 + k) * outputs + o];
      }
    }
  }
  return attended;
}

template <class R>
class DifferentiableAttentionTest : public GradientTest<R> {
 protected:
  Shape const query_shape{2, 2, 4};
  Shape const key_shape{2, 3, 4};
  Shape const value_shape{2, 3, 5};
  Floats queries = this->random.reals(16);
  Floats keys = this->random.reals(24);
  Floats values = this->random.reals(30);
  Integers const lengths{3, 2};

  /// Returns attention options with lengths and without.
  [[nodiscard]] std::vector<ops::AttentionOptions<R>> options() const {
    return {{.lengths = this->put(lengths)}, {}};
  }
  [[nodiscard]] Integers lengths_of(ops::AttentionOptions<R> const& options) const {
    return options.lengths ? lengths : Integers{3, 3};
  }
};
TYPED_TEST_SUITE(DifferentiableAttentionTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableAttentionTest, of_queries) {
  for (auto const& options : this->options()) {
    this->expect_gradient(
        this->queries,
        this->query_shape,
        [&](auto& tape, auto const& x) {
          return ops::attention(tape,
                                x,
                                this->put(this->keys, this->key_shape),
                                this->put(this->values, this->value_shape),
                                options);
        },
        [&](Doubles const& x) {
          return attention_in_double(
              x, to_doubles(this->keys), to_doubles(this->values), this->lengths_of(options));
        });
  }
}

TYPED_TEST(DifferentiableAttentionTest, of_keys) {
  for (auto const& options : this->options()) {
    this->expect_gradient(
        this->keys,
        this->key_shape,
        [&](auto& tape, auto const& x) {
          return ops::attention(tape,
                                this->put(this->queries, this->query_shape),
                                x,
                                this->put(this->values, this->value_shape),
                                options);
        },
        [&](Doubles const& x) {
          return attention_in_double(
              to_doubles(this->queries), x, to_doubles(this->values), this->lengths_of(options));
        });
  }
}

TYPED_TEST(DifferentiableAttentionTest, of_values_that_are_the_keys_too) {
  for (auto const& options : this->options()) {
    this->expect_gradient(
        this->keys,
        this->key_shape,
        [&](auto& tape, auto const& x) {
          return ops::attention(tape, this->put(this->queries, this->query_shape), x, x, options);
        },
        [&](Doubles const& x) {
          return attention_in_double(to_doubles(this->queries), x, x, this->lengths_of(options));
        });
  }
}

TYPED_TEST(DifferentiableAttentionTest, gradients_are_those_of_product_and_softmax) {
  Device<TypeParam> const& device = this->device();
  auto const q = this->put(this->queries, this->query_shape).rows(0, 1).reshaped({2, 4});
  auto const k = this->put(this->keys, this->key_shape);
  auto const lengths = this->put(this->lengths);
  auto const labels = this->put(this->random.reals(12, 0.0F, 1.0F), {2, 2, 3});
  GradientTape tape(device);
  tape.backward(ops::mean_bce_with_logits(
      tape, ops::attention_scores(tape, q, k, {.lengths = lengths, .factor = 3.0F}), labels));
  GradientTape composed(device);
  auto const products = ops::matmul(composed, q, k, {.transpose_right = true, .factor = 3.0F});
  composed.backward(
      ops::mean_bce_with_logits(composed, ops::softmax(composed, products, lengths), labels));
  EXPECT_EQ(to_host(tape.gradient(q)), to_host(composed.gradient(q)));
  EXPECT_EQ(to_host(tape.gradient(k)), to_host(composed.gradient(k)));
}

TYPED_TEST(DifferentiableAttentionTest, computes_nothing_for_operands_without_gradient) {
  Device<TypeParam> const& device = this->device();
  auto const q = this->put(this->queries, this->query_shape);
  auto const k = this->put(this->keys, this->key_shape);
  auto const operations = [&](bool of_queries) {
    GradientTape tape(device);
    tape.without_gradient(k);
    if (!of_queries) {
      tape.without_gradient(q);
    }
    auto const loss = ops::sum(tape, ops::attention_scores(tape, q, k));
    auto const before = device.operation_count();
    tape.backward(loss);
    return device.operation_count() - before;
  };
  operations(true);  // the first run makes the gradient of the loss
  EXPECT_EQ(operations(true), operations(false) + 2);
}

}  // namespace
}  // namespace msstream::testing
