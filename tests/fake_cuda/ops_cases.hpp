// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fake_cuda_fixture.hpp"
#include "ops/optimizer/table_update.hpp"

#include <msstream/memory/device.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

/// The inputs and the form of the cases that test the CUDA calls of operations.
namespace fake_cuda {

namespace ops = ms::ops;

inline constexpr std::int64_t kBatch = 64;
inline constexpr std::int64_t kWidth = 16;
inline constexpr std::int64_t kRows = 1000;
inline constexpr std::int64_t kLongBatch = 4096;

/// Tensors of all kinds that operations take as inputs. Their values do not matter, because the
/// fake device computes nothing.
struct Inputs {
  Device device;
  Floats matrix{device, {kBatch, kWidth}};
  Floats gradient{device, {kBatch, kWidth}};
  Floats long_matrix{device, {kLongBatch, kWidth}};
  Floats weight{device, {kWidth, kWidth}};
  Floats bias{device, {kWidth}};
  Floats column{device, {kBatch, 1}};
  Floats weight_of_one{device, {kWidth, 1}};
  Floats scalar{device, ms::Shape{}};
  Floats row{device, {1, 20000}};
  Floats table{device, {kRows, kWidth}};
  ms::Tensor<ms::float16, ms::Cuda> half_table{device, {kRows, kWidth}};
  ms::Tensor<ms::bfloat16, ms::Cuda> brain_table{device, {kRows, kWidth}};
  Floats stacked_weight{device, {2, kWidth, kWidth}};
  Floats stacked_bias{device, {2, kWidth}};
  Floats stacked_output{device, {2, kBatch, kWidth}};
  Floats logits{device, {kBatch, 3}};
  ops::TableBatch<float, ms::Cuda> tables{device, {kRows, kRows}, kWidth};
  ops::EmbeddingTables<ms::Cuda> many_tables{device, {{.weights = table}, {.weights = half_table}}};
  ops::EmbeddingTables<ms::Cuda> many_maxima{
      device,
      {{.weights = table, .pooling = ops::Pooling::max},
       {.weights = half_table, .pooling = ops::Pooling::max, .hotness = 3}}};
  Ids ids{device, {kBatch}};
  Ids many_ids{device, {10000}};
  Ids offsets{device, {kBatch + 1}};
  ops::OptimizerRule rule{.kind = ops::OptimizerKind::adagrad, .learning_rate = 0.1F};
  ops::StepCounter<ms::Cuda> step{device};
  ms::metrics::Auc<ms::Cuda> auc{device};
  ms::metrics::MetricSet<ms::Cuda> metrics{auc,
                                           ms::metrics::BucketedAuc<ms::Cuda>(device),
                                           ms::metrics::LogLoss<ms::Cuda>(device),
                                           ms::metrics::Calibration<ms::Cuda>(device)};
  ms::ParameterAverages<ms::Cuda> averages = ms::ParameterAverages<ms::Cuda>(0.9F);
  ops::OptimizerState<ms::Cuda> weight_state = ops::make_state(device, rule.kind, weight.shape());
  ops::OptimizerState<ms::Cuda> table_state = ops::make_state(device, rule.kind, table.shape());
  ops::UniqueRows<ms::Cuda> unique = ops::deduplicate(ops::Bags<ms::Cuda>(ids), kRows);
  ops::RowGradients<ms::Cuda> row_gradients{unique.ids, unique.count, gradient};
  ops::TablesRowGradients<ms::Cuda> tables_gradients{
      unique.ids, unique.count, Ids(device, {3}), gradient};
  ms::RandomGenerator<ms::Cuda> random{device};
  ops::RunningStatistics<ms::Cuda> running{bias, Floats(device, {kWidth})};
  Floats statistics{device, {4, kWidth}};
  Floats interacted{device, {kBatch, kWidth + 3}};

  Inputs() { averages.add("weight", weight); }
};

struct Case {
  std::string name;
  std::function<void(Inputs&)> issue;
  Budget budget;
};
inline std::ostream& operator<<(std::ostream& out, Case const& tested) {
  return out << tested.name;
}

inline Budget kernels(std::uint64_t count) {
  return Budget().launches(count);
}
/// Permits `count` matrix products, of which `with_bias` set a bias pointer, and `launches` kernel
/// launches.
inline Budget products(std::uint64_t count, std::uint64_t with_bias, std::uint64_t launches = 0) {
  return kernels(launches)
      .exactly("cublasLtMatmul", count)
      .exactly("cublasLtMatmulDescSetAttribute", with_bias);
}
/// Permits the calls of a sort: a memset of the counts, one launch for the keys, one pass for each
/// of two digits, and one launch for the groups.
inline Budget with_sort() {
  return kernels(1 + 2 + 1).exactly("cudaMemsetAsync", 1);
}

template <class Result>
void drop(Result const&) {}

}  // namespace fake_cuda
