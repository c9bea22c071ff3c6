// SPDX-License-Identifier: Apache-2.0
#include "lab.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// Benchmarks of rows gathered, assigned and scattered, ids mapped and grouped, the greatest
/// elements of rows, and their gradients, on a cold cache, compared with a copy. Bytes
/// count the arguments that must be read and the results, each once; but a gathered row counts once
/// read and once written for each id. A value is not read if a later occurrence of the same id
/// overrides it.
namespace benchmarks {
namespace {

using Sizes = axes::Rows;
using Shared = axes::Kernels;

constexpr double kRowBytes = Sizes::kWidth * sizeof(float);

template <ms::Runtime R>
ms::Tensor<float, R> table_of(Lab<R>& lab) {
  return lab.matrix(lab.rows(Shared::kTableRows), Sizes::kWidth);
}

/// The ids of the table rows that are moved, with repetitions; the number of ids, and of distinct
/// ids.
template <ms::Runtime R>
struct Moved {
  ms::Tensor<std::int64_t, R> ids;
  double places;
  double distinct;
};
template <ms::Runtime R>
Moved<R> moved(Lab<R>& lab, Draw draw) {
  return lab.kept(fmt::format("moved, {}", name_of(draw)), [&]() -> Moved<R> {
    auto const count = lab.rows(Sizes::kMoved);
    auto const ids = put_ids<std::int64_t>(
        lab.device(), drawn(count, lab.rows(Shared::kTableRows), draw), {count});
    auto const distinct = ms::to_host(ms::ops::unique(ids).count).front();
    return {ids, static_cast<double>(count), static_cast<double>(distinct)};
  });
}

template <ms::Runtime R>
void gather(benchmark::State& state, Lab<R>& lab, Draw draw) {
  auto const table = table_of(lab);
  auto const rows = moved(lab, draw);
  double const bytes = bytes_of(rows.ids) + 2 * rows.places * kRowBytes;
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(ms::ops::gather_rows(table, rows.ids));
  });
}

template <ms::Runtime R>
void assign(benchmark::State& state, Lab<R>& lab, Draw draw) {
  auto const table = table_of(lab);
  auto const rows = moved(lab, draw);
  auto const values = random_rows<float>(lab.device(), rows.ids.count(), Sizes::kWidth);
  double const bytes = bytes_of(rows.ids) + 2 * rows.distinct * kRowBytes;
  lab.bench().measure_cold(
      state, {.bytes = bytes}, [&] { ms::ops::assign_rows(table, values, rows.ids); });
}

/// Measures scattering rows into a new table. Counts as written all rows of the table, including
/// those that stay zero.
template <ms::Runtime R>
void scatter(benchmark::State& state, Lab<R>& lab, Draw draw) {
  auto const table_rows = lab.rows(Shared::kTableRows);
  auto const rows = moved(lab, draw);
  auto const values = random_rows<float>(lab.device(), rows.ids.count(), Sizes::kWidth);
  double const bytes =
      bytes_of(rows.ids) + (rows.distinct + static_cast<double>(table_rows)) * kRowBytes;
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(ms::ops::scatter_rows(values, rows.ids, table_rows));
  });
}

template <ms::Runtime R>
void scatter_gradient(benchmark::State& state, Lab<R>& lab, Draw draw) {
  auto const table = table_of(lab);
  auto const rows = moved(lab, draw);
  double const bytes = bytes_of(rows.ids) + (rows.distinct + rows.places) * kRowBytes;
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(ms::ops::scatter_rows_gradient(table, rows.ids));
  });
}

template <ms::Runtime R>
ms::Tensor<std::int64_t, R> numbers(Lab<R>& lab, std::int64_t below) {
  return lab.kept(fmt::format("numbers below {}", below), [&] {
    auto const count = lab.rows(Sizes::kNumbers);
    return put_ids<std::int64_t>(lab.device(), drawn(count, below, Draw::uniform), {count});
  });
}

template <ms::Runtime R>
void hash(benchmark::State& state, Lab<R>& lab) {
  auto const keys = numbers(lab, std::int64_t{1} << 52U);
  lab.bench().measure_cold(state, {.bytes = 2 * bytes_of(keys)}, [&] {
    benchmark::DoNotOptimize(ms::ops::hash_to_bucket(keys, Shared::kTableRows));
  });
}

/// Measures mapping the keys of many tables, stored table by table, to rows of all tables.
template <ms::Runtime R>
void table_rows(benchmark::State& state, Lab<R>& lab, bool hashed) {
  auto const rows = lab.rows(Shared::kRowsPerTable);
  ms::ops::TableBatch<float, R> const tables(
      lab.device(), std::vector<std::int64_t>(Shared::kTables, rows), Shared::kWidthPerTable);
  auto const batch = lab.rows(Sizes::kNumbers) / Shared::kTables;
  auto const keys = put_ids<std::int64_t>(
      lab.device(), drawn(Shared::kTables * batch, rows, Draw::uniform), {Shared::kTables, batch});
  lab.bench().measure_cold(state, {.bytes = 2 * bytes_of(keys)}, [&] {
    benchmark::DoNotOptimize(hashed ? ms::ops::hash_to_tables(tables, keys)
                                    : ms::ops::rows_of_tables(tables, keys));
  });
}

template <ms::Runtime R>
void bucketize(benchmark::State& state, Lab<R>& lab) {
  std::vector<float> ascending;
  for (std::int64_t i = 0; i < Sizes::kBoundaries; ++i) {
    ascending.push_back(2 * static_cast<float>(i) / static_cast<float>(Sizes::kBoundaries) - 1);
  }
  auto const boundaries = ms::to_device<float, R>(lab.device(), ascending, {Sizes::kBoundaries});
  auto const values = lab.matrix(lab.rows(Sizes::kNumbers), 1);
  double const bytes = static_cast<double>(values.count()) * (sizeof(float) + sizeof(std::int64_t));
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(ms::ops::bucketize(values, boundaries));
  });
}

template <ms::Runtime R>
void top(benchmark::State& state, Lab<R>& lab, std::int64_t k, bool gradient) {
  auto const values = lab.matrix(lab.rows(Sizes::kTopRows), Sizes::kTopColumns);
  auto const found = ms::ops::top_k(values, k);
  double const bytes = bytes_of(values, found.values, found.indices);
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    if (gradient) {
      benchmark::DoNotOptimize(
          ms::ops::top_k_gradient(found.values, found.indices, Sizes::kTopColumns));
    } else {
      benchmark::DoNotOptimize(ms::ops::top_k(values, k));
    }
  });
}

/// Returns random ids of bags, for the table of the embedding suite.
template <ms::Runtime R>
ms::Tensor<std::int32_t, R> bag_ids(Lab<R>& lab, Draw draw) {
  return lab.kept(fmt::format("bags, {}", name_of(draw)), [&] {
    auto const bags = lab.rows(Shared::kBags);
    auto const ids = drawn(bags * Sizes::kHotness, lab.rows(Shared::kTableRows), draw);
    return put_ids<std::int32_t>(lab.device(), ids, {bags, Sizes::kHotness});
  });
}

template <ms::Runtime R>
void weight_gradient(benchmark::State& state, Lab<R>& lab, Draw draw) {
  auto const table = lab.matrix(lab.rows(Shared::kTableRows), Shared::kTableWidth);
  auto const ids = bag_ids(lab, draw);
  ms::ops::Bags<R> const bags = ids;
  auto const gradient = random_rows<float>(lab.device(), bags.bags(), Shared::kTableWidth);
  double const row_bytes = Shared::kTableWidth * sizeof(float);
  double const bytes =
      bytes_of(ids, gradient) + static_cast<double>(ids.count()) * (row_bytes + sizeof(float));
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(
        ms::ops::embedding_weight_gradient(table, bags, ms::ops::Pooling::sum, gradient));
  });
}

/// Measures finding the distinct ids and the start of each, and the position and rank of every id.
template <ms::Runtime R>
void deduplicate(benchmark::State& state, Lab<R>& lab, Draw draw) {
  auto const rows = lab.rows(Shared::kTableRows);
  auto const ids = bag_ids(lab, draw);
  ms::ops::Bags<R> const bags = ids;
  auto const unique = ms::ops::deduplicate(bags, rows);
  auto const distinct = static_cast<double>(ms::to_host(unique.count).front());
  double const bytes = bytes_of(ids, unique.positions, unique.ranks) +
                       distinct * (sizeof(std::int64_t) + sizeof(std::int32_t));
  lab.bench().measure_cold(
      state, {.bytes = bytes}, [&] { benchmark::DoNotOptimize(ms::ops::deduplicate(bags, rows)); });
}

/// Measures merging the gradients of two lookups in one table. Counts as bytes the rows of both,
/// which are read, and the rows of their union, which are written.
template <ms::Runtime R>
void merge_gradients(benchmark::State& state, Lab<R>& lab, Draw draw) {
  auto const table_rows = lab.rows(Shared::kTableRows);
  auto const bags = lab.rows(Shared::kBags);
  auto const ids =
      put_ids<std::int64_t>(lab.device(), drawn(2 * bags, table_rows, draw), {2, bags});
  std::vector<ms::ops::RowGradients<R>> parts;
  std::int64_t rows_moved = 0;
  for (std::int64_t part = 0; part < 2; ++part) {
    auto const unique = ms::ops::unique(ids.rows(part, part + 1));
    parts.push_back(
        {unique.values, unique.count, random_rows<float>(lab.device(), bags, Shared::kTableWidth)});
    rows_moved += ms::to_host(unique.count).front();
  }
  auto const merged = ms::ops::merge_row_gradients(parts, table_rows);
  rows_moved += ms::to_host(merged.count).front();
  double const row_bytes = Shared::kTableWidth * sizeof(float) + sizeof(std::int64_t);
  lab.bench().measure_cold(state, {.bytes = static_cast<double>(rows_moved) * row_bytes}, [&] {
    benchmark::DoNotOptimize(ms::ops::merge_row_gradients(parts, table_rows));
  });
}

template <ms::Runtime R>
void add_all(std::int64_t divisor) {
  auto const add_one = adder<R>("rows", divisor);
  auto const add_draws = by_draw(add_one, name_of);
  add_draws("gather", gather<R>);
  add_draws("assign", assign<R>);
  add_draws("scatter", scatter<R>);
  add_draws("scatter_gradient", scatter_gradient<R>);
  add_draws("weight_gradient", weight_gradient<R>);
  add_draws("deduplicate", deduplicate<R>);
  add_draws("merge_gradients", merge_gradients<R>);
  add_one("hash", hash<R>);
  add_one("bucketize", bucketize<R>);
  for (bool const hashed : {true, false}) {
    add_one(fmt::format("{}:{}", hashed ? "hash_to_tables" : "rows_of_tables", Shared::kTables),
            [=](auto& state, auto& lab) { table_rows(state, lab, hashed); });
  }
  for (auto const k : Sizes::kTop) {
    add_one(fmt::format("top_k/k:{}", k),
            [=](auto& state, auto& lab) { top(state, lab, k, false); });
    add_one(fmt::format("top_k_gradient/k:{}", k),
            [=](auto& state, auto& lab) { top(state, lab, k, true); });
  }
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>(axes::kHostDivisor);
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_all<ms::Cuda>(1);
#endif
}

}  // namespace benchmarks
