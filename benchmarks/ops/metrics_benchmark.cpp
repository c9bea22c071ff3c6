// SPDX-License-Identifier: Apache-2.0
#include "lab.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <vector>

/// Benchmarks of updates of metrics, alone and in a set that one launch updates, and of the exact
/// AUC's sort. Bytes count the batch once for each metric, with labels, which a mean does not read.
namespace benchmarks {
namespace {

using Sizes = axes::Metrics;

/// Scores and labels of a batch.
template <ms::Runtime R>
ms::metrics::Batch<R> batch_of(Lab<R>& lab, std::int64_t rows) {
  return lab.kept(fmt::format("batch {}", rows), [&]() -> ms::metrics::Batch<R> {
    std::vector<float> labels;
    for (std::int64_t i = 0; i < rows; ++i) {
      labels.push_back(i % 3 == 0 ? 1.0F : 0.0F);
    }
    return {.scores = random_rows<float>(lab.device(), rows, 1),
            .labels = ms::to_device<float, R>(lab.device(), labels, {rows, 1})};
  });
}

/// Measures an update of the metrics that make(device, capacity) makes.
template <ms::Runtime R, class Make>
void update(benchmark::State& state, Lab<R>& lab, std::int64_t rows, Make const& make) {
  auto const batch = batch_of(lab, rows);
  constexpr std::int64_t more_than_updates = 64;
  auto const capacity = std::max(lab.rows(Sizes::kCapacity), more_than_updates * rows);
  auto const metrics = make(lab.device(), capacity);
  lab.bench().measure(state, {.bytes = static_cast<double>(2 * sizeof(float) * rows)}, [&] {
    metrics.update(batch);
  });
}

/// Measures an update of a metric of retrieval. Bytes count the scores.
template <ms::Runtime R, class Metric>
void retrieve(benchmark::State& state, Lab<R>& lab, std::int64_t rows, std::int64_t columns) {
  auto const batch =
      lab.kept(fmt::format("scores {} x {}", rows, columns), [&]() -> ms::metrics::Batch<R> {
        return {.scores = random_rows<float>(lab.device(), rows, columns),
                .targets = put_ids<std::int64_t>(
                    lab.device(), drawn(rows, columns, Draw::uniform), {rows})};
      });
  Metric const metric(lab.device());
  lab.bench().measure(
      state,
      {.bytes = static_cast<double>(sizeof(float)) * static_cast<double>(rows * columns)},
      [&] { metric.update(batch); });
}

/// Measures the value of an exact AUC, with the waits of the host.
template <ms::Runtime R>
void value(benchmark::State& state, Lab<R>& lab) {
  auto const rows = lab.rows(Sizes::kExamples);
  ms::metrics::Auc<R> const auc(lab.device(), {.capacity = rows});
  auc.update(batch_of(lab, rows));
  lab.bench().measure(state, {.bytes = static_cast<double>(2 * sizeof(float) * rows)}, [&] {
    benchmark::DoNotOptimize(auc.value());
  });
}

template <ms::Runtime R>
void add_all(std::int64_t divisor) {
  namespace metrics = ms::metrics;
  auto const add_one = adder<R>("metrics", divisor);
  auto const add_update = [&](char const* what, auto const& make) {
    for (auto const rows : Sizes::kBatches) {
      add_one(fmt::format("{}/batch:{}", what, rows),
              [=](auto& state, auto& lab) { update(state, lab, rows, make); });
    }
  };
  add_update("auc", [](auto const& device, std::int64_t capacity) {
    return metrics::Auc<R>(device, {.capacity = capacity});
  });
  add_update("bucketed_auc",
             [](auto const& device, std::int64_t) { return metrics::BucketedAuc<R>(device); });
  add_update("log_loss",
             [](auto const& device, std::int64_t) { return metrics::LogLoss<R>(device); });
  add_update("mean", [](auto const& device, std::int64_t) { return metrics::Mean<R>(device); });
  add_update("mse",
             [](auto const& device, std::int64_t) { return metrics::MeanSquaredError<R>(device); });
  add_update("mae", [](auto const& device, std::int64_t) {
    return metrics::MeanAbsoluteError<R>(device);
  });
  for (auto const rows : Sizes::kRetrievals) {
    for (auto const columns : Sizes::kColumns) {
      auto const sizes = fmt::format("batch:{}/columns:{}", rows, columns);
      add_one("recall/" + sizes, [=](auto& state, auto& lab) {
        retrieve<R, metrics::RecallAtK<R>>(state, lab, rows, columns);
      });
      add_one("mrr/" + sizes, [=](auto& state, auto& lab) {
        retrieve<R, metrics::MeanReciprocalRank<R>>(state, lab, rows, columns);
      });
    }
  }
  add_update("set_of_six", [](auto const& device, std::int64_t capacity) {
    return metrics::MetricSet<R>(metrics::Auc<R>(device, {.capacity = capacity}),
                                 metrics::BucketedAuc<R>(device),
                                 metrics::LogLoss<R>(device),
                                 metrics::NormalizedEntropy<R>(device),
                                 metrics::Calibration<R>(device),
                                 metrics::Accuracy<R>(device));
  });
  add_one("auc_value", [](auto& state, auto& lab) { value(state, lab); });
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
