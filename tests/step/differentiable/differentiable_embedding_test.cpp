// SPDX-License-Identifier: Apache-2.0
#include "step/gradient_fixture.hpp"

#include <msstream/step/differentiable/elementwise.hpp>
#include <msstream/step/differentiable/embedding.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace msstream::testing {
namespace {

using ops::Pooling;

constexpr std::int64_t kTableRows = 6;
constexpr std::size_t kTableWidth = 3;
constexpr std::size_t kBagCount = 4;
constexpr std::size_t kHotness = 3;

/// The ids of four bags of three ids each. The second bag has no valid id.
Integers const kIds = {1, 5, 1, -1, 6, -3, 2, 2, 5, 4, 3, 3};

/// Computes the pooled rows of an embedding lookup in double.
Doubles pool(Doubles const& table,
             Doubles const& weights,
             Pooling pooling,
             std::optional<std::int64_t> default_id) {
  auto const row = [&](std::int64_t id, std::size_t c) {
    return table[static_cast<std::size_t>(id) * kTableWidth + c];
  };
  Doubles out;
  for (std::size_t bag = 0; bag < kBagCount; ++bag) {
    for (std::size_t c = 0; c < kTableWidth && pooling != Pooling::none; ++c) {
      double sum = 0.0;
      double divisor = 0.0;
      double most = -1e30;
      bool is_empty = true;
      for (std::size_t k = bag * kHotness; k < (bag + 1) * kHotness; ++k) {
        if (kIds[k] >= 0 && kIds[k] < kTableRows) {
          is_empty = false;
          sum += weights[k] * row(kIds[k], c);
          divisor += pooling == Pooling::sqrtn ? weights[k] * weights[k] : weights[k];
          most = std::max(most, row(kIds[k], c));
        }
      }
      out.push_back(is_empty                    ? (default_id ? row(*default_id, c) : 0.0)
                    : pooling == Pooling::max   ? most
                    : pooling == Pooling::mean  ? sum / divisor
                    : pooling == Pooling::sqrtn ? sum / std::sqrt(divisor)
                                                : sum);
    }
    for (std::size_t k = bag * kHotness; k < (bag + 1) * kHotness && pooling == Pooling::none;
         ++k) {
      for (std::size_t c = 0; c < kTableWidth; ++c) {
        bool const is_valid = kIds[k] >= 0 && kIds[k] < kTableRows;
        out.push_back(is_valid ? weights[k] * row(kIds[k], c) : 0.0);
      }
    }
  }
  return out;
}

template <class R>
class DifferentiableEmbeddingTest : public GradientTest<R> {
 protected:
  Floats whole_table(GradientTape<R> const& tape, Tensor<float, R> const& table) {
    Floats gradient(kTableRows * kTableWidth, 0.0F);
    for (auto const& part : tape.row_gradients(table)) {
      auto const count = to_host(part.rows.count).front();
      auto const ids = to_host(part.rows.ids.rows(0, count));
      auto const values = to_host(part.rows.values.rows(0, count));
      for (std::size_t i = 0; i < values.size(); ++i) {
        gradient.at(static_cast<std::size_t>(ids[i / kTableWidth]) * kTableWidth +
                    i % kTableWidth) += values[i];
      }
    }
    return gradient;
  }
};
TYPED_TEST_SUITE(DifferentiableEmbeddingTest, Runtimes, RuntimeNames);

TYPED_TEST(DifferentiableEmbeddingTest, tables_and_weights_for_every_pooling) {
  auto const values = this->random.reals(kTableRows * static_cast<std::int64_t>(kTableWidth));
  auto const table = this->put(values, {kTableRows, static_cast<std::int64_t>(kTableWidth)});
  for (auto const pooling :
       {Pooling::sum, Pooling::mean, Pooling::sqrtn, Pooling::max, Pooling::none}) {
    for (bool const is_weighted : {false, true}) {
      for (bool const has_default : {false, true}) {
        if ((is_weighted && pooling == Pooling::max) || (has_default && pooling == Pooling::none)) {
          continue;
        }
        SCOPED_TRACE(fmt::format("pooling {}, weights {}", static_cast<int>(pooling), is_weighted));
        auto const weights = is_weighted ? this->random.reals(12, 0.5F, 2.0F) : Floats(12, 1.0F);
        ops::Bags<TypeParam> bags(this->put(kIds, {4, 3}));
        std::optional<std::int64_t> default_id;
        if (is_weighted) {
          bags.weights = this->put(weights, {4, 3});
        }
        if (has_default) {
          bags.default_id = default_id = 2;
        }
        GradientTape tape(this->device());
        auto const pooled = ops::embedding_lookup(tape, table, bags, {.pooling = pooling});
        auto const labels = this->random.reals(pooled.count(), 0.0F, 1.0F);
        tape.backward(ops::mean_bce_with_logits(tape, pooled, this->put(labels, pooled.shape())));
        auto const loss = [&](Doubles const& rows, Doubles const& by) {
          return this->loss(pool(rows, by, pooling, default_id), labels);
        };
        expect_near(
            this->whole_table(tape, table),
            numeric_gradient([&](Doubles const& at) { return loss(at, to_doubles(weights)); },
                             to_doubles(values)));
        if (is_weighted && (pooling == Pooling::sum || pooling == Pooling::none)) {
          expect_near(
              to_host(tape.gradient(*bags.weights)),
              numeric_gradient([&](Doubles const& at) { return loss(to_doubles(values), at); },
                               to_doubles(weights)));
        }
      }
    }
  }
}

TYPED_TEST(DifferentiableEmbeddingTest, ids_of_bags_with_bad_offsets_move_where_nothing_is_pooled) {
  auto const table = this->random_tensor({4, 1});
  // The offsets {0, 3, 2, 4} give three bags, and only the last bag is good.
  ops::Bags<TypeParam> const bags(this->put(Integers{0, 1, 2, 3}), this->put(Integers{0, 3, 2, 4}));
  GradientTape tape(this->device());
  auto const loss_of = [&](Pooling pooling) {
    auto const rows = ops::embedding_lookup(tape, table, bags, {.pooling = pooling});
    return ops::mean_bce_with_logits(
        tape, rows, this->put(Floats(static_cast<std::size_t>(rows.count()), 1.0F), rows.shape()));
  };
  // Two lookups with different pooling use the same bags. Backward groups the ids for each of them,
  // and must not use the grouping of one lookup for the other.
  auto const every_id = loss_of(Pooling::none);
  tape.backward(ops::add(tape, every_id, loss_of(Pooling::sum)));
  auto const gradient = this->whole_table(tape, table);
  EXPECT_NE(gradient[0], 0.0F);
  EXPECT_NE(gradient[2], 0.0F);
}

TYPED_TEST(DifferentiableEmbeddingTest, excluded_weights_and_tables_get_none) {
  auto const table = this->random_tensor({kTableRows, 3});
  ops::Bags<TypeParam> bags(this->put(kIds, {4, 3}));
  bags.weights = this->put(Floats(12, 1.0F), {4, 3});
  GradientTape tape(this->device());
  tape.without_gradient(*bags.weights);
  auto const pooled = ops::embedding_lookup(tape, table, bags, {});
  tape.backward(
      ops::mean_bce_with_logits(tape, pooled, this->put(Floats(12, 1.0F), pooled.shape())));
  EXPECT_EQ(tape.row_gradients(table).size(), 1U);
  EXPECT_THROW((void)tape.gradient(*bags.weights), std::logic_error);
}

}  // namespace
}  // namespace msstream::testing
