// SPDX-License-Identifier: Apache-2.0
#include "ops/table/cases.hpp"

#include <msstream/ops/random_draws.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

/// Cases of ids, jagged rows, and the gradients of lookups in many tables.
namespace benchmarks::table {
namespace {

using Sizes = axes::Table;
using Shared = axes::Kernels;
namespace ops = ms::ops;

/// Returns random ids that are rows of a table of Kernels::kTableRows rows.
template <ops::IdElement T, ms::Runtime R>
ms::Tensor<T, R> random_ids(Lab<R>& lab, std::int64_t count) {
  ms::RandomGenerator<R> const random(lab.device());
  return ops::random_integers<T>(random, "ids", {count}, 0, lab.rows(Shared::kTableRows));
}

template <ops::IdElement To, ops::IdElement From, ms::Runtime R>
void cast_ids(benchmark::State& state, Lab<R>& lab) {
  auto const ids = random_ids<From>(lab, lab.rows(Sizes::kElements));
  double const bytes = static_cast<double>(ids.count()) * (sizeof(From) + sizeof(To));
  lab.bench().measure_cold(
      state, {.bytes = bytes}, [&] { benchmark::DoNotOptimize(ops::cast_ids<To, R>(ids)); });
}

/// Measures joining a column of bags with offsets for each table. Bytes count the ids and offsets
/// of the columns and of the result.
template <ms::Runtime R>
void joined_bags(benchmark::State& state, Lab<R>& lab, std::int64_t full_batch) {
  auto const batch = lab.rows(full_batch);
  auto const column = batch * Sizes::kHotness;
  auto const ids = random_ids<std::int64_t>(lab, Shared::kTables * column);
  std::vector<std::int64_t> starts;
  for (std::int64_t bag = 0; bag <= batch; ++bag) {
    starts.push_back(bag * Sizes::kHotness);
  }
  auto const offsets = put_ids<std::int64_t>(lab.device(), starts, {batch + 1});
  std::vector<ops::Bags<R>> columns;
  for (std::int64_t table = 0; table < Shared::kTables; ++table) {
    columns.emplace_back(ids.rows(table * column, (table + 1) * column), offsets);
  }
  double const bytes = 2 * (bytes_of(ids) + Shared::kTables * bytes_of(offsets));
  lab.bench().measure_cold(
      state, {.bytes = bytes}, [&] { benchmark::DoNotOptimize(ops::joined_bags(columns)); });
}

/// Measures giving each row of a segment the segment's row, or its number.
template <ms::Runtime R>
void repeat_rows(benchmark::State& state, Lab<R>& lab, Draw draw) {
  auto const offsets = segment_starts(lab, draw);
  auto const rows = random_tensor(lab, {segments(lab), Sizes::kWidth});
  auto const repeated = ops::repeat_rows(rows, offsets, segment_rows(lab));
  lab.bench().measure_cold(state, {.bytes = bytes_of(rows, repeated) + bytes_of(offsets)}, [&] {
    benchmark::DoNotOptimize(ops::repeat_rows(rows, offsets, segment_rows(lab)));
  });
}
template <ms::Runtime R>
void numbers_of_rows(benchmark::State& state, Lab<R>& lab, Draw draw) {
  auto const offsets = segment_starts(lab, draw);
  auto const ids = ops::segment_ids(offsets, segment_rows(lab));
  lab.bench().measure_cold(state, {.bytes = bytes_of(offsets, ids)}, [&] {
    benchmark::DoNotOptimize(ops::segment_ids(offsets, segment_rows(lab)));
  });
}

/// Tables of one pooling, random bags of a fixed hotness, and the gradient of the pooled rows.
template <ms::Runtime R>
struct Lookup {
  ops::EmbeddingTables<R> tables;
  ops::TableBags<R> bags;
  ms::Tensor<float, R> gradient;
};
template <ms::Runtime R>
Lookup<R> lookup_of(Lab<R>& lab,
                    ops::Pooling pooling,
                    std::int64_t hotness,
                    std::int64_t full_batch) {
  auto const rows = lab.rows(Shared::kTableRows) / Shared::kTables;
  auto const batch = lab.rows(full_batch);
  std::vector<ops::EmbeddingTable<R>> tables;
  for (std::size_t table = 0; table < Shared::kTables; ++table) {
    tables.push_back({.weights = random_tensor(lab, {rows, Shared::kTableWidth}, table),
                      .pooling = pooling,
                      .hotness = hotness});
  }
  ops::EmbeddingTables<R> const all(lab.device(), tables);
  auto const places = Shared::kTables * batch * hotness;
  auto const ids =
      put_ids<std::int64_t>(lab.device(), drawn(places, rows, Draw::uniform), {places});
  return {
      all, {.ids = ids, .batch = batch}, random_tensor(lab, {batch, all.width()}, Shared::kTables)};
}

template <ms::Runtime R>
void gradient_of_maxima(benchmark::State& state, Lab<R>& lab, std::int64_t batch) {
  auto const [tables, bags, gradient] =
      lookup_of(lab, ops::Pooling::max, Sizes::kMaximaHotness, batch);
  std::optional<ms::Tensor<std::int32_t, R>> const argmax(
      std::in_place, lab.device(), tables.argmax_shape(bags.batch));
  auto const pooled = ops::embedding_lookup(tables, bags, {.argmax = argmax});
  lab.bench().measure_cold(state, {}, [&] {
    benchmark::DoNotOptimize(ops::embedding_tables_gradient(tables, bags, gradient, argmax));
  });
}

/// Measures a lookup in all tables, alone or behind as many columns of the samples as a table has.
/// Bytes count the rows of all ids, the ids, the columns, and the result.
template <ms::Runtime R>
void lookup_beside(benchmark::State& state, Lab<R>& lab, std::int64_t batch, bool beside) {
  auto const of = lookup_of(lab, ops::Pooling::sum, 1, batch);
  auto const columns = random_tensor(lab, {of.bags.batch, Shared::kTableWidth}, 1);
  double const rows = static_cast<double>(Shared::kTables * of.bags.batch);
  double const bytes_of_id = 2 * Shared::kTableWidth * sizeof(float) + sizeof(std::int64_t);
  double const bytes = rows * bytes_of_id + (beside ? 2 : 0) * bytes_of(columns);
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(beside ? ops::embedding_lookup_beside(columns, of.tables, of.bags)
                                    : ops::embedding_lookup(of.tables, of.bags));
  });
}

/// Measures the gradient of the weights of ids. Bytes count the rows of all ids, the gradient of
/// the pooled rows, the ids, and the result.
template <ms::Runtime R>
void weight_gradient(benchmark::State& state, Lab<R>& lab, std::int64_t batch) {
  auto const [tables, bags, gradient] = lookup_of(lab, ops::Pooling::sum, 1, batch);
  double const ids = static_cast<double>(Shared::kTables * bags.batch);
  double const bytes_of_id =
      Shared::kTableWidth * sizeof(float) + sizeof(std::int64_t) + sizeof(float);
  lab.bench().measure_cold(state, {.bytes = bytes_of(gradient) + ids * bytes_of_id}, [&] {
    benchmark::DoNotOptimize(ops::embedding_tables_weight_gradient(tables, bags, gradient));
  });
}

}  // namespace

template <ms::Runtime R>
void add_id_cases(AddCase<R> const& add) {
  add("cast_ids/int64_to_int32",
      [](auto& state, auto& lab) { cast_ids<std::int32_t, std::int64_t>(state, lab); });
  add("cast_ids/int32_to_int64",
      [](auto& state, auto& lab) { cast_ids<std::int64_t, std::int32_t>(state, lab); });
  for (auto const batch : Shared::kTableBatches) {
    add(fmt::format("joined_bags/batch:{}", batch),
        [=](auto& state, auto& lab) { joined_bags(state, lab, batch); });
    add(fmt::format("gradient_of_maxima/batch:{}", batch),
        [=](auto& state, auto& lab) { gradient_of_maxima(state, lab, batch); });
    add(fmt::format("tables_lookup/batch:{}", batch),
        [=](auto& state, auto& lab) { lookup_beside(state, lab, batch, false); });
    add(fmt::format("lookup_beside/batch:{}", batch),
        [=](auto& state, auto& lab) { lookup_beside(state, lab, batch, true); });
    add(fmt::format("tables_weight_gradient/batch:{}", batch),
        [=](auto& state, auto& lab) { weight_gradient(state, lab, batch); });
  }
  for (auto const draw : kDraws) {
    add(fmt::format("repeat_rows/{}", lengths_of(draw)),
        [=](auto& state, auto& lab) { repeat_rows(state, lab, draw); });
    add(fmt::format("segment_ids/{}", lengths_of(draw)),
        [=](auto& state, auto& lab) { numbers_of_rows(state, lab, draw); });
  }
}

template void add_id_cases(AddCase<ms::Host> const& add);
#if MSSTREAM_CUDA
template void add_id_cases(AddCase<ms::Cuda> const& add);
#endif

}  // namespace benchmarks::table
