// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/ops/embedding_tables.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/optimizer.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::testing {
namespace {

using ops::EmbeddingTable;
using ops::EmbeddingTables;
using ops::Pooling;
using ops::TableBags;

constexpr std::int64_t kTablesBatch = 5;

/// A table of a lookup in many tables in double, for references.
struct ReferenceTable {
  std::int64_t rows;
  std::int64_t width;
  Pooling pooling;
  std::int64_t hotness;
  std::optional<std::int64_t> default_id = {};
};

/// The ids of many tables, with offsets.
struct ReferenceBags {
  Integers ids;
  Integers offsets;
  Floats weights;  ///< empty if all are 1

  [[nodiscard]] double weight(std::int64_t place) const {
    return weights.empty() ? 1.0 : double{weights[static_cast<std::size_t>(place)]};
  }
};

/// Pools the rows of one bag in double. `elements` are those of the table.
Doubles pooled_bag(ReferenceTable const& table,
                   Doubles const& elements,
                   ReferenceBags const& bags,
                   std::size_t bag_of_all) {
  auto const element = [&](std::int64_t id, std::int64_t column) {
    return elements[static_cast<std::size_t>(id * table.width + column)];
  };
  Doubles pooled;
  for (std::int64_t c = 0; c < table.width; ++c) {
    double sum = 0.0;
    double divisor = 0.0;
    std::optional<double> most;
    for (auto place = bags.offsets[bag_of_all]; place < bags.offsets[bag_of_all + 1]; ++place) {
      auto const id = bags.ids[static_cast<std::size_t>(place)];
      auto const weight = bags.weight(place);
      if (id >= 0 && id < table.rows) {
        sum += weight * element(id, c);
        divisor += table.pooling == Pooling::sqrtn ? weight * weight : weight;
        most = std::max(most.value_or(element(id, c)), element(id, c));
      }
    }
    pooled.push_back(!most ? (table.default_id ? element(*table.default_id, c) : 0.0)
                     : table.pooling == Pooling::max   ? *most
                     : table.pooling == Pooling::mean  ? sum / divisor
                     : table.pooling == Pooling::sqrtn ? sum / std::sqrt(divisor)
                                                       : sum);
  }
  return pooled;
}

/// Computes the output of a lookup in many tables in double.
Doubles pool_all(std::vector<ReferenceTable> const& tables,
                 std::vector<Doubles> const& elements,
                 ReferenceBags const& bags) {
  Doubles output;
  for (std::size_t bag = 0; bag < kTablesBatch; ++bag) {
    for (std::size_t t = 0; t < tables.size(); ++t) {
      auto const pooled = pooled_bag(tables[t], elements[t], bags, t * kTablesBatch + bag);
      output.insert(output.end(), pooled.begin(), pooled.end());
    }
  }
  return output;
}

template <class R>
class DifferentiableTablesTest : public GradientTest<R> {
 protected:
  using Input = Tensor<float, R>;
  using Tables = EmbeddingTables<R>;

  static std::vector<ReferenceTable> mixed_tables() {
    return {{6, 3, Pooling::sum, 2},
            {4, 1, Pooling::max, 3, 1},
            {5, 4, Pooling::mean, 1},
            {7, 33, Pooling::max, 1},
            {3, 5, Pooling::sqrtn, 3, 2},
            {6, 4, Pooling::max, 4}};
  }
  /// Returns random ids, of which some are outside the table. Bags have the hotness of the table,
  /// or random lengths from 0 to 4.
  ReferenceBags random_bags(std::vector<ReferenceTable> const& tables, bool is_jagged) {
    ReferenceBags bags{{}, {0}, {}};
    for (auto const& table : tables) {
      for (std::int64_t bag = 0; bag < kTablesBatch; ++bag) {
        auto const ids = this->random.integers(
            is_jagged ? this->random.integer(0, 4) : table.hotness, -1, table.rows);
        bags.ids.insert(bags.ids.end(), ids.begin(), ids.end());
        bags.offsets.push_back(std::ssize(bags.ids));
      }
    }
    return bags;
  }
  TableBags<R> put_bags(ReferenceBags const& bags, bool is_jagged, bool is_narrow = false) {
    auto const put_ids = [&](Integers const& ids) -> ops::IdTensor<R> {
      if (is_narrow) {
        return this->put(std::vector<std::int32_t>(ids.begin(), ids.end()));
      }
      return this->put(ids);
    };
    TableBags<R> put{.ids = put_ids(bags.ids), .batch = kTablesBatch};
    if (is_jagged) {
      put.offsets = put_ids(bags.offsets);
    }
    if (!bags.weights.empty()) {
      put.weights = this->put(bags.weights);
    }
    return put;
  }
  [[nodiscard]] Tables tables_of(std::vector<ReferenceTable> const& about,
                                 std::vector<Input> const& weights) const {
    std::vector<EmbeddingTable<R>> list;
    for (std::size_t t = 0; t < about.size(); ++t) {
      list.push_back({.weights = weights[t],
                      .pooling = about[t].pooling,
                      .hotness = about[t].hotness,
                      .default_id = about[t].default_id});
    }
    return Tables(this->device(), list);
  }
  /// Returns the sum of a table's row gradients as a dense array.
  static Floats dense(GradientTape<R> const& tape, Tensor<float, R> const& table) {
    Floats gradient(static_cast<std::size_t>(table.count()), 0.0F);
    auto const width = static_cast<std::size_t>(table.shape()[1]);
    for (auto const& part : tape.row_gradients(table)) {
      auto const count = to_host(part.rows.count).front();
      auto const ids = to_host(part.rows.ids.rows(0, count));
      auto const values = to_host(part.rows.values.rows(0, count));
      EXPECT_TRUE(std::ranges::is_sorted(ids, std::less_equal<>()) || count == 0);
      for (std::size_t i = 0; i < values.size(); ++i) {
        gradient.at(static_cast<std::size_t>(ids[i / width]) * width + i % width) += values[i];
      }
    }
    return gradient;
  }
  /// Records a loss of the output with random labels, and plays it back. Returns the labels.
  Floats backward(GradientTape<R>& tape, Input const& output) {
    auto const labels = this->random.reals(output.count(), 0.0F, 1.0F);
    tape.backward(ops::mean_bce_with_logits(tape, output, this->put(labels, output.shape())));
    return labels;
  }
};
TYPED_TEST_SUITE(DifferentiableTablesTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableTablesTest, every_table_and_pooling_agrees_with_central_differences) {
  auto const about = this->mixed_tables();
  for (bool const is_jagged : {false, true}) {
    SCOPED_TRACE(is_jagged ? "offsets" : "fixed hotness");
    auto const bags = this->random_bags(about, is_jagged);
    std::vector<Floats> starts;
    std::vector<Tensor<float, TypeParam>> weights;
    std::vector<Doubles> elements;
    for (auto const& table : about) {
      starts.push_back(this->random.reals(table.rows * table.width));
      weights.push_back(this->put(starts.back(), {table.rows, table.width}));
      elements.push_back(to_doubles(starts.back()));
    }
    GradientTape tape(this->device());
    auto const pooled = ops::embedding_lookup(
        tape, this->tables_of(about, weights), this->put_bags(bags, is_jagged, is_jagged));
    expect_near(to_host(pooled), pool_all(about, elements, bags));
    EXPECT_EQ(to_host(ops::embedding_lookup(
                  no_tape, this->tables_of(about, weights), this->put_bags(bags, is_jagged))),
              to_host(pooled));
    auto const labels = this->backward(tape, pooled);
    for (std::size_t t = 0; t < about.size(); ++t) {
      SCOPED_TRACE(fmt::format("table {}", t));
      auto const expected = numeric_gradient(
          [&](Doubles const& at) {
            auto moved = elements;
            moved[t] = at;
            return this->loss(pool_all(about, moved, bags), labels);
          },
          elements[t]);
      expect_near(this->dense(tape, weights[t]), expected);
      expect_near(to_host(tape.gradient(weights[t])), expected);
      EXPECT_EQ(tape.row_gradients(weights[t]).size(), 1U);
    }
  }
}

TYPED_TEST(DifferentiableTablesTest, weights_of_the_ids_of_sums_have_a_gradient) {
  std::vector<ReferenceTable> about = {{6, 3, Pooling::sum, 2}, {4, 34, Pooling::sum, 1}};
  for (bool const has_mean : {false, true}) {
    if (has_mean) {
      about.push_back({4, 2, Pooling::mean, 2});
    }
    auto bags = this->random_bags(about, true);
    bags.weights = this->random.reals(std::ssize(bags.ids), 0.5F, 2.0F);
    std::vector<Tensor<float, TypeParam>> weights;
    std::vector<Doubles> elements;
    for (auto const& table : about) {
      weights.push_back(this->random_tensor({table.rows, table.width}));
      elements.push_back(to_doubles(to_host(weights.back())));
    }
    auto const put = this->put_bags(bags, true);
    GradientTape tape(this->device());
    auto const pooled = ops::embedding_lookup(tape, this->tables_of(about, weights), put);
    auto const labels = this->backward(tape, pooled);
    expect_near(this->dense(tape, weights[1]),
                numeric_gradient(
                    [&](Doubles const& at) {
                      auto moved = elements;
                      moved[1] = at;
                      return this->loss(pool_all(about, moved, bags), labels);
                    },
                    elements[1]));
    Doubles expected(bags.ids.size(), 0.0);
    auto const sums = static_cast<std::size_t>(bags.offsets[2 * kTablesBatch]);
    for (std::size_t i = 0; i < sums; ++i) {
      constexpr float kStep = 1e-3F;  // the loss is computed in double from weights in float
      auto moved = bags;
      moved.weights[i] += kStep;
      auto const above = this->loss(pool_all(about, elements, moved), labels);
      double const high = moved.weights[i];
      moved.weights[i] = bags.weights[i] - kStep;
      auto const below = this->loss(pool_all(about, elements, moved), labels);
      expected[i] = (above - below) / (high - double{moved.weights[i]});
    }
    expect_near(to_host(tape.gradient(*put.weights)), expected, 1e-5);
  }
}

TYPED_TEST(DifferentiableTablesTest, excluded_and_frozen_tables_get_none) {
  auto const wanted = this->random_tensor({4, 2});
  auto const excluded = this->random_tensor({4, 3});
  auto frozen = this->random_tensor({4, 1});
  frozen.freeze();
  EmbeddingTables<TypeParam> const tables(
      this->device(), {{.weights = excluded}, {.weights = wanted}, {.weights = frozen}});
  TableBags<TypeParam> const bags{.ids = this->put(Integers{0, 1, 2, 3, 3, 3}), .batch = 2};
  GradientTape tape(this->device());
  tape.without_gradient(excluded);
  tape.backward(ops::sum(tape, ops::embedding_lookup(tape, tables, bags)));
  EXPECT_EQ(to_host(tape.gradient(wanted)), (Floats{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_FALSE(tape.has_gradient(excluded));
  EXPECT_FALSE(tape.has_gradient(frozen));
  EXPECT_TRUE(tape.row_gradients(excluded).empty());
  tape.clear();

  // The backward of a lookup whose tables all want no gradient computes none.
  tape.without_gradient(excluded);
  tape.without_gradient(wanted);
  auto const pooled = ops::embedding_lookup(tape, tables, bags);
  this->device().start_spans();
  tape.backward(ops::sum(tape, pooled));
  auto const timeline = this->device().stop_spans();
  EXPECT_TRUE(std::ranges::none_of(timeline.spans(), [](auto const& span) {
    return span.name.ends_with("embedding_tables_gradient");
  }));
  EXPECT_FALSE(tape.has_gradient(wanted));
}

TYPED_TEST(DifferentiableTablesTest, lookups_of_one_table_add_up) {
  auto const shared = this->random_tensor({5, 2});
  auto const other = this->random_tensor({3, 4});
  // One table is looked up twice in one lookup, as a whole and as a view, and again in another.
  EmbeddingTables<TypeParam> const tables(this->device(),
                                          {{.weights = shared},
                                           {.weights = other},
                                           {.weights = shared.rows(2, 5)},
                                           {.weights = shared, .pooling = Pooling::max}});
  TableBags<TypeParam> const bags{.ids = this->put(Integers{0, 4, 1, 1, 0, 2, 4, 4}), .batch = 2};
  GradientTape tape(this->device());
  auto const alone =
      ops::embedding_lookup(tape, shared, {this->put(Integers{4, 3})}, {.pooling = Pooling::none});
  tape.backward(ops::add(tape,
                         std::vector{ops::sum(tape, ops::embedding_lookup(tape, tables, bags)),
                                     ops::scale(tape, ops::sum(tape, alone), 0.5F)}));
  EXPECT_EQ(tape.row_gradients(shared).size(), 4U);
  Floats const expected{1, 1, 0, 0, 1, 1, 0.5F, 0.5F, 4.5F, 4.5F};
  EXPECT_EQ(this->dense(tape, shared), expected);
  EXPECT_EQ(to_host(tape.gradient(shared)), expected);
  auto const sum = tape.row_gradient_sum(shared);
  ASSERT_TRUE(sum);
  EXPECT_EQ(to_host(sum->rows.count).front(), 4);
  EXPECT_EQ(to_host(sum->rows.ids.rows(0, 4)), (Integers{0, 2, 3, 4}));
  EXPECT_EQ(to_host(sum->rows.values.rows(0, 4)), (Floats{1, 1, 1, 1, 0.5F, 0.5F, 4.5F, 4.5F}));
  EXPECT_EQ(to_host(tape.gradient(shared.rows(2, 5))), (Floats{1, 1, 0.5F, 0.5F, 4.5F, 4.5F}));
  EXPECT_EQ(to_host(tape.gradient(other)), (Floats{0, 0, 0, 0, 2, 2, 2, 2, 0, 0, 0, 0}));
}

TYPED_TEST(DifferentiableTablesTest, gradients_of_several_backward_calls_add_up) {
  auto const table = this->random_tensor({3, 2});
  EmbeddingTables<TypeParam> const tables(this->device(), {{.weights = table, .hotness = 2}});
  GradientTape tape(this->device());
  for (auto const& ids : {Integers{0, 0}, Integers{0, 2}}) {
    tape.backward(
        ops::sum(tape,
                 ops::embedding_lookup(
                     tape, tables, TableBags<TypeParam>{.ids = this->put(ids), .batch = 1})));
  }
  EXPECT_EQ(to_host(tape.gradient(table)), (Floats{3, 3, 0, 0, 1, 1}));
}

TYPED_TEST(DifferentiableTablesTest, an_empty_batch_and_a_tape_that_pauses) {
  auto const table = this->random_tensor({3, 2});
  EmbeddingTables<TypeParam> const tables(
      this->device(), {{.weights = table, .pooling = Pooling::max, .hotness = 2}});
  GradientTape tape(this->device());
  {
    typename GradientTape<TypeParam>::Pause const pause(tape);
    auto const pooled = ops::embedding_lookup(
        tape, tables, TableBags<TypeParam>{.ids = this->put(Integers{1, 1}), .batch = 1});
    EXPECT_EQ(pooled.shape(), (Shape{1, 2}));
  }
  auto const pooled = ops::embedding_lookup(
      tape, tables, TableBags<TypeParam>{.ids = this->put(Integers{}), .batch = 0});
  tape.backward(ops::sum(tape, pooled));
  EXPECT_EQ(to_host(tape.gradient(table)), Floats(6, 0.0F));
}

TYPED_TEST(DifferentiableTablesTest, tables_that_the_loss_does_not_reach_are_named) {
  auto const reached = this->random_tensor({3, 2});
  auto const unreached = this->random_tensor({4, 2});
  EmbeddingTables<TypeParam> const first(this->device(), {{.weights = reached}});
  EmbeddingTables<TypeParam> const second(this->device(),
                                          {{.weights = reached}, {.weights = unreached}});
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 1.0F});
  optimizer.add_table("reached", reached);
  GradientTape tape(this->device());
  auto const pooled = ops::embedding_lookup(
      tape, first, TableBags<TypeParam>{.ids = this->put(Integers{0}), .batch = 1});
  (void)ops::embedding_lookup(
      tape, second, TableBags<TypeParam>{.ids = this->put(Integers{0, 1}), .batch = 1});
  tape.backward(ops::sum(tape, pooled));
  EXPECT_THAT(message_of<std::logic_error>([&] { optimizer.check(tape); }),
              ::testing::AllOf(::testing::HasSubstr("a table of shape [4, 2] was looked up"),
                               ::testing::Not(::testing::HasSubstr("[3, 2]"))));
  EXPECT_THAT(tape.why_no_gradient(unreached), ::testing::HasSubstr("it was looked up, but"));
}

// A table that a recorded operation computed gets a dense gradient.
TYPED_TEST(DifferentiableTablesTest, the_gradient_of_a_computed_table_goes_on) {
  auto const parameter = this->random_tensor({3, 2});
  GradientTape tape(this->device());
  auto const table = ops::scale(tape, parameter, 3.0F);
  EmbeddingTables<TypeParam> const tables(
      this->device(), {{.weights = this->random_tensor({2, 1})}, {.weights = table}});
  tape.backward(ops::sum(
      tape,
      ops::embedding_lookup(
          tape, tables, TableBags<TypeParam>{.ids = this->put(Integers{1, 2}), .batch = 1})));
  EXPECT_EQ(to_host(tape.gradient(parameter)), (Floats{0, 0, 0, 0, 3, 3}));
}

}  // namespace
}  // namespace msstream::testing
