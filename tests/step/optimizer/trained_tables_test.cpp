// SPDX-License-Identifier: Apache-2.0
// Tests training with a lookup in many tables on the tape: it trains as one lookup per table does,
// and gives the same bits eagerly, captured, and on any number of groups.
#include "step/capture/captured_fixture.hpp"

#include <msstream/ops/embedding_tables.hpp>
#include <msstream/step/captured_step.hpp>
#include <msstream/step/differentiable_ops.hpp>
#include <msstream/step/non_finite_locator.hpp>
#include <msstream/step/optimizer.hpp>
#include <msstream/stream/stream_pool.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::testing {
namespace {

using ops::Pooling;

/// How a TablesTraining trains.
struct TrainedHow {
  ops::OptimizerKind kind = ops::OptimizerKind::adam;
  bool is_fused = true;  ///< by one lookup in all tables, otherwise by one per table
  int groups = 1;
  bool captured = false;
  OptimizerOptions options = {};
  /// Whether the gradients of one table are read before the optimizer's step, which computes those
  /// of all tables.
  bool reads_gradients = false;
  bool has_groups = false;  ///< whether tables have numbers of their own
};

/// A model of many tables of mixed rows, widths, types and poolings, whose pooled rows are added up
/// to a loss. Ids are drawn anew in each step.
template <Runtime R>
class TablesTraining {
 public:
  static constexpr std::int64_t kBatch = 24;
  static constexpr int kTables = 9;

  TablesTraining(Device<R> const& device, TrainedHow const& how)
      : device_(device),
        how_(how),
        pool_(device, {.groups = how.groups}),
        tape_(device),
        optimizer_(device, {.kind = how.kind, .learning_rate = 0.05F}, how.options) {
    Integers const widths{1, 3, 4, 32, 33, 128};
    std::int64_t places = 0;
    for (int t = 0; t < kTables; ++t) {
      auto const width = widths[static_cast<std::size_t>(t) % widths.size()];
      auto const rows = 3 + 11 * t;
      auto const table = ops::EmbeddingTable<R>{
          .weights = weights(rows, width, t % 3),
          .pooling = t % 4 == 0   ? Pooling::max
                     : t % 4 == 1 ? Pooling::mean
                     : t % 4 == 2 ? Pooling::sum
                                  : Pooling::sqrtn,
          .hotness = 1 + t % 5,
          .default_id = t % 2 == 0 ? std::optional<std::int64_t>(1) : std::nullopt};
      ops::ParameterGroup group;
      if (how.has_groups) {
        group = {.learning_rate = 0.25F * static_cast<float>(t), .clip_value = 1e-3F};
        if (t % 2 == 0) {
          group.weight_decay = 0.01F;
        }
      }
      std::visit(
          [&](auto const& of) { optimizer_.add_table(fmt::format("table{}", t), of, group); },
          table.weights);
      list_.push_back(table);
      width_ += width;
      places += kBatch * table.hotness;
    }
    tables_.emplace(device_, list_);
    ids_.emplace(device_, Shape{places});
    labels_ = to_device<float, R>(device_, reals(kBatch * width_, 0.0F), {kBatch, width_});
  }

  /// Returns the losses of the steps. If how.captured, all but the first are replays.
  Floats train(int steps) {
    Floats losses;
    std::optional<Tensor<float, R>> loss;
    std::optional<CapturedStep<R>> replayed;
    for (int i = 0; i < steps; ++i) {
      draw_ids();
      if (i == 0 || !how_.captured) {
        loss = step();
      } else {
        if (i == 1) {
          replayed.emplace(device_, [&] { loss = step(); });
        }
        replayed->replay();
      }
      losses.push_back(to_host(*loss).front());
    }
    return losses;
  }
  /// Returns all tables and all state of the optimizer.
  [[nodiscard]] std::vector<Doubles> values() const {
    std::vector<Doubles> values;
    for (auto const& table : list_) {
      values.push_back(
          std::visit([](auto const& of) { return to_doubles(to_host(of)); }, table.weights));
    }
    optimizer_.visit_state([&]<class T>(std::string const&, Tensor<T, R> const& state) {
      if constexpr (std::is_same_v<T, float>) {
        values.push_back(to_doubles(to_host(state)));
      }
    });
    return values;
  }
  [[nodiscard]] Tensor<float, R> step() {
    tape_.clear();
    auto const pooled = [&] {
      StreamScope const scope(pool_[how_.groups - 1], {.include_grad = true});
      return how_.is_fused ? all_at_once() : one_by_one();
    }();
    auto const loss = ops::mean_bce_with_logits(tape_, pooled, *labels_);
    tape_.backward(loss);
    if (how_.reads_gradients) {
      std::visit([&](auto const& of) { (void)tape_.row_gradients(of); }, list_.front().weights);
    }
    optimizer_.step(tape_);
    return loss;
  }
  /// Returns the names of the operations of a step that compute and apply gradients of tables.
  [[nodiscard]] std::vector<std::string> update_names() {
    device_.start_spans();
    (void)step();
    auto const timeline = device_.stop_spans();
    std::vector<std::string> names;
    for (auto const& span : timeline.spans()) {
      for (auto const* const end :
           {"update_rows", "update_tables", "rows_of_table", "merge_rows", "_gradient"}) {
        if (span.name.ends_with(end)) {
          names.push_back(span.name);
        }
      }
    }
    return names;
  }

 private:
  [[nodiscard]] Tensor<float, R> all_at_once() {
    return ops::embedding_lookup(tape_, *tables_, ops::TableBags<R>{.ids = *ids_, .batch = kBatch});
  }
  [[nodiscard]] Tensor<float, R> one_by_one() {
    std::vector<Tensor<float, R>> pooled;
    std::int64_t place = 0;
    for (auto const& table : list_) {
      auto const count = kBatch * table.hotness;
      ops::Bags<R> bags(ids_->rows(place, place + count).reshaped({kBatch, table.hotness}));
      bags.default_id = table.default_id;
      place += count;
      pooled.push_back(std::visit(
          [&](auto const& of) {
            return ops::embedding_lookup(tape_, of, bags, {.pooling = table.pooling});
          },
          table.weights));
    }
    return ops::concat(tape_, pooled);
  }
  void draw_ids() {
    Integers ids;
    for (auto const& table : list_) {
      auto const rows = std::visit([](auto const& of) { return of.shape()[0]; }, table.weights);
      for (std::int64_t i = 0; i < kBatch * table.hotness; ++i) {
        ids.push_back(static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(rows + 2)) -
                      1);
      }
    }
    copy(*ids_, to_device<std::int64_t, R>(device_, ids, ids_->shape()));
  }
  [[nodiscard]] Floats reals(std::int64_t count, float least) {
    Floats values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(least + (1.0F - least) * static_cast<float>(random_() % 1000) / 1000.0F);
    }
    return values;
  }
  [[nodiscard]] ops::AnyTable<R> weights(std::int64_t rows, std::int64_t width, int type) {
    auto const values = reals(rows * width, -1.0F);
    auto const put = [&]<class T>(T) -> ops::AnyTable<R> {
      std::vector<T> narrow;
      for (float const value : values) {
        narrow.push_back(from_float<T>(value));
      }
      return to_device<T, R>(device_, narrow, {rows, width});
    };
    return type == 0 ? put(float{}) : type == 1 ? put(float16{}) : put(bfloat16{});
  }

  std::mt19937_64 random_{7};
  Device<R> device_;
  TrainedHow how_;
  StreamPool<R> pool_;
  GradientTape<R> tape_;
  Optimizer<R> optimizer_;
  std::vector<ops::EmbeddingTable<R>> list_;
  std::int64_t width_ = 0;
  std::optional<ops::EmbeddingTables<R>> tables_;
  std::optional<Tensor<std::int64_t, R>> ids_;
  std::optional<Tensor<float, R>> labels_;
};

template <class R>
class TrainedTablesTest : public OpsTest<R> {
 protected:
  struct Trained {
    Floats losses;
    std::vector<Doubles> values;
  };
  Trained trained(TrainedHow const& how, int steps = 4) const {
    TablesTraining<R> training(this->device(), how);
    auto losses = training.train(steps);
    return {std::move(losses), training.values()};
  }
};
TYPED_TEST_SUITE(TrainedTablesTest, PlainRuntimes, RuntimeNames);

TYPED_TEST(TrainedTablesTest, one_lookup_in_all_tables_trains_as_one_per_table) {
  for (int kind = 0; kind <= static_cast<int>(ops::OptimizerKind::partial_rowwise_adam); ++kind) {
    SCOPED_TRACE(fmt::format("kind {}", kind));
    TrainedHow how{.kind = static_cast<ops::OptimizerKind>(kind)};
    // One step, because the signs of tiny differences would drive the rules apart in later ones.
    auto const fused = this->trained(how, 1);
    how.is_fused = false;
    auto const alone = this->trained(how, 1);
    EXPECT_NEAR(fused.losses.front(), alone.losses.front(), 1e-5);
    ASSERT_EQ(fused.values.size(), alone.values.size());
    for (std::size_t i = 0; i < alone.values.size(); ++i) {
      ASSERT_EQ(fused.values[i].size(), alone.values[i].size());
      // Tables of bfloat16 are rounded to eight bits.
      double const tolerance = i < TablesTraining<TypeParam>::kTables && i % 3 != 0 ? 1e-2 : 2e-4;
      for (std::size_t k = 0; k < alone.values[i].size(); ++k) {
        ASSERT_NEAR(fused.values[i][k],
                    alone.values[i][k],
                    tolerance * (1.0 + std::abs(alone.values[i][k])))
            << "value " << i << ", element " << k;
      }
    }
  }
}

TYPED_TEST(TrainedTablesTest, eager_captured_and_any_number_of_groups_give_the_same_bits) {
  for (auto const kind : {ops::OptimizerKind::adam, ops::OptimizerKind::rowwise_adagrad}) {
    constexpr float kNone = std::numeric_limits<float>::infinity();
    for (auto const& [clip_norm, rounding] :
         {std::pair(kNone, OptimizerOptions::Rounding::nearest),
          std::pair(0.01F, OptimizerOptions::Rounding::nearest),
          std::pair(kNone, OptimizerOptions::Rounding::stochastic)}) {
      TrainedHow how{.kind = kind, .options = {.clip_norm = clip_norm, .table_rounding = rounding}};
      auto const expected = this->trained(how);
      for (int const groups : {1, 2, 3, 8}) {
        for (bool const captured : {false, true}) {
          SCOPED_TRACE(fmt::format("{} groups{}", groups, captured ? ", captured" : ""));
          how.groups = groups;
          how.captured = captured;
          auto const found = this->trained(how);
          EXPECT_TRUE(same_bits(found.losses, expected.losses));
          EXPECT_EQ(found.values, expected.values);
        }
      }
    }
  }
}

TYPED_TEST(TrainedTablesTest, tables_move_in_one_operation_whatever_the_options_say) {
  std::vector<std::vector<Doubles>> all;
  for (bool const together : {false, true}) {
    TablesTraining<TypeParam> training(this->device(), {.options = {.tables_together = together}});
    (void)training.train(1);
    EXPECT_THAT(training.update_names(), ::testing::ElementsAre("update_tables"));
    all.push_back(training.values());
  }
  EXPECT_EQ(all.front(), all.back());
}

TYPED_TEST(TrainedTablesTest, gradients_that_are_needed_before_the_update_are_computed) {
  auto const names_of = [&](TrainedHow const& how) {
    TablesTraining<TypeParam> training(this->device(), how);
    (void)training.train(1);
    return training.update_names();
  };
  auto const is_apart =
      ::testing::ElementsAre("gradients/embedding_tables_gradient", "update_rows");
  EXPECT_THAT(names_of({.options = {.clip_norm = 0.01F}}), is_apart);
  EXPECT_THAT(names_of({.options = {.skip_non_finite = true}}), is_apart);
  EXPECT_THAT(names_of({.reads_gradients = true}),
              ::testing::ElementsAre(
                  "gradients/embedding_tables_gradient", "rows_of_table", "update_rows"));
}

TYPED_TEST(TrainedTablesTest, gradients_that_are_never_stored_move_tables_to_the_same_bits) {
  for (int kind = 0; kind <= static_cast<int>(ops::OptimizerKind::partial_rowwise_adam); ++kind) {
    for (auto const& [has_groups, rounding] :
         {std::pair(false, OptimizerOptions::Rounding::nearest),
          std::pair(true, OptimizerOptions::Rounding::nearest),
          std::pair(true, OptimizerOptions::Rounding::stochastic)}) {
      SCOPED_TRACE(fmt::format("kind {}{}, rounding {}",
                               kind,
                               has_groups ? ", groups" : "",
                               static_cast<int>(rounding)));
      TrainedHow how{.kind = static_cast<ops::OptimizerKind>(kind),
                     .options = {.table_rounding = rounding},
                     .reads_gradients = true,
                     .has_groups = has_groups};
      auto const stored = this->trained(how);
      how.reads_gradients = false;
      for (int const groups : {1, 2}) {
        for (bool const captured : {false, true}) {
          how.groups = groups;
          how.captured = captured;
          auto const fused = this->trained(how);
          EXPECT_TRUE(same_bits(fused.losses, stored.losses));
          EXPECT_EQ(fused.values, stored.values);
        }
      }
    }
  }
}

TYPED_TEST(TrainedTablesTest, a_gradient_that_is_read_does_not_change_the_update) {
  auto const values_of = [&](bool reads) {
    auto const table = this->put(Floats{1, 2, 3, 4, 5, 6}, {3, 2});
    auto const other = this->put(Floats{1, 2}, {2, 1});
    ops::EmbeddingTables<TypeParam> const tables(this->device(),
                                                 {{.weights = other}, {.weights = table}});
    Optimizer<TypeParam> optimizer(this->device(),
                                   {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.5F});
    optimizer.add_table("table", table);
    optimizer.add_table("other", other);
    GradientTape tape(this->device());
    auto const look_up = [&](Integers const& ids) {
      return ops::sum(
          tape,
          ops::embedding_lookup(
              tape, tables, ops::TableBags<TypeParam>{.ids = this->put(ids), .batch = 2}));
    };
    tape.backward(look_up({0, 1, 2, 2}));
    if (reads) {
      EXPECT_EQ(to_host(tape.gradient(table)), (Floats{0, 0, 0, 0, 2, 2}));
      EXPECT_EQ(tape.row_gradients(table).size(), 1U);
      EXPECT_TRUE(tape.row_gradient_sum(other));
    }
    optimizer.step(tape);
    tape.clear();
    // Two lookups of one table in a step are merged.
    tape.backward(ops::add(tape, look_up({0, 0, 0, 1}), look_up({1, 1, 1, 1})));
    optimizer.step(tape);
    return std::pair{to_host(table), to_host(other)};
  };
  EXPECT_EQ(values_of(false),
            (std::pair{Floats{0.5F, 1.5F, 1.5F, 2.5F, 4, 5}, Floats{-0.5F, 0.5F}}));
  EXPECT_EQ(values_of(true), values_of(false));
}

// The update of some tables computes no gradients, and leaves those of the others as they are.
TYPED_TEST(TrainedTablesTest, each_optimizer_moves_its_tables_of_a_lookup) {
  auto const first = this->put(Floats{1, 2, 3, 4, 5, 6}, {3, 2});
  auto const second = this->put(Floats{1, 2}, {2, 1});
  auto const third = this->put(Floats{7, 8}, {2, 1});
  auto frozen = this->put(Floats{9, 9}, {2, 1});
  frozen.freeze();
  ops::EmbeddingTables<TypeParam> const tables(
      this->device(),
      {{.weights = first}, {.weights = frozen}, {.weights = second}, {.weights = third}});
  Optimizer<TypeParam> fast(this->device(),
                            {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.5F});
  fast.add_table("third", third);
  fast.add_table("first", first);
  Optimizer<TypeParam> slow(this->device(),
                            {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.25F});
  slow.add_table("second", second);
  GradientTape tape(this->device());
  auto const ids = this->put(Integers{0, 2, 0, 0, 1, 1, 0, 1});
  tape.backward(ops::sum(
      tape,
      ops::embedding_lookup(tape, tables, ops::TableBags<TypeParam>{.ids = ids, .batch = 2})));
  // Other ids in the same memory, written after the backward, must not change the gradients.
  copy(ids, this->put(Integers{1, 1, 1, 1, 0, 0, 1, 1}));
  this->device().start_spans();
  fast.step(tape);
  slow.step(tape);
  std::vector<std::string> names;
  auto const timeline = this->device().stop_spans();
  for (auto const& span : timeline.spans()) {
    if (span.name.starts_with("update")) {
      names.push_back(span.name);
    }
  }
  EXPECT_THAT(names, ::testing::ElementsAre("update_tables", "update_tables"));
  EXPECT_EQ(to_host(first), (Floats{0.5F, 1.5F, 3, 4, 4.5F, 5.5F}));
  EXPECT_EQ(to_host(second), (Floats{1, 1.5F}));
  EXPECT_EQ(to_host(third), (Floats{6.5F, 7.5F}));
  EXPECT_EQ(to_host(frozen), (Floats{9, 9}));
  // The gradients can still be read.
  EXPECT_EQ(to_host(tape.gradient(second)), (Floats{0, 2}));
  EXPECT_EQ(to_host(tape.gradient(first)), (Floats{1, 1, 0, 0, 1, 1}));
}

TYPED_TEST(TrainedTablesTest, tables_of_two_lookups_or_too_wide_rows_move_by_stored_gradients) {
  auto const names_of = [&](ops::OptimizerKind kind, std::int64_t width, int lookups) {
    auto const table = this->put(Floats(static_cast<std::size_t>(2 * width), 1.0F), {2, width});
    ops::EmbeddingTables<TypeParam> const tables(this->device(), {{.weights = table}});
    Optimizer<TypeParam> optimizer(this->device(), {.kind = kind, .learning_rate = 0.5F});
    optimizer.add_table("table", table);
    GradientTape tape(this->device());
    auto const look_up = [&] {
      return ops::sum(
          tape,
          ops::embedding_lookup(
              tape, tables, ops::TableBags<TypeParam>{.ids = this->put(Integers{1}), .batch = 1}));
    };
    tape.backward(lookups == 1 ? look_up() : ops::add(tape, look_up(), look_up()));
    this->device().start_spans();
    optimizer.step(tape);
    auto const timeline = this->device().stop_spans();
    EXPECT_EQ(to_host(table).front(), 1.0F);
    EXPECT_LT(to_host(table).back(), 1.0F);
    return timeline.spans().back().name;
  };
  using Kind = ops::OptimizerKind;
  EXPECT_EQ(names_of(Kind::sgd, 4, 1), "update_tables");
  EXPECT_EQ(names_of(Kind::sgd, 4, 2), "table/update_rows");
  EXPECT_EQ(names_of(Kind::adam, 200, 1), "update_tables");
  for (auto const kind : {Kind::rowwise_adagrad, Kind::partial_rowwise_adam, Kind::lamb}) {
    EXPECT_EQ(names_of(kind, 128, 1), "update_tables");
    EXPECT_EQ(names_of(kind, 129, 1), "update_rows");
    EXPECT_EQ(names_of(kind, 512, 1), kind == Kind::lamb ? "update_rows" : "update_tables");
    EXPECT_EQ(names_of(kind, 516, 1), "update_rows");
  }
}

// A locator searches the gradient of each table, without the gaps between the rows of narrow
// tables, which nothing has written.
TYPED_TEST(TrainedTablesTest, a_locator_of_nan_finds_those_of_the_tables_alone) {
  auto const narrow = this->put(Floats{1, 2}, {2, 1});
  auto const wide = this->put(Floats(60, 1.0F), {2, 30});
  ops::EmbeddingTables<TypeParam> const tables(this->device(),
                                               {{.weights = narrow}, {.weights = wide}});
  GradientTape tape(this->device());
  Optimizer<TypeParam> optimizer(this->device(),
                                 {.kind = ops::OptimizerKind::sgd, .learning_rate = 0.5F});
  optimizer.add_table("narrow", narrow);
  optimizer.add_table("wide", wide);
  NonFiniteLocator<TypeParam> locator(tape);
  auto const train = [&](float factor) {
    auto const pooled = ops::embedding_lookup(
        tape,
        tables,
        ops::TableBags<TypeParam>{.ids = this->put(Integers{0, 0, 1, 1}), .batch = 2});
    tape.backward(ops::scale(tape, ops::sum(tape, pooled), factor));
    optimizer.step(tape);
    tape.clear();
  };
  train(1.0F);
  EXPECT_FALSE(locator.first());
  EXPECT_EQ(to_host(narrow), (Floats{0, 2}));
  train(std::numeric_limits<float>::infinity());
  EXPECT_TRUE(locator.first());
}

}  // namespace
}  // namespace msstream::testing
