// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "comm/kept_ranks.hpp"
#include "memory/runtimes.hpp"
#include "step/parallel/sharded_training.hpp"

#include <msstream/msstream.hpp>
#include <msstream/step/sharded_tables.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

constexpr std::int64_t kWeighedSamples = 13;
constexpr int kWeighedSteps = 3;
constexpr float kWeighedRate = 0.25F;

struct HowWeighed {
  std::vector<Sharding> shardings = {Sharding::table_wise};
  bool is_weighted = true;
  bool has_defaults = false;
  bool is_fixed = false;
  int groups = 0;
  bool is_captured = false;
  bool is_ahead = false;  ///< the ids of the next step are exchanged before the update
  RowsAhead rows_ahead = RowsAhead::none;  ///< with is_ahead
  std::uint64_t seed = 1;
};

[[nodiscard]] std::vector<TableSpec> weighed_specs(HowWeighed const& how) {
  std::vector<TableSpec> specs{
      {.name = "sums", .rows = 23, .width = 5, .hotness = 3, .initializer = init::uniform(-1, 1)},
      {.name = "means",
       .rows = 9,
       .width = 4,
       .pooling = ops::Pooling::mean,
       .hotness = 2,
       .initializer = init::uniform(-1, 1)},
      {.name = "roots",
       .rows = 31,
       .width = 6,
       .pooling = ops::Pooling::sqrtn,
       .hotness = 4,
       .initializer = init::uniform(-1, 1)},
      {.name = "plain", .rows = 5, .width = 4, .hotness = 1, .initializer = init::uniform(-1, 1)},
  };
  for (std::size_t t = 0; how.has_defaults && t < 3; ++t) {
    specs[t].default_id = specs[t].rows - 1 - static_cast<std::int64_t>(t);
  }
  return specs;
}

/// Bags of a step, some of them without a valid id, and a weight of each id, by table and sample.
struct WeighedBags {
  BagLists ids;
  std::vector<std::vector<std::vector<float>>> weights;
};
[[nodiscard]] WeighedBags weighed_bags(HowWeighed const& how, int step) {
  auto const specs = weighed_specs(how);
  auto const seed = how.seed * 100 + static_cast<std::uint64_t>(step);
  WeighedBags bags{random_bags(specs, kWeighedSamples, how.is_fixed, seed), {}};
  std::mt19937_64 engine(seed + 17);
  std::uniform_real_distribution<float> weights(0.5F, 2.0F);
  for (std::size_t t = 0; t < specs.size(); ++t) {
    for (std::size_t s = 0; s < bags.ids[t].size(); ++s) {
      auto& bag = bags.ids[t][s];
      // A bag of more ids than the hotness is made shorter, so that there is room for default ids.
      if (!how.is_fixed && std::ssize(bag) > specs[t].hotness) {
        bag.resize(static_cast<std::size_t>(specs[t].hotness));
      }
      if ((s + t) % 4 == 0) {
        std::ranges::fill(bag, -1);
      }
    }
    auto& of_table = bags.weights.emplace_back();
    for (auto const& bag : bags.ids[t]) {
      auto& of_bag = of_table.emplace_back();
      for (std::size_t i = 0; i < bag.size(); ++i) {
        of_bag.push_back(weights(engine));
      }
    }
  }
  return bags;
}
[[nodiscard]] std::vector<float> weighed_gradient(HowWeighed const& how,
                                                  int step,
                                                  std::int64_t width) {
  return random_elements<float>(how.seed * 100 + static_cast<std::uint64_t>(step) + 50,
                                static_cast<std::size_t>(kWeighedSamples * width));
}

/// The tables, and the pooled rows of each step.
template <class Number>
struct Weighed {
  std::vector<std::vector<Number>> tables;
  std::vector<std::vector<Number>> pooled;
};

/// An id of a bag, and the factor of its row in the pooled row.
struct WeighedRow {
  std::int64_t id;
  double factor;
};
[[nodiscard]] std::vector<WeighedRow> rows_of_bag(TableSpec const& spec,
                                                  std::vector<std::int64_t> const& ids,
                                                  std::vector<float> const& weights,
                                                  bool is_weighted) {
  std::vector<WeighedRow> rows;
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < spec.rows) {
      double const weight = is_weighted ? weights[i] : 1;
      rows.push_back({ids[i], weight});
      sum += weight;
      squares += weight * weight;
    }
  }
  if (rows.empty() && spec.default_id) {
    return {{*spec.default_id, 1}};
  }
  for (auto& row : rows) {
    row.factor /= spec.pooling == ops::Pooling::mean    ? sum
                  : spec.pooling == ops::Pooling::sqrtn ? std::sqrt(squares)
                                                        : 1;
  }
  return rows;
}

/// Trains in float64 from the given tables. Rows that are stale are those before the update of the
/// step before.
[[nodiscard]] Weighed<double> weighed_reference(HowWeighed const& how, Weighed<double> state) {
  auto const specs = weighed_specs(how);
  std::int64_t width = 0;
  for (auto const& spec : specs) {
    width += spec.width;
  }
  auto before = state.tables;
  for (int step = 0; step < kWeighedSteps; ++step) {
    auto const& looked_up = how.rows_ahead == RowsAhead::stale ? before : state.tables;
    auto const bags = weighed_bags(how, step);
    auto const gradient = weighed_gradient(how, step, width);
    std::vector<double> pooled(static_cast<std::size_t>(kWeighedSamples * width));
    auto moved = state.tables;
    std::int64_t first = 0;
    for (std::size_t t = 0; t < specs.size(); ++t) {
      auto const& spec = specs[t];
      for (std::int64_t s = 0; s < kWeighedSamples; ++s) {
        auto const sample = static_cast<std::size_t>(s);
        for (auto const& [id, factor] :
             rows_of_bag(spec, bags.ids[t][sample], bags.weights[t][sample], how.is_weighted)) {
          for (std::int64_t c = 0; c < spec.width; ++c) {
            auto const at = static_cast<std::size_t>(s * width + first + c);
            auto const in_table = static_cast<std::size_t>(id * spec.width + c);
            pooled[at] += factor * looked_up[t][in_table];
            moved[t][in_table] -= static_cast<double>(kWeighedRate) * factor * gradient[at];
          }
        }
      }
      first += spec.width;
    }
    before = state.tables;
    state.tables = moved;
    state.pooled.push_back(pooled);
  }
  return state;
}

/// Bags of a part of the samples, with weights, in memory that is written again in each step.
template <Runtime R>
struct WeighedMemory {
  BatchPart part;
  bool is_fixed;
  Tensor<std::int64_t, R> ids;
  Tensor<std::int64_t, R> offsets;
  Tensor<float, R> weights;

  WeighedMemory(Device<R> const& device,
                std::vector<TableSpec> const& specs,
                BatchPart const& of,
                bool fixed)
      : part(of),
        is_fixed(fixed),
        ids(device, {capacity_of(specs, of.rows())}),
        offsets(device, {std::ssize(specs) * of.rows() + 1}),
        weights(device, ids.shape()) {}

  void put(Device<R> const& device, WeighedBags const& bags) const {
    std::vector<std::int64_t> all;
    std::vector<std::int64_t> ends{0};
    std::vector<float> all_weights;
    for (std::size_t t = 0; t < bags.ids.size(); ++t) {
      for (auto s = part.begin; s < part.end; ++s) {
        auto const& bag = bags.ids[t][static_cast<std::size_t>(s)];
        auto const& of_bag = bags.weights[t][static_cast<std::size_t>(s)];
        all.insert(all.end(), bag.begin(), bag.end());
        all_weights.insert(all_weights.end(), of_bag.begin(), of_bag.end());
        ends.push_back(std::ssize(all));
      }
    }
    all.resize(static_cast<std::size_t>(ids.count()), -7);
    all_weights.resize(static_cast<std::size_t>(ids.count()), std::nanf(""));
    if (ids.count() > 0) {
      copy(ids, to_device(device, all, ids.shape()));
      copy(weights, to_device(device, all_weights, ids.shape()));
    }
    copy(offsets, to_device(device, ends, offsets.shape()));
  }
  [[nodiscard]] ops::TableBags<R> bags(bool is_weighted) const {
    ops::TableBags<R> all{.ids = ids, .batch = part.rows()};
    if (!is_fixed) {
      all.offsets = offsets;
    }
    if (is_weighted) {
      all.weights = weights;
    }
    return all;
  }

 private:
  [[nodiscard]] static std::int64_t capacity_of(std::vector<TableSpec> const& specs,
                                                std::int64_t samples) {
    std::int64_t hotness = 0;
    for (auto const& spec : specs) {
      hotness += spec.hotness;
    }
    return hotness * samples;
  }
};

/// The tables of all ranks before and after, and the pooled rows of all samples.
struct WeighedOnRanks {
  Weighed<double> before;
  Weighed<float> after;
};

template <Runtime R>
[[nodiscard]] WeighedOnRanks weighed_on_ranks(int ranks, HowWeighed const& how) {
  auto const specs = weighed_specs(how);
  std::mutex mutex;
  WeighedOnRanks found;
  for (auto const& spec : specs) {
    auto const count = static_cast<std::size_t>(spec.rows * spec.width);
    found.before.tables.emplace_back(count, std::nan(""));
    found.after.tables.emplace_back(count, std::nanf(""));
  }
  on_kept_ranks<R>(ranks, [&](Rank<R> const& rank) {
    auto const part =
        uneven_parts(kWeighedSamples, rank.size())[static_cast<std::size_t>(rank.rank())];
    auto const plan = plan_of(specs, how.shardings, rank.size());
    ShardedTables<R> const tables(
        specs,
        rank.communicator,
        {.most_samples = kWeighedSamples, .seed = 9, .reduction = comm::Reduction::sum},
        plan);
    auto const store = [&](auto& whole) {
      tables.for_each_part([&](std::string const& name, auto const& tensor) {
        auto const t = static_cast<std::size_t>(std::ranges::find(specs, name, &TableSpec::name) -
                                                specs.begin());
        auto const block = block_of_rank(specs[t], plan.tables[t], rank.rank());
        auto const elements = to_host(tensor);
        std::lock_guard const guard(mutex);
        for (std::size_t i = 0; i < elements.size(); ++i) {
          auto const row = block.first_row + static_cast<std::int64_t>(i) / block.columns;
          auto const column = block.first_column + static_cast<std::int64_t>(i) % block.columns;
          whole[t][static_cast<std::size_t>(row * specs[t].width + column)] = to_float(elements[i]);
        }
      });
    };
    store(found.before.tables);
    Optimizer<R> optimizer(rank.device,
                           {.kind = ops::OptimizerKind::sgd, .learning_rate = kWeighedRate});
    tables.add_to(optimizer);
    GradientTape<R> tape(rank.device);
    WeighedMemory<R> const bags(rank.device, specs, part, how.is_fixed);
    WeighedMemory<R> const next_bags(rank.device, specs, part, how.is_fixed);
    Tensor<float, R> const gradient(rank.device, {part.rows(), tables.width()});
    auto const put = [&](int step) {
      bags.put(rank.device, weighed_bags(how, step));
      next_bags.put(rank.device, weighed_bags(how, step + 1));
      if (part.rows() > 0) {
        auto const all = weighed_gradient(how, step, tables.width());
        copy(gradient,
             to_device(rank.device, all, {kWeighedSamples, tables.width()})
                 .rows(part.begin, part.end));
      }
    };
    std::optional<StreamPool<R>> pool;
    if (how.groups > 0) {
      pool.emplace(rank.device, StreamPoolOptions{.groups = how.groups, .log = nullptr});
    }
    put(0);
    std::optional<ShardedIds<R>> now;
    if (how.is_ahead) {
      auto const first = tables.exchange(bags.bags(how.is_weighted));
      now = with_rows_ahead(tables, how.rows_ahead, first, first);
    }
    std::optional<Tensor<float, R>> pooled;
    auto const step = [&] {
      std::optional<StreamScope<R>> scope;
      if (pool) {
        scope.emplace((*pool)[how.groups - 1], StreamScopeOptions{.include_grad = true});
      }
      auto const ids = now ? *now : tables.exchange(bags.bags(how.is_weighted));
      pooled = tables.lookup(tape, ids);
      std::optional<ShardedIds<R>> next;
      if (how.is_ahead) {
        next = with_rows_ahead(
            tables, how.rows_ahead, tables.exchange(next_bags.bags(how.is_weighted)), ids);
      }
      tape.without_gradient(gradient);
      auto const products = ops::multiply(tape, *pooled, gradient);
      tape.backward(ops::sum(tape, ops::sum(tape, products, 0), 0));
      optimizer.step(tape);
      tape.clear();
      if (next) {
        now->assign(*next);
      }
    };
    std::optional<CapturedStep<R>> captured;
    if (how.is_captured) {
      captured.emplace(rank.device, step);
    }
    std::vector<std::vector<float>> own;
    for (int i = 0; i < kWeighedSteps; ++i) {
      put(i);
      captured ? (void)captured->replay() : step();
      own.push_back(to_host(*pooled));
    }
    store(found.after.tables);
    std::lock_guard const guard(mutex);
    found.after.pooled.resize(
        own.size(), std::vector<float>(static_cast<std::size_t>(kWeighedSamples * tables.width())));
    for (std::size_t i = 0; i < own.size(); ++i) {
      std::ranges::copy(own[i], found.after.pooled[i].begin() + part.begin * tables.width());
    }
  });
  return found;
}

void expect_weighed(WeighedOnRanks const& found, HowWeighed const& how) {
  auto const expected = weighed_reference(how, found.before);
  auto const expect_all = [](auto const& values, auto const& others, char const* what) {
    ASSERT_EQ(values.size(), others.size());
    for (std::size_t k = 0; k < others.size(); ++k) {
      for (std::size_t i = 0; i < others[k].size(); ++i) {
        ASSERT_NEAR(values[k][i], others[k][i], 2e-5) << what << ' ' << k << ", element " << i;
      }
    }
  };
  expect_all(found.after.pooled, expected.pooled, "step");
  expect_all(found.after.tables, expected.tables, "table");
}

template <class R>
class ShardedWeights : public RanksTest<R> {};
TYPED_TEST_SUITE(ShardedWeights, RankRuntimes, RuntimeNamesOfRanks);

TYPED_TEST(ShardedWeights, weights_and_default_ids_are_those_of_whole_tables) {
  HowWeighed how;
  how.seed = test_seed() % 1000000;
  for (auto const& plan :
       {std::vector{Sharding::table_wise},
        std::vector{Sharding::row_wise},
        std::vector{Sharding::column_wise},
        std::vector{Sharding::replicated},
        std::vector{
            Sharding::row_wise, Sharding::replicated, Sharding::row_wise, Sharding::table_wise}}) {
    how.shardings = plan;
    for (int const choice : {1, 2, 3, 5, 6, 7}) {
      how.is_weighted = (choice & 1) != 0;
      how.has_defaults = (choice & 2) != 0;
      how.is_fixed = (choice & 4) != 0;
      for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 4})) {
        SCOPED_TRACE(std::string(name_of(plan[0])) + ", ranks: " + std::to_string(ranks) +
                     ", weights, defaults, fixed: " + std::to_string(choice));
        expect_weighed(weighed_on_ranks<TypeParam>(ranks, how), how);
      }
    }
  }
}

/// One rank, on every runtime.
template <class R>
class ShardedWeightsOfOneRank : public RuntimeTest<R> {};
TYPED_TEST_SUITE(ShardedWeightsOfOneRank, PlainRuntimes, RuntimeNames);

TYPED_TEST(ShardedWeightsOfOneRank, weights_and_default_ids_are_those_of_whole_tables) {
  for (auto const sharding :
       {Sharding::table_wise, Sharding::row_wise, Sharding::column_wise, Sharding::replicated}) {
    for (bool const is_fixed : {false, true}) {
      for (bool const is_captured : {false, true}) {
        SCOPED_TRACE(name_of(sharding));
        HowWeighed const how{.shardings = {sharding},
                             .has_defaults = true,
                             .is_fixed = is_fixed,
                             .is_captured = is_captured};
        expect_weighed(weighed_on_ranks<TypeParam>(1, how), how);
      }
    }
  }
}

TYPED_TEST(ShardedWeights, bits_are_equal_for_all_groups_eager_and_captured_and_ahead) {
  HowWeighed how;
  how.has_defaults = true;
  how.shardings = {
      Sharding::row_wise, Sharding::table_wise, Sharding::replicated, Sharding::column_wise};
  auto const expected = weighed_on_ranks<TypeParam>(3, how);
  for (int const groups : {0, 1, 2, 4}) {
    for (bool const is_captured : {false, true}) {
      for (int const ahead : {0, 1, 2}) {  // nothing, ids, and untouched rows, too
        SCOPED_TRACE(std::to_string(groups) + " groups, captured: " + std::to_string(is_captured) +
                     ", ahead: " + std::to_string(ahead));
        how.groups = groups;
        how.is_captured = is_captured;
        how.is_ahead = ahead > 0;
        how.rows_ahead = ahead == 2 ? RowsAhead::untouched : RowsAhead::none;
        auto const found = weighed_on_ranks<TypeParam>(3, how);
        for (std::size_t t = 0; t < expected.after.tables.size(); ++t) {
          EXPECT_EQ(bits_of(found.after.tables[t]), bits_of(expected.after.tables[t]));
        }
        for (std::size_t step = 0; step < expected.after.pooled.size(); ++step) {
          EXPECT_EQ(bits_of(found.after.pooled[step]), bits_of(expected.after.pooled[step]));
        }
      }
    }
  }
}

TYPED_TEST(ShardedWeights, rows_ahead_are_those_of_whole_tables) {
  HowWeighed how{.has_defaults = true, .is_ahead = true, .seed = test_seed() % 1000000};
  for (auto const sharding : {Sharding::table_wise, Sharding::row_wise, Sharding::column_wise}) {
    how.shardings = {sharding};
    for (int const choice : {0, 1, 2, 3}) {
      how.rows_ahead = (choice & 1) != 0 ? RowsAhead::stale : RowsAhead::untouched;
      how.is_fixed = (choice & 2) != 0;
      for (int const ranks : numbers_of_ranks<TypeParam>({1, 2, 4})) {
        SCOPED_TRACE(std::string(name_of(sharding)) + ", ranks: " + std::to_string(ranks) +
                     ", stale, fixed: " + std::to_string(choice));
        expect_weighed(weighed_on_ranks<TypeParam>(ranks, how), how);
      }
    }
  }
}

TYPED_TEST(ShardedWeights, bad_ids_are_reported_though_a_default_id_takes_their_place) {
  using R = TypeParam;
  on_ranks<R>(2, [&](Rank<R> const& rank) {
    std::vector<TableSpec> const specs{
        {.name = "users", .rows = 6, .width = 2, .hotness = 2, .default_id = 3}};
    ShardedTables<R> const tables(
        specs, rank.communicator, {.most_samples = 1, .out_of_range = ops::OutOfRange::trap});
    EXPECT_THAT(
        message_of<std::out_of_range>([&] {
          (void)to_host(tables.lookup(
              no_tape,
              ops::TableBags<R>{.ids = rank.tensor(std::vector<std::int64_t>{9, 9}), .batch = 1}));
        }),
        ::testing::HasSubstr("id 9 outside [0, 6) of table 'users'"));
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
    auto const ids = [&](bool is_weighted) {
      ops::TableBags<R> bags{.ids = rank.tensor(std::vector<std::int64_t>{1, 2}), .batch = 1};
      if (is_weighted) {
        bags.weights = rank.tensor(std::vector<float>{1.0F, 2.0F});
      }
      return tables.exchange(bags);
    };
    auto const weighted = ids(true);
    auto const plain = ids(false);
    if (rank.rank() == 0) {  // which has the table
      EXPECT_THAT(message_of<std::invalid_argument>([&] { weighted.assign(plain); }),
                  ::testing::HasSubstr("ids without weights assigned to those with"));
    }
    comm::barrier(rank.communicator);
    rank.communicator.synchronize();
  });
}

}  // namespace
}  // namespace msstream::testing
