// SPDX-License-Identifier: Apache-2.0
#include "lab.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

/// Benchmarks of embedding lookups, their gradients, updates fused with the gradients, and training
/// of many tables by one lookup on a tape or by one per table, on a cold cache, compared with a
/// copy. Bytes count the data that must move: a row as often as it is
/// looked up, the ids, the output.
namespace benchmarks {
namespace {

using Sizes = axes::Kernels;
using Id = std::int32_t;
using ms::ops::Pooling;

constexpr std::string_view kLayouts[] = {"fixed", "csr"};

/// The parameters of one benchmarked lookup.
struct Case {
  std::string_view layout;
  Draw draw;
  std::int64_t hotness;

  [[nodiscard]] std::string name() const {
    return fmt::format("{}/{}/hotness:{}", layout, name_of(draw), hotness);
  }
};

template <class Function>
void for_each_case(Function const& function) {
  for (auto const layout : kLayouts) {
    for (auto const draw : kDraws) {
      for (auto const hotness : Sizes::kHotness) {
        function(Case{layout, draw, hotness});
      }
    }
  }
}

template <ms::Runtime R>
std::int64_t table_rows(Lab<R>& lab) {
  return lab.rows(Sizes::kTableRows);
}

template <class T, ms::Runtime R>
ms::Tensor<T, R> table_of(Lab<R>& lab) {
  return lab.template matrix<T>(table_rows(lab), Sizes::kTableWidth);
}

template <ms::Runtime R>
ms::ops::Bags<R> bags_of(Lab<R>& lab, Case const& what) {
  return lab.kept(what.name(), [&]() -> ms::ops::Bags<R> {
    auto const bags = lab.rows(Sizes::kBags);
    auto const places = bags * what.hotness;
    auto const ids = drawn(places, table_rows(lab), what.draw);
    if (what.layout == "fixed") {
      return put_ids<Id>(lab.device(), ids, {bags, what.hotness});
    }
    std::vector<std::int64_t> offsets;
    for (std::int64_t bag = 0; bag <= bags; ++bag) {
      offsets.push_back(bag * what.hotness);
    }
    return {put_ids<Id>(lab.device(), ids, {places}),
            put_ids<Id>(lab.device(), offsets, {bags + 1})};
  });
}

template <ms::Runtime R>
double id_bytes(ms::ops::Bags<R> const& bags) {
  auto const count = bags.ids.count() + (bags.offsets ? bags.offsets->count() : 0);
  return static_cast<double>(count) * sizeof(Id);
}

template <class T, ms::Runtime R>
void lookup(benchmark::State& state, Lab<R>& lab, Case const& what) {
  auto const table = table_of<T>(lab);
  auto const bags = bags_of(lab, what);
  double const row_bytes = Sizes::kTableWidth * sizeof(T);
  double const rows_moved = static_cast<double>(bags.ids.count() + bags.bags());
  lab.bench().measure_cold(state, {.bytes = rows_moved * row_bytes + id_bytes(bags)}, [&] {
    benchmark::DoNotOptimize(ms::ops::embedding_lookup<T>(table, bags));
  });
}

/// Measures a copy of neighbouring rows, as many as a lookup of one row per bag reads: the lower
/// bound of the lookup's time.
template <ms::Runtime R>
void copied_rows(benchmark::State& state, Lab<R>& lab, std::int64_t full_rows) {
  auto const from = random_rows<float>(lab.device(), lab.rows(full_rows), Sizes::kTableWidth);
  ms::Tensor<float, R> const to(lab.device(), from.shape());
  lab.bench().measure_cold(state, {.bytes = bytes_of(from, to)}, [&] { ms::copy(to, from); });
}

/// Measures the gradient of the table rows that a lookup read, computed from the gradient of the
/// lookup's output.
template <ms::Runtime R>
void row_gradients(benchmark::State& state, Lab<R>& lab, Case const& what) {
  auto const rows = table_rows(lab);
  auto const bags = bags_of(lab, what);
  auto const gradient = random_rows<float>(lab.device(), bags.bags(), Sizes::kTableWidth);
  auto const uniques = ms::to_host(ms::ops::deduplicate(bags, rows).count).front();
  double const rows_moved = static_cast<double>(bags.ids.count() + uniques);
  double const bytes = rows_moved * Sizes::kTableWidth * sizeof(float) + 2 * id_bytes(bags);
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    auto const unique = ms::ops::deduplicate(bags, rows);
    benchmark::DoNotOptimize(
        ms::ops::embedding_gradient(bags, unique, rows, Pooling::sum, gradient));
  });
  state.counters["unique"] = static_cast<double>(uniques);
}

/// Measures an update that sums the gradients of each row that was looked up, and applies the sum
/// to the row.
template <ms::Runtime R>
void fused_update(benchmark::State& state,
                  Lab<R>& lab,
                  ms::ops::OptimizerKind kind,
                  std::int64_t hotness) {
  auto const& device = lab.device();
  auto const rows = table_rows(lab);
  auto const bags = bags_of(lab, Case{kLayouts[0], Draw::uniform, hotness});
  auto const table = table_of<float>(lab);
  auto const gradient = random_rows<float>(device, bags.bags(), Sizes::kTableWidth);
  ms::ops::OptimizerRule const rule{kind, 1e-3F};
  ms::ops::StepCounter<R> step(device);
  step.advance(rule);
  auto const optimizer_state = ms::ops::make_state(device, kind, table.shape());
  lab.bench().measure_cold(state, {}, [&] {
    auto const unique = ms::ops::deduplicate(bags, rows);
    ms::ops::update_embedding(
        rule, step, table, optimizer_state, bags, unique, Pooling::sum, gradient);
  });
}

/// Measures a lookup of one row in each of many tables per sample, or the gradient of that lookup.
template <ms::Runtime R>
void many_tables(benchmark::State& state, Lab<R>& lab, std::int64_t batch, bool gradient) {
  using ms::ops::EmbeddingTables;
  lab.drop_matrix();
  auto const& device = lab.device();
  auto const rows = table_rows(lab) / Sizes::kTables;
  std::vector<ms::ops::EmbeddingTable<R>> tables;
  for (std::int64_t table = 0; table < Sizes::kTables; ++table) {
    tables.push_back({.weights = random_rows<float>(device, rows, Sizes::kTableWidth)});
  }
  EmbeddingTables<R> const all(device, tables);
  auto const ids = put_ids<std::int64_t>(
      device, drawn(Sizes::kTables * batch, rows, Draw::uniform), {Sizes::kTables * batch});
  ms::ops::TableBags<R> const bags{.ids = ids, .batch = batch};
  double const row_bytes = Sizes::kTableWidth * sizeof(float);
  if (!gradient) {
    double const bytes = bytes_of(ids) + 2 * static_cast<double>(ids.count()) * row_bytes;
    lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
      benchmark::DoNotOptimize(ms::ops::embedding_lookup(all, bags));
    });
    return;
  }
  auto const pooled = random_rows<float>(device, batch, all.width());
  auto const touched =
      ms::to_host(ms::ops::embedding_tables_gradient(all, bags, pooled).count).front();
  double const bytes =
      bytes_of(ids, pooled) + static_cast<double>(touched) * (row_bytes + sizeof(std::int64_t));
  lab.bench().measure_cold(state, {.bytes = bytes}, [&] {
    benchmark::DoNotOptimize(ms::ops::embedding_tables_gradient(all, bags, pooled));
  });
}

/// How a benchmark trains many tables.
struct TrainedTables {
  std::int64_t batch;
  bool is_fused;  ///< by one lookup in all tables, otherwise by one per table
  bool captured;
};

/// Measures forward, backward and update of many tables with one row per sample each: a tape's
/// lookups, the gradients of the tables, and row-wise Adagrad.
template <ms::Runtime R>
void trained_tables(benchmark::State& state, Lab<R>& lab, TrainedTables const& how) {
  using Rows = ms::Tensor<float, R>;
  lab.drop_matrix();
  auto const& device = lab.device();
  auto const rows = table_rows(lab) / Sizes::kTables;
  ms::Optimizer<R> optimizer(
      device, {ms::ops::OptimizerKind::rowwise_adagrad, 1e-3F}, {.tables_together = true});
  std::vector<ms::ops::EmbeddingTable<R>> list;
  std::vector<Rows> tables;
  for (std::int64_t table = 0; table < Sizes::kTables; ++table) {
    tables.push_back(random_rows<float>(device, rows, Sizes::kTableWidth));
    list.push_back({.weights = tables.back()});
    optimizer.add_table(fmt::format("table{}", table), tables.back());
  }
  ms::ops::EmbeddingTables<R> const all(device, list);
  auto const places = Sizes::kTables * how.batch;
  auto const ids = put_ids<std::int64_t>(device, drawn(places, rows, Draw::uniform), {places});
  auto const gradient = random_rows<float>(device, how.batch, all.width());
  ms::Tensor<float, R> const loss(device, ms::Shape{});
  ms::GradientTape<R> tape(device);
  auto const step = [&] {
    tape.clear();
    std::vector<Rows> pooled;
    if (how.is_fused) {
      pooled.push_back(ms::ops::embedding_lookup(
          tape, all, ms::ops::TableBags<R>{.ids = ids, .batch = how.batch}));
    } else {
      for (std::int64_t table = 0; table < Sizes::kTables; ++table) {
        auto const own = ids.rows(table * how.batch, (table + 1) * how.batch);
        pooled.push_back(ms::ops::embedding_lookup(
            tape, tables[static_cast<std::size_t>(table)], ms::ops::Bags<R>(own)));
      }
    }
    // Stands for the rest of a model: gives the pooled rows gradients without any work.
    tape.record("model", loss, [&](ms::GradientTape<R>& playing, auto const&) {
      std::int64_t begin = 0;
      for (auto const& output : pooled) {
        auto const flat = gradient.reshaped({gradient.count()});
        auto const own = flat.rows(begin, begin + output.count());
        playing.add_gradient(output, own.reshaped(output.shape()));
        begin += output.count();
      }
    });
    tape.backward(loss);
    optimizer.step(tape);
  };
  step();
  if (!how.captured) {
    lab.bench().measure_cold(state, {}, step);
    return;
  }
  ms::CapturedStep<R> captured(device, step);
  lab.bench().measure_cold(state, {}, [&] { captured.replay(); });
}

template <ms::Runtime R>
void add_all(std::int64_t divisor) {
  auto const add_one = adder<R>("embedding", divisor);
  auto const add_lookups = [&]<class T>(std::type_identity<T>, std::string_view dtype) {
    for_each_case([&](Case const& what) {
      add_one(fmt::format("lookup/{}/{}", dtype, what.name()),
              [=](auto& state, auto& lab) { lookup<T>(state, lab, what); });
    });
  };
  for (auto const rows : {Sizes::kBags,
                          Sizes::kTables * Sizes::kTableBatches[0],
                          Sizes::kTables * Sizes::kTableBatches[1]}) {
    add_one(fmt::format("copied/rows:{}", rows),
            [=](auto& state, auto& lab) { copied_rows(state, lab, rows); });
  }
  add_lookups(std::type_identity<float>{}, "float32");
  add_lookups(std::type_identity<ms::float16>{}, "float16");
  add_lookups(std::type_identity<ms::bfloat16>{}, "bfloat16");
  for_each_case([&](Case const& what) {
    add_one(fmt::format("row_gradients/{}", what.name()),
            [=](auto& state, auto& lab) { row_gradients(state, lab, what); });
  });
  using Kind = ms::ops::OptimizerKind;
  for (auto const& [kind, name] : {std::pair{Kind::sgd, "sgd"},
                                   std::pair{Kind::momentum, "momentum"},
                                   std::pair{Kind::adagrad, "adagrad"},
                                   std::pair{Kind::rowwise_adagrad, "rowwise_adagrad"},
                                   std::pair{Kind::adam, "adam"}}) {
    for (auto const hotness : Sizes::kHotness) {
      add_one(
          fmt::format("fused_update/{}/hotness:{}", name, hotness),
          [=, kind = kind](auto& state, auto& lab) { fused_update(state, lab, kind, hotness); });
    }
  }
  for (bool const gradient : {false, true}) {
    for (auto const batch : Sizes::kTableBatches) {
      add_one(
          fmt::format(
              "{}{}/batch:{}", gradient ? "tables_gradient:" : "tables:", Sizes::kTables, batch),
          [=](auto& state, auto& lab) { many_tables(state, lab, batch, gradient); });
    }
  }
  for (bool const captured : {false, true}) {
    for (bool const is_fused : {false, true}) {
      for (auto const batch : Sizes::kTableBatches) {
        add_one(fmt::format("train_tables:{}/{}/{}/batch:{}",
                            Sizes::kTables,
                            is_fused ? "fused" : "each",
                            captured ? "captured" : "eager",
                            batch),
                [=](auto& state, auto& lab) {
                  trained_tables(state, lab, {batch, is_fused, captured});
                });
      }
    }
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
