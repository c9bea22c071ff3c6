// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/ops/embedding_tables.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <array>
#include <cmath>
#include <type_traits>
#include <vector>

namespace msstream::testing {
namespace {

template <class R>
class MixedTest : public GradientTest<R> {
 protected:
  using Input = Tensor<float, R>;

  /// Expects `actual` to differ from `expected` by a part of the largest element of `expected`.
  static void expect_part(Floats const& actual, Doubles const& expected, double part) {
    ASSERT_EQ(actual.size(), expected.size());
    double largest = 0;
    for (auto const value : expected) {
      largest = std::max(largest, std::abs(value));
    }
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], part * largest) << "element " << i;
    }
  }
};
TYPED_TEST_SUITE(MixedTest, Runtimes, RuntimeNames);

TYPED_TEST(MixedTest, the_gradient_of_a_result_has_its_type_and_that_of_the_input_the_inputs) {
  auto const x = this->random_tensor({5, 4});
  GradientTape tape(this->device());
  auto const half = ops::cast<bfloat16>(tape, x);
  auto const wide = ops::cast<float>(tape, half);
  auto const labels = this->put(this->random.reals(20, 0.0F, 1.0F), {5, 4});
  tape.backward(ops::mean_bce_with_logits(tape, wide, labels));
  auto const gradient = to_host(tape.gradient(x));
  auto const of_half = to_host(ops::cast<float>(ops::cast<bfloat16>(tape.gradient(x))));
  EXPECT_EQ(gradient, of_half) << "a gradient that passed through bfloat16 is one of its numbers";
}

TYPED_TEST(MixedTest, gradients_of_several_uses_are_added_in_float32_and_rounded_once) {
  // The uses give 256, 1 and 1. In bfloat16, 256 + 1 is 256, but the sum of all is 258.
  auto const x = this->put(std::vector<bfloat16>(8, from_float<bfloat16>(1.0F)), {8});
  GradientTape tape(this->device());
  auto const use = [&](float gradient) {
    auto const result = ops::cast<float>(x);
    tape.record("use", ops::cast<bfloat16>(result), [=, this](auto& playing, auto const&) {
      playing.add_gradient(
          x, this->put(std::vector<bfloat16>(8, from_float<bfloat16>(gradient)), {8}));
    });
  };
  use(0);
  auto const result = [&](float gradient) {
    auto const output = this->put(std::vector<bfloat16>(8, from_float<bfloat16>(0.0F)), {8});
    tape.record("use", output, [=, this](auto& playing, auto const&) {
      playing.add_gradient(
          x, this->put(std::vector<bfloat16>(8, from_float<bfloat16>(gradient)), {8}));
    });
    return output;
  };
  std::vector<Tensor<float, TypeParam>> wide;
  for (float const gradient : {1.0F, 1.0F, 256.0F}) {
    wide.push_back(ops::cast<float>(tape, result(gradient)));
  }
  tape.backward(ops::sum(tape, ops::add(tape, wide)));
  EXPECT_EQ(to_doubles(to_host(tape.gradient(x))), Doubles(8, 258.0));
}

TYPED_TEST(MixedTest, a_gradient_of_another_type_is_refused) {
  auto const x = this->put(std::vector<bfloat16>(8), {8});
  GradientTape tape(this->device());
  expect_refused(
      [&] {
        detail::AnyTape& any = tape;
        any.add_gradient(x.any(), this->random_tensor({8}).any(), std::source_location::current());
      },
      "gradient of float32",
      "a tensor of bfloat16");
}

TYPED_TEST(MixedTest, dense_layers_of_half_precision_have_gradients_near_those_of_float32) {
  auto const x = this->random_tensor({64, 24});
  auto const w = this->random_tensor({24, 16});
  auto const b = this->random_tensor({16});
  auto const v = this->random_tensor({16, 1});
  auto const c = this->random_tensor({1});
  // With labels of 0, no term of the bias's gradient cancels another one, so that the error of a
  // gradient is a part of its largest element.
  auto const labels = zeros<float>(this->device(), {64, 1});
  auto const gradients = [&]<class T>(T) {
    GradientTape tape(this->device());
    auto const hidden = ops::dense(tape, ops::cast<T>(tape, x), w, b);
    auto const logits = ops::cast<float>(tape, ops::dense(tape, hidden, v, c));
    tape.backward(ops::mean_bce_with_logits(tape, logits, labels));
    return std::array{to_host(tape.gradient(x)),
                      to_host(tape.gradient(w)),
                      to_host(tape.gradient(b)),
                      to_host(tape.gradient(v)),
                      to_host(tape.gradient(c))};
  };
  auto const exact = gradients(float{});
  auto const bf16 = gradients(bfloat16{});
  auto const fp16 = gradients(float16{});
  for (std::size_t i = 0; i < exact.size(); ++i) {
    this->expect_part(bf16[i], to_doubles(exact[i]), 0.05);
    this->expect_part(fp16[i], to_doubles(exact[i]), 0.01);
  }
  for (std::size_t i = 0; i + 1 < exact.size(); ++i) {  // the last one is a single number
    EXPECT_NE(bf16[i], exact[i]) << "the layers were not computed in bfloat16";
    EXPECT_NE(fp16[i], exact[i]) << "the layers were not computed in float16";
  }
}

TYPED_TEST(MixedTest, layers_of_any_number_of_inputs_have_gradients_of_all_their_weights) {
  for (std::int64_t const inputs : {1, 5, 8, 13, 479}) {
    auto const x = this->random_tensor({9, inputs});
    auto const w = this->random_tensor({inputs, 6});
    auto const b = this->random_tensor({6});
    auto const factors = this->random_tensor({9, 6});
    auto const of = [&]<class T>(T) {
      GradientTape tape(this->device());
      auto const y = ops::cast<float>(tape, ops::dense(tape, ops::cast<T>(tape, x), w, b));
      tape.backward(ops::sum(tape, ops::multiply(tape, y, factors)));
      return std::array{to_host(y),
                        to_host(tape.gradient(x)),
                        to_host(tape.gradient(w)),
                        to_host(tape.gradient(b))};
    };
    auto const exact = of(float{});
    auto const half = of(float16{});
    for (std::size_t i = 0; i < exact.size(); ++i) {
      this->expect_part(half[i], to_doubles(exact[i]), 0.005);
    }
  }
}

TYPED_TEST(MixedTest, blocks_of_half_precision_are_put_together_and_their_gradients_apart) {
  for (auto const& widths : {std::vector<std::int64_t>{2, 4, 6}, {3, 1, 4}, {0, 5}}) {
    std::vector<Tensor<float, TypeParam>> wide;
    std::vector<Tensor<float16, TypeParam>> blocks;
    GradientTape tape(this->device());
    std::int64_t width = 0;
    for (auto const each : widths) {
      wide.push_back(this->put(this->random.reals(7 * each), {7, each}));
      blocks.push_back(ops::cast<float16>(tape, wide.back()));
      width += each;
    }
    auto const packed = ops::concat(tape, blocks);
    ASSERT_EQ(packed.shape(), (Shape{7, width}));
    auto const values = to_host(ops::cast<float>(packed));
    auto const factors = this->random_tensor({7, width});
    tape.backward(ops::sum(tape, ops::multiply(tape, ops::cast<float>(tape, packed), factors)));
    auto const given = to_host(ops::cast<float>(ops::cast<float16>(factors)));
    std::int64_t start = 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      auto const block = to_host(ops::cast<float>(blocks[i]));
      auto const gradient = to_host(tape.gradient(wide[i]));
      for (std::int64_t row = 0; row < 7; ++row) {
        for (std::int64_t column = 0; column < widths[i]; ++column) {
          auto const in_block = static_cast<std::size_t>(row * widths[i] + column);
          auto const in_packed = static_cast<std::size_t>(row * width + start + column);
          ASSERT_EQ(values[in_packed], block[in_block]);
          ASSERT_EQ(gradient[in_block], given[in_packed]);
        }
      }
      start += widths[i];
    }
  }
}

TYPED_TEST(MixedTest, a_lookup_in_many_tables_to_half_precision_has_row_gradients_in_float32) {
  auto const first = this->random_tensor({5, 4});
  auto const second = this->random_tensor({3, 4});
  ops::EmbeddingTables const tables(this->device(), std::vector{first, second}, ops::Pooling::sum);
  auto const ids = this->put(Integers{0, 4, 4, 1, 2, 2});
  auto const factors = this->random_tensor({3, 8});
  GradientTape tape(this->device());
  auto const pooled = ops::embedding_lookup<bfloat16>(tape, tables, {ids, 3});
  EXPECT_EQ(to_doubles(to_host(pooled))[0], to_float(from_float<bfloat16>(to_host(first)[0])));
  tape.backward(ops::sum(tape, ops::multiply(tape, ops::cast<float>(tape, pooled), factors)));
  auto const rounded = to_host(ops::cast<float>(ops::cast<bfloat16>(factors)));
  Doubles expected(20, 0.0);
  for (std::size_t bag = 0; bag < 3; ++bag) {
    auto const id = static_cast<std::size_t>(bag == 0 ? 0 : 4);
    for (std::size_t column = 0; column < 4; ++column) {
      expected[id * 4 + column] += rounded[bag * 8 + column];
    }
  }
  expect_near(to_host(tape.gradient(first)), expected);
}

TYPED_TEST(MixedTest, a_cross_layer_agrees_with_its_formula_and_its_gradients) {
  constexpr std::int64_t kBatch = 6;
  constexpr std::int64_t kWidth = 5;
  constexpr std::int64_t kRank = 3;
  auto const down = this->random_tensor({kWidth, kRank});
  auto const up = this->random_tensor({kRank, kWidth});
  auto const bias = this->random_tensor({kWidth});
  auto const at = [](Doubles const& of, std::int64_t i) { return of[static_cast<std::size_t>(i)]; };
  // Two layers with the same weights, so that every gradient has several terms.
  auto const reference =
      [&](Doubles const& x, Doubles const& d, Doubles const& u, Doubles const& b) {
        Doubles crossed = x;
        for (int layer = 0; layer < 2; ++layer) {
          Doubles next;
          for (std::int64_t row = 0; row < kBatch; ++row) {
            Doubles hidden(kRank, 0.0);
            for (std::int64_t r = 0; r < kRank; ++r) {
              for (std::int64_t k = 0; k < kWidth; ++k) {
                hidden[static_cast<std::size_t>(r)] +=
                    at(crossed, row * kWidth + k) * at(d, k * kRank + r);
              }
            }
            for (std::int64_t column = 0; column < kWidth; ++column) {
              double projected = at(b, column);
              for (std::int64_t r = 0; r < kRank; ++r) {
                projected += at(hidden, r) * at(u, r * kWidth + column);
              }
              auto const i = row * kWidth + column;
              next.push_back(at(x, i) * projected + at(crossed, i));
            }
          }
          crossed = next;
        }
        return crossed;
      };
  auto const layers = [&](auto& tape, auto const& x, auto const& d, auto const& u, auto const& b) {
    ops::CrossWeights<TypeParam> const weights{d, u, b};
    return ops::cross_layer(tape, x, ops::cross_layer(tape, x, x, weights), weights);
  };
  auto const doubles = [](auto const& tensor) { return to_doubles(to_host(tensor)); };
  auto const x = this->random_tensor({kBatch, kWidth});
  expect_near(to_host(layers(no_tape, x, down, up, bias)),
              reference(doubles(x), doubles(down), doubles(up), doubles(bias)),
              1e-5);
  GradientTape tape(this->device());
  auto const y = layers(tape, x, down, up, bias);
  auto const labels = this->random.reals(y.count(), 0.0F, 1.0F);
  tape.backward(ops::mean_bce_with_logits(tape, y, this->put(labels, y.shape())));
  auto const loss_at = [&](Doubles const& a, Doubles const& d, Doubles const& u, Doubles const& b) {
    return this->loss(reference(a, d, u, b), labels);
  };
  auto const X = doubles(x);
  auto const D = doubles(down);
  auto const U = doubles(up);
  auto const B = doubles(bias);
  constexpr double kTolerance = 1e-5;
  expect_near(to_host(tape.gradient(x)),
              numeric_gradient([&](Doubles const& v) { return loss_at(v, D, U, B); }, X),
              kTolerance);
  expect_near(to_host(tape.gradient(down)),
              numeric_gradient([&](Doubles const& v) { return loss_at(X, v, U, B); }, D),
              kTolerance);
  expect_near(to_host(tape.gradient(up)),
              numeric_gradient([&](Doubles const& v) { return loss_at(X, D, v, B); }, U),
              kTolerance);
  expect_near(to_host(tape.gradient(bias)),
              numeric_gradient([&](Doubles const& v) { return loss_at(X, D, U, v); }, B),
              kTolerance);
}

TYPED_TEST(MixedTest, cross_layers_of_half_precision_are_near_those_of_float32) {
  ops::CrossWeights<TypeParam> const weights{
      this->random_tensor({16, 8}), this->random_tensor({8, 16}), this->random_tensor({16})};
  auto const x = this->random_tensor({32, 16});
  auto const labels = this->put(this->random.reals(32 * 16, 0.0F, 1.0F), {32, 16});
  auto const of = [&]<class T>(T) {
    GradientTape tape(this->device());
    auto const in = ops::cast<T>(tape, x);
    auto const y =
        ops::cast<float>(tape, ops::cross_network(tape, in, std::vector{weights, weights}));
    tape.backward(ops::mean_bce_with_logits(tape, y, labels));
    return std::array{to_host(y),
                      to_host(tape.gradient(x)),
                      to_host(tape.gradient(weights.down)),
                      to_host(tape.gradient(weights.up)),
                      to_host(tape.gradient(weights.bias))};
  };
  auto const exact = of(float{});
  auto const half = of(bfloat16{});
  for (std::size_t i = 0; i < exact.size(); ++i) {
    this->expect_part(half[i], to_doubles(exact[i]), 0.06);
  }
}

TYPED_TEST(MixedTest, a_cross_network_has_the_results_of_its_layers) {
  for (auto const& [batch, width, rank] : {std::array{1, 1, 1}, {37, 16, 8}, {300, 33, 5}}) {
    std::vector<ops::CrossWeights<TypeParam>> layers;
    for (int i = 0; i < 3; ++i) {
      layers.push_back({this->random_tensor({width, rank}),
                        this->random_tensor({rank, width}),
                        this->random_tensor({width})});
    }
    auto const x = this->put(this->random.reals(batch * width, -0.5F, 0.5F), {batch, width});
    auto const labels = this->put(this->random.reals(batch * width, 0.0F, 1.0F), {batch, width});
    auto const train = [&](auto const& crossed_of) {
      GradientTape tape(this->device());
      auto const y = crossed_of(tape);
      tape.backward(ops::mean_bce_with_logits(tape, y, labels));
      std::vector<Floats> results{to_host(y), to_host(tape.gradient(x))};
      for (auto const& layer : layers) {
        results.push_back(to_host(tape.gradient(layer.down)));
        results.push_back(to_host(tape.gradient(layer.up)));
        results.push_back(to_host(tape.gradient(layer.bias)));
      }
      return results;
    };
    auto const each = train([&](auto& tape) {
      auto crossed = x;
      for (auto const& layer : layers) {
        crossed = ops::cross_layer(tape, x, crossed, layer);
      }
      return crossed;
    });
    auto const whole = train([&](auto& tape) { return ops::cross_network(tape, x, layers); });
    EXPECT_EQ(whole[0], each[0]);
    for (std::size_t i = 1; i < each.size(); ++i) {
      expect_near(whole[i], to_doubles(each[i]), 1e-5);
    }
  }
  expect_refused(
      [&] {
        (void)ops::cross_network(this->random_tensor({2, 2}),
                                 std::vector<ops::CrossWeights<TypeParam>>());
      },
      "no layers");
}

TYPED_TEST(MixedTest, weights_of_other_shapes_are_refused) {
  auto const x = this->random_tensor({4, 6});
  ops::CrossWeights<TypeParam> const weights{
      this->random_tensor({6, 2}), this->random_tensor({3, 6}), this->random_tensor({6})};
  expect_refused([&] { (void)ops::cross_layer(x, x, weights); }, "cross_layer", "[6, 2]", "[3, 6]");
}

TYPED_TEST(MixedTest, half_precision_has_the_same_bits_in_any_number_of_groups) {
  auto const x = this->random_tensor({40, 12});
  auto const train = [&](int groups) {
    StreamPool pool(this->device(), {.groups = groups});
    Tensor<float, TypeParam> const w = this->put(Floats(12 * 12, 0.125F), {12, 12});
    auto const b = zeros<float>(this->device(), {12});
    GradientTape tape(this->device());
    auto const in = ops::cast<bfloat16>(tape, x);
    std::vector<Tensor<bfloat16, TypeParam>> branches;
    for (int i = 0; i < 5; ++i) {
      StreamScope const scope(pool[i % groups], {.include_grad = true});
      branches.push_back(ops::dense(tape, ops::gelu(tape, in), w, b));
    }
    auto const all = ops::cast<float>(tape, ops::concat(tape, branches));
    tape.backward(ops::mean(tape, ops::multiply(tape, all, all)));
    return std::pair{to_host(tape.gradient(x)), to_host(tape.gradient(w))};
  };
  auto const one = train(1);
  EXPECT_EQ(train(3), one);
  EXPECT_EQ(train(5), one);
}

}  // namespace
}  // namespace msstream::testing
