// SPDX-License-Identifier: Apache-2.0
#include "dlrm_shape.hpp"
#include "lab.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "ops/optimizer/table_update.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <vector>

/// Benchmarks of the backward of a lookup in 26 tables with MLPerf's hotness, and of the same
/// backward fused with row-wise Adagrad, both with the sorting of the ids, on a cold cache. Beside
/// them stands a copy of the bytes that the fused operation must move: the ids, the gradient of the
/// pooled rows, and each distinct row with its state, read and written.
namespace benchmarks {
namespace {

namespace ops = ms::ops;
using train_dlrm::DlrmShape;
using train_dlrm::kFields;

constexpr std::int64_t kBatch = 8192;
constexpr ops::OptimizerRule kRule{ops::OptimizerKind::rowwise_adagrad, 1e-3F};

/// The tables with their optimizer's state, and a batch of bags with the gradient of its lookup.
template <ms::RealElement T, ms::Runtime R>
class Trained {
 public:
  Trained(Lab<R>& lab, Draw draw)
      : step_(lab.device()), shape_{.max_rows = lab.rows(DlrmShape{}.max_rows)} {
    auto const& device = lab.device();
    step_.advance(kRule);
    batch_ = lab.rows(kBatch);
    std::vector<ops::EmbeddingTable<R>> tables;
    std::vector<std::int64_t> ids;
    for (std::size_t field = 0; field < kFields; ++field) {
      ms::Shape const shape{shape_.rows(field), shape_.dimension};
      weights_.push_back(
          ops::random_uniform<T>(device, shape, ms::RandomKey(3, field), -1.0F, 1.0F));
      states_.push_back(ops::make_state(device, kRule.kind, shape));
      tables.push_back({.weights = weights_.back(), .hotness = shape_.hotness(field)});
      auto own = drawn(batch_ * shape_.hotness(field), shape_.rows(field), draw);
      ids.insert(ids.end(), own.begin(), own.end());
      std::ranges::sort(own);
      distinct_ += std::distance(own.begin(), std::ranges::unique(own).begin());
    }
    tables_ = std::make_unique<ops::EmbeddingTables<R>>(device, tables);
    places_ = static_cast<std::int64_t>(ids.size());
    bags_ = std::make_unique<ops::TableBags<R>>(
        ops::TableBags<R>{.ids = put_ids<std::int64_t>(device, ids, {places_}), .batch = batch_});
    gradient_ = std::make_unique<ms::Tensor<T, R>>(ops::random_uniform<T>(
        device, {batch_, tables_->width()}, ms::RandomKey(3, kFields), -1.0F, 1.0F));
  }

  /// Computes the gradients of the distinct rows.
  void backward() const {
    benchmark::DoNotOptimize(ops::embedding_tables_gradient(*tables_, *bags_, *gradient_));
  }
  /// Updates the distinct rows without writing their gradients to memory.
  void fused() const {
    auto const here = std::source_location::current();
    auto const sums = std::make_shared<ops::detail::TablesGradient const>(
        ops::detail::group_tables(*tables_, *bags_, gradient_->any(), {}, 0, here), nullptr, here);
    std::vector<ops::detail::TableUpdate> updates;
    for (std::size_t field = 0; field < kFields; ++field) {
      auto const number = static_cast<std::int64_t>(field);
      auto const capacity = std::min(shape_.rows(field), batch_ * shape_.hotness(field));
      updates.push_back(
          {.table = weights_[field].any(),
           .gradient = ops::detail::TablePart{sums, number, tables_->first_row(number), capacity},
           .state = states_[field]});
    }
    if (!ops::detail::update_by_sums(kRule, step_, updates, here).empty()) {
      throw std::logic_error("dlrm_tables: a table is not updated by the fused operation");
    }
  }

  [[nodiscard]] std::int64_t distinct() const { return distinct_; }
  /// Returns the bytes that the fused operation must read and write.
  [[nodiscard]] std::int64_t bytes() const {
    auto const row_bytes = shape_.dimension * static_cast<std::int64_t>(sizeof(T)) +
                           static_cast<std::int64_t>(sizeof(float));
    return places_ * static_cast<std::int64_t>(sizeof(std::int64_t)) +
           static_cast<std::int64_t>(gradient_->bytes()) + 2 * distinct_ * row_bytes;
  }

 private:
  ops::StepCounter<R> step_;
  DlrmShape shape_;
  std::int64_t batch_ = 0;
  std::int64_t places_ = 0;
  std::int64_t distinct_ = 0;
  std::vector<ms::Tensor<T, R>> weights_;
  std::vector<ops::OptimizerState<R>> states_;
  std::unique_ptr<ops::EmbeddingTables<R>> tables_;
  std::unique_ptr<ops::TableBags<R>> bags_;
  std::unique_ptr<ms::Tensor<T, R>> gradient_;
};

/// Measures the fused operation, and reports the times of the backward alone and of the copy, and
/// the ratios of its own time to the backward's and of its rate to the copy's.
template <ms::RealElement T, ms::Runtime R>
void fused_update(benchmark::State& state, Lab<R>& lab, Draw draw) {
  Trained<T, R> const trained(lab, draw);
  auto const from = ms::zeros<std::uint8_t>(lab.device(), ms::Shape{trained.bytes() / 2});
  ms::Tensor<std::uint8_t, R> const to(lab.device(), from.shape());
  double const backward_ns = lab.bench().cold_ns([&] { trained.backward(); });
  double const copy_ns = lab.bench().cold_ns([&] { ms::copy(to, from); });
  double const fused_ns = lab.bench().measure_cold(
      state, {.bytes = static_cast<double>(trained.bytes())}, [&] { trained.fused(); });
  state.counters["backward_ns"] = backward_ns;
  state.counters["copy_ns"] = copy_ns;
  state.counters["to_backward"] = fused_ns / backward_ns;
  state.counters["of_copy_of_bytes"] = copy_ns / fused_ns;
  state.counters["distinct"] = static_cast<double>(trained.distinct());
}

template <ms::Runtime R>
void add_all(std::int64_t divisor) {
  auto const add_draws = by_draw(adder<R>("dlrm_tables", divisor), name_of);
  add_draws("fused_update/float32", fused_update<float, R>);
  add_draws("fused_update/bfloat16", fused_update<ms::bfloat16, R>);
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
