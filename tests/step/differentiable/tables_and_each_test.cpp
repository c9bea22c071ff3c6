// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

namespace msstream::testing {
namespace {

using ops::Bags;
using ops::Pooling;

constexpr std::int64_t kTableSamples = 9;

/// Tables of different poolings and widths, whose lookup together is compared with one lookup each.
template <class R>
class TablesAndEachTest : public GradientTest<R> {
 protected:
  using Input = Tensor<float, R>;
  struct OneTable {
    Input weights;
    Pooling pooling;
    std::int64_t hotness;
    std::optional<std::int64_t> default_id = {};
  };

  std::vector<OneTable> tables(bool with_max) {
    std::vector<OneTable> made{
        {this->random_tensor({10, 3}), Pooling::sum, 2},
        {this->random_tensor({7, 4}), Pooling::mean, 1, 5},
        {this->random_tensor({5, 2}), Pooling::sqrtn, 3},
    };
    if (with_max) {
      made.push_back({this->random_tensor({8, 5}), Pooling::max, 2});
    }
    return made;
  }
  ops::EmbeddingTables<R> together(std::vector<OneTable> const& tables) const {
    std::vector<ops::EmbeddingTable<R>> all;
    for (auto const& table : tables) {
      all.push_back({table.weights, table.pooling, table.hotness, table.default_id});
    }
    return {this->device(), all};
  }
  /// Expects equal losses and gradients of a lookup in all tables and of one lookup each.
  void expect_equal(std::vector<OneTable> const& tables,
                    ops::TableBags<R> const& bags,
                    std::vector<Bags<R>> const& each) {
    GradientTape tape(this->device());
    auto const pooled = ops::embedding_lookup(tape, together(tables), bags);
    EXPECT_EQ(to_host(ops::embedding_lookup(no_tape, together(tables), bags)), to_host(pooled));
    auto const labels = this->put(this->random.reals(pooled.count(), 0.0F, 1.0F), pooled.shape());
    tape.backward(ops::mean_bce_with_logits(tape, pooled, labels));

    GradientTape other(this->device());
    std::vector<Input> columns;
    for (std::size_t t = 0; t < tables.size(); ++t) {
      auto table_bags = each[t];
      table_bags.default_id = tables[t].default_id;
      columns.push_back(ops::embedding_lookup(
          other, tables[t].weights, table_bags, {.pooling = tables[t].pooling}));
    }
    other.backward(ops::mean_bce_with_logits(other, ops::concat(other, columns), labels));
    for (auto const& table : tables) {
      EXPECT_EQ(tape.row_gradients(table.weights).size(), 1U);
      expect_near(to_host(tape.gradient(table.weights)),
                  to_doubles(to_host(other.gradient(table.weights))));
    }
    if (bags.weights) {
      EXPECT_EQ(tape.gradient(*bags.weights).count(), bags.weights->count());
    }
  }
};
TYPED_TEST_SUITE(TablesAndEachTest, Runtimes, RuntimeNames);

TYPED_TEST(TablesAndEachTest, bags_of_a_fixed_hotness) {
  auto const tables = this->tables(true);
  Integers ids;
  std::vector<Bags<TypeParam>> each;
  for (auto const& table : tables) {
    // Some ids are out of range.
    auto const own = this->random.integers(kTableSamples * table.hotness, -1, 10);
    ids.insert(ids.end(), own.begin(), own.end());
    each.push_back(Bags<TypeParam>(this->put(own, {kTableSamples, table.hotness})));
  }
  this->expect_equal(tables, {this->put(ids), kTableSamples}, each);
}

TYPED_TEST(TablesAndEachTest, bags_by_offsets) {
  auto const tables = this->tables(true);
  Integers ids;
  Integers offsets{0};
  std::vector<Bags<TypeParam>> each;
  for (std::size_t t = 0; t < tables.size(); ++t) {
    Integers own;
    Integers own_offsets{0};
    for (std::int64_t sample = 0; sample < kTableSamples; ++sample) {
      for (auto length = this->random.integer(0, 3); length > 0; --length) {
        own.push_back(this->random.integer(0, 6));
      }
      own_offsets.push_back(std::ssize(own));
      offsets.push_back(std::ssize(ids) + std::ssize(own));
    }
    ids.insert(ids.end(), own.begin(), own.end());
    each.push_back(Bags<TypeParam>(this->put(own), this->put(own_offsets)));
  }
  this->expect_equal(
      tables, {this->put(ids), kTableSamples, ops::IdTensor<TypeParam>(this->put(offsets))}, each);
}

TYPED_TEST(TablesAndEachTest, weighted_bags) {
  auto const tables = this->tables(false);
  Integers ids;
  Floats weights;
  std::vector<Bags<TypeParam>> each;
  for (auto const& table : tables) {
    auto const own = this->random.integers(kTableSamples * table.hotness, 0, 4);
    auto const factors = this->random.reals(kTableSamples * table.hotness, 0.5F, 1.5F);
    ids.insert(ids.end(), own.begin(), own.end());
    weights.insert(weights.end(), factors.begin(), factors.end());
    each.push_back(Bags<TypeParam>(this->put(own, {kTableSamples, table.hotness})));
    each.back().weights = this->put(factors, {kTableSamples, table.hotness});
  }
  ops::TableBags<TypeParam> bags{this->put(ids), kTableSamples};
  bags.weights = this->put(weights);
  this->expect_equal(tables, bags, each);
}

}  // namespace
}  // namespace msstream::testing
