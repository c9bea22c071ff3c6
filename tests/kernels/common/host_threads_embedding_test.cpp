// SPDX-License-Identifier: Apache-2.0
#include "embedding/embedding_tables.hpp"
#include "embedding/lookup.hpp"
#include "embedding_gradient/gradients.hpp"
#include "embedding_gradient/tables_gradient.hpp"
#include "embedding_gradient/update.hpp"
#include "kernels/common/host_threads_fixture.hpp"

#include <algorithm>

namespace msstream::ops::kernels::testing {
namespace {

class HostThreadsEmbedding : public HostThreads {};

/// The distinct ids of the bags of a lookup, and their positions.
struct DistinctIds {
  std::vector<std::int64_t> ids;
  std::vector<std::int32_t> starts;
  std::vector<std::int32_t> positions;
  std::vector<std::int32_t> ranks;
  std::int64_t count = 0;

  DistinctIds(BagView const& bags, std::int64_t rows)
      : ids(static_cast<std::size_t>(place_capacity(bags))),
        starts(ids.size() + 1),
        positions(ids.size()),
        ranks(ids.size()) {
    Immediate queue(false);
    HostStream const stream(queue);
    std::vector<std::uint64_t> workspace(deduplicate_workspace_bytes(stream, place_capacity(bags)) /
                                         sizeof(std::uint64_t));
    deduplicate(stream,
                {bags,
                 rows,
                 ids.data(),
                 starts.data(),
                 positions.data(),
                 ranks.data(),
                 &count,
                 workspace.data()});
  }
};

TEST_F(HostThreadsEmbedding, lookups_have_the_same_bits) {
  constexpr std::int64_t kWidth = 33;
  PowerLawBags const bags(random);
  auto const table = random.reals(PowerLawBags::kRows * kWidth);
  std::uint64_t out_of_range = 0;
  auto const look_up = [&](Pooling pooling, std::int64_t rows) {
    expect_same_bits(poisoned(rows * kWidth), [&](HostStream stream, float* out) {
      embedding_lookup(stream,
                       {table.data(),
                        DType::float32,
                        PowerLawBags::kRows,
                        kWidth,
                        bags.view(),
                        pooling,
                        {&out_of_range, nullptr, 0},
                        out,
                        DType::float32});
    });
  };
  look_up(Pooling::mean, PowerLawBags::kBags);
  look_up(Pooling::max, PowerLawBags::kBags);
  look_up(Pooling::none, bags.places());
  auto const bad = std::count_if(bags.ids.begin(), bags.ids.end(), [](std::int64_t id) {
    return id < 0 || id >= PowerLawBags::kRows;
  });
  EXPECT_GT(bad, 0);
  EXPECT_EQ(out_of_range, static_cast<std::uint64_t>(3 * 2 * bad)) << "counted once a run";
}

TEST_F(HostThreadsEmbedding, narrow_outputs_have_the_same_bits) {
  constexpr std::int64_t kWidth = 33;
  PowerLawBags const bags(random);
  auto const table = random.reals(PowerLawBags::kRows * kWidth);
  for (auto const dtype : {DType::float16, DType::bfloat16}) {
    for (auto const pooling : {Pooling::sum, Pooling::none}) {
      auto const rows = pooling == Pooling::none ? bags.places() : PowerLawBags::kBags;
      expect_same_bits(poisoned((rows * kWidth + 1) / 2), [&](HostStream stream, float* out) {
        embedding_lookup(stream,
                         {.table = table.data(),
                          .table_dtype = DType::float32,
                          .rows = PowerLawBags::kRows,
                          .width = kWidth,
                          .bags = bags.view(),
                          .pooling = pooling,
                          .report = {},
                          .output = out,
                          .output_dtype = dtype});
      });
    }
  }
}

TEST_F(HostThreadsEmbedding, row_gradients_and_fused_updates_have_the_same_bits) {
  // The case of narrow rows has so many ids that the bags' divisors are worth sharing among
  // threads.
  for (bool const is_wide : {true, false}) {
    std::int64_t const width = is_wide ? 33 : 2;
    PowerLawBags const bags(random,
                            is_wide ? PowerLawBags::kLongest : PowerLawBags::kWorthCounting);
    DistinctIds const distinct(bags.view(), PowerLawBags::kRows);
    auto const gradient = random.reals(PowerLawBags::kBags * width);
    RowGradientArgs args{bags.view(),
                         PowerLawBags::kRows,
                         Pooling::mean,
                         distinct.starts.data(),
                         distinct.positions.data(),
                         distinct.ranks.data(),
                         &distinct.count,
                         gradient.data(),
                         DType::float32,
                         width,
                         nullptr,
                         nullptr};
    expect_same_bits(poisoned(distinct.count * width), [&](HostStream on, float* out) {
      args.row_gradients = out;
      embedding_row_gradients(on, args);
    });
    args.row_gradients = nullptr;
    OptimizerRule const rule{.kind = OptimizerKind::adagrad, .learning_rate = 0.1F};
    auto const weights = random.reals(PowerLawBags::kRows * width);
    expect_same_bits(weights, [&](HostStream on, float* table) {
      std::vector<float> state(weights.size(), 0.1F);
      embedding_update(on,
                       rule,
                       nullptr,
                       {args, distinct.ids.data(), table, DType::float32, state.data(), nullptr});
    });
  }
}

TEST_F(HostThreadsEmbedding, lookups_in_tables_have_the_same_bits) {
  constexpr std::int64_t kBatch = 3000;
  constexpr std::int64_t kRows = 500;
  constexpr std::int64_t kPlaces = kBatch * (5 + 1);
  auto const wide = random.reals(kRows * 33);
  auto const narrow = random.reals(kRows * 8);
  auto const ids = random.integers(kPlaces, -1, kRows);
  auto const plan = plan_tables(
      {{.table = wide.data(), .rows = kRows, .width = 33, .hotness = 5, .pooling = Pooling::sqrtn},
       {.table = narrow.data(), .rows = kRows, .width = 8}});
  std::uint64_t out_of_range = 0;
  expect_same_bits(poisoned(kBatch * (33 + 8)), [&](HostStream stream, float* out) {
    embedding_tables_lookup(stream,
                            {.plan = &plan,
                             .tables = plan.tables.data(),
                             .table_of_tile = nullptr,
                             .batch = kBatch,
                             .ids = ids.data(),
                             .capacity = kPlaces,
                             .report = {&out_of_range, nullptr, 0},
                             .output = out});
  });
  auto const bad =
      std::count_if(ids.begin(), ids.end(), [](std::int64_t id) { return id < 0 || id >= kRows; });
  EXPECT_GT(bad, 0);
  EXPECT_EQ(out_of_range, static_cast<std::uint64_t>(2 * bad)) << "counted once a run";
}

/// The host memory into which a lookup reports bad ids: their number and the IdTrap.
struct Reported {
  static constexpr std::uint32_t kOperation = 7;
  std::uint64_t count = 0;
  IdTrap trap{};

  [[nodiscard]] IdReport report() { return {&count, &trap, kOperation}; }
  void expect_bad_ids(std::int64_t bad, std::int64_t rows) const {
    EXPECT_EQ(count, static_cast<std::uint64_t>(bad));
    EXPECT_EQ(trap.set, 1U);
    EXPECT_EQ(trap.operation, kOperation);
    EXPECT_TRUE(trap.caught.id < 0 || trap.caught.id >= trap.caught.rows) << trap.caught.id;
    EXPECT_EQ(trap.caught.rows, rows);
  }
};

// Bad ids occur only in the second half of the bags, when several threads are at work, and are so
// many that several threads report at once.
TEST_F(HostThreadsEmbedding, bad_ids_are_counted_and_trapped) {
  constexpr std::int64_t kBags = 6000;
  constexpr std::int64_t kHotness = 10;
  constexpr std::int64_t kPlaces = kBags * kHotness;
  constexpr std::int64_t kRows = 500;
  constexpr std::int64_t kWidth = 33;
  auto const table = random.reals(kRows * kWidth);
  auto ids = random.integers(kPlaces, -kRows, kRows - 1);
  std::transform(ids.begin(), ids.begin() + kPlaces / 2, ids.begin(), [](std::int64_t id) {
    return std::max<std::int64_t>(id, 0);
  });
  auto const bad = std::count_if(ids.begin(), ids.end(), [](std::int64_t id) { return id < 0; });
  expect_same_bits(poisoned(kBags * kWidth), [&](HostStream stream, float* out) {
    Reported reported;
    embedding_lookup(
        stream,
        {.table = table.data(),
         .table_dtype = DType::float32,
         .rows = kRows,
         .width = kWidth,
         .bags = {.ids = ids.data(), .bags = kBags, .capacity = kPlaces, .hotness = kHotness},
         .pooling = Pooling::sum,
         .report = reported.report(),
         .output = out,
         .output_dtype = DType::float32});
    reported.expect_bad_ids(bad, kRows);
  });
  auto const plan =
      plan_tables({{.table = table.data(), .rows = kRows, .width = kWidth, .hotness = kHotness - 1},
                   {.table = table.data(), .rows = kRows, .width = kWidth}});
  expect_same_bits(poisoned(kBags * 2 * kWidth), [&](HostStream stream, float* out) {
    Reported reported;
    embedding_tables_lookup(stream,
                            {.plan = &plan,
                             .tables = plan.tables.data(),
                             .table_of_tile = nullptr,
                             .batch = kBags,
                             .ids = ids.data(),
                             .capacity = kPlaces,
                             .report = reported.report(),
                             .output = out});
    reported.expect_bad_ids(bad, kRows);
  });
}

TEST_F(HostThreadsEmbedding, gradients_of_tables_have_the_same_bits) {
  constexpr std::int64_t kBatch = 3000;
  constexpr std::int64_t kHotness = 5;
  auto const plan =
      plan_tables({{.rows = 2000, .width = 33, .hotness = kHotness, .pooling = Pooling::mean},
                   {.rows = 500, .default_id = 3, .width = 8},
                   {.rows = 700, .width = 20, .hotness = kHotness, .pooling = Pooling::sqrtn}});
  auto const ids = random.integers(kBatch * (2 * kHotness + 1), -100, 600);
  TablesLookupArgs const bags{.plan = &plan,
                              .tables = plan.tables.data(),
                              .table_of_tile = nullptr,
                              .batch = kBatch,
                              .ids = ids.data(),
                              .capacity = std::ssize(ids)};
  auto const places = place_capacity(bags);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(places));
  std::vector<std::int32_t> bags_of_places(rows.size());
  std::vector<float> factors(rows.size());
  Immediate queue(false);
  embedding_tables_places(HostStream(queue),
                          {.bags = bags,
                           .first_rows = plan.first_rows.data(),
                           .rows = rows.data(),
                           .row_dtype = DType::int64,
                           .bags_of_places = bags_of_places.data(),
                           .factors = factors.data()});
  DistinctIds const distinct({.ids = rows.data(), .bags = places, .capacity = places},
                             plan.first_rows.back());
  auto const gradient = random.reals(kBatch * plan.width);
  expect_same_bits(poisoned(distinct.count * plan.widest), [&](HostStream stream, float* values) {
    std::vector<std::int64_t> table_starts(plan.first_rows.size());
    embedding_tables_gradient(stream,
                              {.plan = &plan,
                               .tables = plan.tables.data(),
                               .first_rows = plan.first_rows.data(),
                               .batch = kBatch,
                               .places = places,
                               .unique_rows = distinct.ids.data(),
                               .starts = distinct.starts.data(),
                               .positions = distinct.positions.data(),
                               .ranks = distinct.ranks.data(),
                               .unique_count = &distinct.count,
                               .bags_of_places = bags_of_places.data(),
                               .factors = factors.data(),
                               .output_gradient = gradient.data(),
                               .gradient_dtype = DType::float32,
                               .values = values,
                               .table_starts = table_starts.data(),
                               .workspace = nullptr});
  });
}

}  // namespace
}  // namespace msstream::ops::kernels::testing
