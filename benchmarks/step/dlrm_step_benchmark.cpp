// SPDX-License-Identifier: Apache-2.0
#include "dlrm_model.hpp"
#include "step_training.hpp"

#include <msstream/memory/device.hpp>
#include <msstream/ops/random_draws.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Benchmarks of a whole training step of DLRM and DCN-v2 at MLPerf's sizes, on one batch of random
/// ids. benchmarks/baselines/torch_dlrm.py trains the same models in PyTorch.
namespace benchmarks {
namespace {

using train_dlrm::DlrmShape;
using train_dlrm::Interaction;

/// Returns a batch of uniformly drawn ids, with labels of 0 and 1.
template <ms::Runtime R>
train_dlrm::DeviceBatch<R> random_batch(ms::Device<R> const& device,
                                        DlrmShape const& shape,
                                        std::int64_t batch) {
  std::mt19937_64 random(shape.seed);
  std::vector<std::int64_t> ids;
  ids.reserve(static_cast<std::size_t>(batch * shape.ids()));
  for (std::size_t field = 0; field < train_dlrm::kFields; ++field) {
    std::uniform_int_distribution<std::int64_t> row(0, shape.rows(field) - 1);
    for (std::int64_t i = 0; i < batch * shape.hotness(field); ++i) {
      ids.push_back(row(random));
    }
  }
  std::normal_distribution<float> number;
  std::vector<float> numbers(static_cast<std::size_t>(batch * train_dlrm::kNumbers));
  std::ranges::generate(numbers, [&] { return number(random); });
  std::vector<float> labels(static_cast<std::size_t>(batch));
  std::ranges::generate(labels, [&] { return static_cast<float>(random() & 1U); });
  auto const ids_count = static_cast<std::int64_t>(ids.size());
  return {ms::to_device<float, R>(device, numbers, {batch, train_dlrm::kNumbers}),
          {ms::to_device<std::int64_t, R>(device, ids, {ids_count})},
          ms::to_device<float, R>(device, labels, {batch, 1})};
}

[[nodiscard]] std::string_view name_of(ms::Precision precision) {
  constexpr std::string_view kNames[] = {"fp32", "bf16", "fp16"};
  return kNames[static_cast<std::size_t>(precision)];
}

/// The number of rows of MLPerf's largest tables.
constexpr std::int64_t kMostRows = std::ranges::max(train_dlrm::kMlperfRows);

[[nodiscard]] bool has_all_rows(DlrmShape const& shape) {
  return shape.max_rows >= kMostRows;
}

/// Returns why the device has too little free memory for a step, or an empty string if it has
/// enough: for the rows of the tables, a state of row-wise Adagrad for each, and 512 KiB for each
/// sample of the batch, which is more than its activations and ids need.
template <ms::Runtime R>
[[nodiscard]] std::string memory_missing(DlrmShape const& shape, std::int64_t batch) {
  constexpr double kGiB = 1U << 30U;
  constexpr double kBytesPerSample = 1U << 19U;
  auto const row_bytes = static_cast<double>(shape.dimension) *
                             static_cast<double>(ms::bytes_of(shape.table_dtype())) +
                         sizeof(float);
  double needed = static_cast<double>(batch) * kBytesPerSample;
  for (std::size_t field = 0; field < train_dlrm::kFields; ++field) {
    needed += static_cast<double>(shape.rows(field)) * row_bytes;
  }
  auto const free = static_cast<double>(ms::Device<R>().runtime().memory_info().free_bytes);
  return free >= needed ? ""
                        : fmt::format("skipped: {:.0f} GiB of memory are free, of {:.0f} needed",
                                      free / kGiB,
                                      needed / kGiB);
}

template <ms::Runtime R>
void add_step(
    StepSetting setting, DlrmShape const& shape, std::int64_t batch, int runs, int steps) {
  setting.copies = shape.precision;
  bool const is_stochastic = setting.table_rounding == ms::OptimizerOptions::Rounding::stochastic;
  auto const name = fmt::format("dlrm_step/{}/{}/batch:{}/{}{}{}{}{}/{}",
                                R::name,
                                shape.interaction == Interaction::cross ? "dcn" : "dot",
                                batch,
                                name_of(shape.precision),
                                shape.half_tables ? "/half_tables" : "",
                                is_stochastic ? "/stochastic" : "",
                                has_all_rows(shape) ? "/all_rows" : "",
                                shape.rows_beside ? "/rows_beside" : "",
                                benchmarks::name_of(setting));
  add(name, runs, [=](benchmark::State& state) {
    if (auto const missing = has_all_rows(shape) ? memory_missing<R>(shape, batch) : "";
        !missing.empty()) {
      state.SkipWithError(missing.c_str());
      return;
    }
    ms::with_precision(shape.precision, [&](auto type) {
      using T = typename decltype(type)::type;
      auto const training = make_training<R>(
          state,
          name,
          setting,
          Groups::own,
          {.kind = ms::ops::OptimizerKind::rowwise_adagrad, .learning_rate = 0.01F},
          [&](ms::Device<R> const& device) {
            return std::pair(train_dlrm::DlrmModel<R, T>(device, shape),
                             random_batch(device, shape, batch));
          });
      time_steps(state, *training, steps);
      state.counters["samples_per_s"] = benchmark::Counter(
          static_cast<double>(batch * steps * runs), benchmark::Counter::kIsIterationInvariantRate);
    });
  });
}

template <ms::Runtime R>
void add_all(std::int64_t const divisor, int runs, int steps) {
  for (auto const interaction : {Interaction::cross, Interaction::dot}) {
    for (std::int64_t const batch : {2'048, 8'192, 65'536}) {
      for (auto const precision : {ms::Precision::bf16, ms::Precision::fp16, ms::Precision::fp32}) {
        for (int const groups : {1, 2, 4}) {
          DlrmShape shape{.interaction = interaction, .precision = precision};
          shape.max_rows /= divisor;
          shape.max_hotness = divisor == 1 ? shape.max_hotness : 4;
          StepSetting setting{.groups = groups, .captured = true, .tables_together = true};
          setting.precision = precision == ms::Precision::fp32 ? ms::MatmulPrecision::tf32
                                                               : ms::MatmulPrecision::float32;
          add_step<R>(setting, shape, batch / divisor, runs, steps);
        }
      }
    }
  }
}

/// Adds steps whose work on rows has a stream group.
template <ms::Runtime R>
void add_rows_beside(int runs, int steps) {
  for (std::int64_t const batch : {8'192, 65'536}) {
    for (int const groups : {2, 3}) {
      DlrmShape const shape{.rows_beside = true, .precision = ms::Precision::bf16};
      StepSetting const setting{.groups = groups, .captured = true, .tables_together = true};
      add_step<R>(setting, shape, batch, runs, steps);
    }
  }
}

/// Adds steps with all rows of MLPerf's tables, of half precision: 52 GB of rows, which updates
/// round to nearest and stochastically.
template <ms::Runtime R>
void add_all_rows(int runs, int steps) {
  using Rounding = ms::OptimizerOptions::Rounding;
  for (auto const interaction : {Interaction::cross, Interaction::dot}) {
    for (auto const rounding : {Rounding::nearest, Rounding::stochastic}) {
      DlrmShape const shape{.max_rows = kMostRows,
                            .interaction = interaction,
                            .precision = ms::Precision::bf16,
                            .half_tables = true};
      StepSetting setting{.groups = 1, .captured = true, .tables_together = true};
      setting.table_rounding = rounding;
      add_step<R>(setting, shape, 65'536, runs, steps);
    }
  }
}

}  // namespace

void add_host_benchmarks() {
  add_all<ms::Host>(64, 1, 1);
}

void add_cuda_benchmarks() {
#if MSSTREAM_CUDA
  add_all<ms::Cuda>(1, axes::kRunsPerRepetition, 10);
  add_rows_beside<ms::Cuda>(axes::kRunsPerRepetition, 10);
  add_all_rows<ms::Cuda>(axes::kRunsPerRepetition, 10);
#endif
}

}  // namespace benchmarks
