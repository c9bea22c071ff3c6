// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/ops/embedding_tables.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace msstream::testing {
namespace {

using ops::Pooling;

/// Tests lookups whose pooled rows are written beside other features: they have the bits of a
/// lookup and a concatenation.
template <class R>
class LookupBesideTest : public GradientTest<R> {
 protected:
  static constexpr std::int64_t kBatch = 7;

  [[nodiscard]] ops::EmbeddingTables<R> tables() {
    auto const table = [&](std::int64_t rows, std::int64_t width, Pooling pooling) {
      return ops::EmbeddingTable<R>{.weights = this->random_tensor({rows, width}),
                                    .pooling = pooling,
                                    .hotness = 3,
                                    .default_id = 1};
    };
    return {this->device(),
            {table(9, 4, Pooling::sum),
             table(5, 8, Pooling::mean),
             table(4, 3, Pooling::max),
             table(30, 64, Pooling::sum)}};
  }
  /// Returns the ids of the tables' bags, some of them outside their tables.
  [[nodiscard]] ops::TableBags<R> bags() {
    return {.ids = this->put(this->random.integers(4 * 3 * kBatch, -1, 6)), .batch = kBatch};
  }
  /// Returns what a step of training gives: the joined features, the gradient of the dense ones,
  /// and the tables after it.
  template <RealElement T>
  std::vector<Doubles> trained(bool beside,
                               Tensor<float, R> const& dense,
                               std::vector<Tensor<float, R>> const& weights,
                               ops::TableBags<R> const& bags,
                               Tensor<float, R> const& factors) {
    auto all = tables();
    for (std::size_t t = 0; t < weights.size(); ++t) {
      copy(std::get<0>(all.table(static_cast<std::int64_t>(t)).weights), weights[t]);
    }
    GradientTape<R> tape(this->device());
    Optimizer<R> optimizer(this->device(),
                           {.kind = ops::OptimizerKind::adagrad, .learning_rate = 0.1F});
    for (std::int64_t t = 0; t < all.tables(); ++t) {
      optimizer.add_table("t" + std::to_string(t), std::get<0>(all.table(t).weights));
    }
    auto const features = ops::cast<T>(tape, dense);
    auto const joined =
        beside
            ? ops::embedding_lookup_beside(tape, features, all, bags)
            : ops::concat(tape, std::vector{features, ops::embedding_lookup<T>(tape, all, bags)});
    tape.backward(ops::sum(tape, ops::multiply(tape, ops::cast<float>(tape, joined), factors)));
    std::vector<Doubles> results{to_doubles(to_host(joined)),
                                 to_doubles(to_host(tape.gradient(dense)))};
    optimizer.step(tape);
    for (std::int64_t t = 0; t < all.tables(); ++t) {
      results.push_back(to_doubles(to_host(std::get<0>(all.table(t).weights))));
    }
    return results;
  }
  template <RealElement T>
  void expect_equal_bits() {
    for (std::int64_t const columns : {0, 1, 3, 8}) {
      auto const dense = this->random_tensor({kBatch, columns});
      auto const all = tables();
      std::vector<Tensor<float, R>> weights;
      for (std::int64_t t = 0; t < all.tables(); ++t) {
        weights.push_back(std::get<0>(all.table(t).weights));
      }
      auto const ids = bags();
      auto const factors = this->random_tensor({kBatch, columns + all.width()});
      auto const beside = trained<T>(true, dense, weights, ids, factors);
      EXPECT_EQ(beside, trained<T>(false, dense, weights, ids, factors)) << columns << " columns";
      EXPECT_NE(beside.back(), to_doubles(to_host(weights.back()))) << "the tables did not move";
    }
  }
};
TYPED_TEST_SUITE(LookupBesideTest, Runtimes, RuntimeNames);

TYPED_TEST(LookupBesideTest, trains_as_a_concatenation_does) {
  this->template expect_equal_bits<float>();
}
TYPED_TEST(LookupBesideTest, trains_as_a_concatenation_does_in_half_precision) {
  this->template expect_equal_bits<bfloat16>();
  this->template expect_equal_bits<float16>();
}

TYPED_TEST(LookupBesideTest, works_without_a_tape_and_without_gradients) {
  auto const all = this->tables();
  auto const ids = this->bags();
  auto const dense = this->random_tensor({this->kBatch, 5});
  auto const expected = to_host(ops::concat(std::vector{dense, ops::embedding_lookup(all, ids)}));
  EXPECT_EQ(to_host(ops::embedding_lookup_beside(dense, all, ids)), expected);
  NoTape tape;
  EXPECT_EQ(to_host(ops::embedding_lookup_beside(tape, dense, all, ids)), expected);
}

TYPED_TEST(LookupBesideTest, weights_of_the_ids_have_gradients_beside_others) {
  auto const table = this->random_tensor({6, 4});
  ops::EmbeddingTables<TypeParam> const all(this->device(), {{.weights = table}});
  auto const weights = this->random_tensor({4});
  ops::TableBags<TypeParam> const bags{
      .ids = this->put(Integers{5, 0, 3, 3}), .batch = 4, .weights = weights};
  auto const dense = this->random_tensor({4, 2});
  auto const factors = this->random_tensor({4, 6});
  auto const gradient_of = [&](bool beside) {
    GradientTape<TypeParam> tape(this->device());
    auto const joined =
        beside ? ops::embedding_lookup_beside(tape, dense, all, bags)
               : ops::concat(tape, std::vector{dense, ops::embedding_lookup(tape, all, bags)});
    tape.backward(ops::sum(tape, ops::multiply(tape, joined, factors)));
    return to_host(tape.gradient(weights));
  };
  EXPECT_EQ(gradient_of(true), gradient_of(false));
}

TYPED_TEST(LookupBesideTest, refuses_features_of_another_batch) {
  auto const all = this->tables();
  auto const ids = this->bags();
  EXPECT_THAT(
      message_of<std::invalid_argument>([&] {
        (void)ops::embedding_lookup_beside(this->random_tensor({6, 2}), all, ids);
      }),
      ::testing::HasSubstr("features of shape [6, 2] beside a batch of 7; expected [7, n]"));
}

}  // namespace
}  // namespace msstream::testing
