// SPDX-License-Identifier: Apache-2.0
// Tests update_rows() for EmbeddingTables, which must give the bits of an update of each table by a
// copy of its gradients.
#include "ops/ops_fixture.hpp"

#include <msstream/ops/embedding_tables.hpp>
#include <msstream/ops/optimizer.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

namespace msstream::testing {
namespace {

using ops::EmbeddingTable;
using ops::EmbeddingTables;
using ops::OptimizerKind;
using ops::TableBags;

template <class R>
class UpdateTablesTest : public OpsTest<R> {
 protected:
  using Tables = std::vector<EmbeddingTable<R>>;

  [[nodiscard]] ops::AnyTable<R> weights_of(Floats const& values, Shape const& shape, int type) {
    auto const put = [&]<class T>(T) -> ops::AnyTable<R> {
      std::vector<T> narrow;
      for (float const value : values) {
        narrow.push_back(from_float<T>(value));
      }
      return this->put(narrow, shape);
    };
    return type == 0 ? put(float{}) : type == 1 ? put(float16{}) : put(bfloat16{});
  }
  static Doubles values_of(ops::AnyTable<R> const& table) {
    return std::visit([](auto const& weights) { return to_doubles(to_host(weights)); }, table);
  }
};
TYPED_TEST_SUITE(UpdateTablesTest, Runtimes, RuntimeNames);

TYPED_TEST(UpdateTablesTest, all_tables_of_all_types_move_as_each_alone) {
  constexpr std::int64_t kBatch = 13;
  Integers const widths{1, 3, 4, 32, 33, 128, 4, 8};
  std::vector<Floats> starts;
  Integers rows;
  for (auto const width : widths) {
    rows.push_back(this->random.integer(5, 30));
    starts.push_back(this->random.reals(rows.back() * width));
  }
  auto const tables_in = [&] {
    typename TestFixture::Tables list;
    for (std::size_t t = 0; t < widths.size(); ++t) {
      list.push_back(
          {.weights = this->weights_of(starts[t], {rows[t], widths[t]}, static_cast<int>(t % 3)),
           .hotness = static_cast<std::int64_t>(t % 3)});
    }
    return list;
  };
  for (int number = 0; number <= static_cast<int>(OptimizerKind::partial_rowwise_adam); ++number) {
    SCOPED_TRACE(fmt::format("kind {}", number));
    auto const kind = static_cast<OptimizerKind>(number);
    ops::OptimizerRule const rule{.kind = kind, .learning_rate = 0.1F};
    auto const list = tables_in();
    auto const alone = tables_in();
    EmbeddingTables<TypeParam> const tables(this->device(), list);
    std::vector<ops::OptimizerState<TypeParam>> states;
    std::vector<ops::OptimizerState<TypeParam>> alone_states;
    for (std::size_t t = 0; t < widths.size(); ++t) {
      for (auto* const of : {&states, &alone_states}) {
        of->push_back(ops::make_state(this->device(), kind, {rows[t], widths[t]}));
      }
    }
    ops::StepCounter step(this->device());
    for (int i = 0; i < 2; ++i) {
      step.advance(rule);
      Integers ids;
      for (std::size_t t = 0; t < widths.size(); ++t) {
        auto const own =
            this->random.integers(kBatch * static_cast<std::int64_t>(t % 3), -1, rows[t]);
        ids.insert(ids.end(), own.begin(), own.end());
      }
      auto const gradients = ops::embedding_tables_gradient(
          tables,
          TableBags<TypeParam>{.ids = this->put(ids), .batch = kBatch},
          this->random_tensor({kBatch, tables.width()}));
      ops::update_rows(rule, step, tables, states, gradients);
      auto const all_rows = to_host(gradients.rows);
      auto const all_values = to_host(gradients.values.rows(0, to_host(gradients.count).front()));
      auto const all_starts = to_host(gradients.table_starts);
      auto const widest = gradients.values.shape()[1];
      for (std::size_t t = 0; t < widths.size(); ++t) {
        Integers own_rows;
        Floats own_values;
        for (auto u = all_starts[t]; u < all_starts[t + 1]; ++u) {
          own_rows.push_back(all_rows[static_cast<std::size_t>(u)] -
                             tables.first_row(static_cast<std::int64_t>(t)));
          auto const from = all_values.begin() + u * widest;
          own_values.insert(own_values.end(), from, from + widths[t]);
        }
        auto const count = std::ssize(own_rows);
        ops::RowGradients<TypeParam> const own{
            this->put(own_rows), this->scalar(count), this->put(own_values, {count, widths[t]})};
        std::visit(
            [&](auto const& weights) {
              ops::update_rows(rule, step, weights, own, alone_states[t]);
            },
            alone[t].weights);
      }
    }
    for (std::size_t t = 0; t < widths.size(); ++t) {
      SCOPED_TRACE(fmt::format("table {}", t));
      EXPECT_EQ(this->values_of(list[t].weights), this->values_of(alone[t].weights));
      if (states[t].first) {
        EXPECT_EQ(to_host(*states[t].first), to_host(*alone_states[t].first));
      }
      if (states[t].second) {
        EXPECT_EQ(to_host(*states[t].second), to_host(*alone_states[t].second));
      }
    }
  }
}

TYPED_TEST(UpdateTablesTest, refuses_what_does_not_fit) {
  ops::OptimizerRule const rule{.kind = OptimizerKind::sgd, .learning_rate = 0.1F};
  ops::StepCounter step(this->device());
  step.advance(rule);
  auto const weights = this->any({4, 2});
  EmbeddingTables<TypeParam> const tables(this->device(), {{.weights = weights}});
  EmbeddingTables<TypeParam> const twice(
      this->device(), {{.weights = weights.rows(1, 4)}, {.weights = weights.rows(0, 2)}});
  using States = std::vector<ops::OptimizerState<TypeParam>>;
  auto const gradients_of = [&](EmbeddingTables<TypeParam> const& of) {
    return ops::embedding_tables_gradient(
        of,
        TableBags<TypeParam>{.ids = this->put(Integers(static_cast<std::size_t>(of.tables()), 1)),
                             .batch = 1},
        this->any({1, of.width()}));
  };
  auto const one = gradients_of(tables);
  auto const two = gradients_of(twice);
  expect_refused(
      [&] { ops::update_rows(rule, step, tables, States(2), one); }, "1 tables", "2 states");
  expect_refused([&] { ops::update_rows(rule, step, tables, States(1), two); }, "of 2 tables");
  expect_refused([&] { ops::update_rows(rule, step, twice, States(2), two); }, "share elements");
  expect_refused(
      [&] {
        ops::update_rows(
            {.kind = OptimizerKind::adam, .learning_rate = 0.1F}, step, tables, States(1), one);
      },
      "state");
}

}  // namespace
}  // namespace msstream::testing
