// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dlrm_shape.hpp"
#include "drawn.hpp"
#include "ops/embedding/embedding_tables.hpp"
#include "ops/optimizer/table_update.hpp"

#include <msstream/msstream.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <utility>
#include <vector>

namespace benchmarks {

/// The 26 tables of a DLRM with the state of row-wise Adagrad, and a batch of bags with the
/// gradient of its lookup. `Row` is the type of the rows, `T` that of the pooled rows and of their
/// gradient.
template <ms::RealElement Row, ms::RealElement T, ms::Runtime R>
class TrainedTables {
  using Grouped = ms::ops::detail::GroupedTables;

 public:
  using Rounding = ms::OptimizerOptions::Rounding;

  /// `rounding` says how updated rows of half precision are rounded.
  TrainedTables(ms::Device<R> const& device,
                train_dlrm::DlrmShape const& shape,
                std::int64_t batch,
                Draw draw,
                Rounding rounding = Rounding::nearest)
      : step_(device), shape_(shape), batch_(batch), rounding_(rounding) {
    step_.advance(kRule);
    std::vector<ms::ops::EmbeddingTable<R>> tables;
    std::vector<std::int64_t> ids;
    for (std::size_t field = 0; field < train_dlrm::kFields; ++field) {
      ms::Shape const size{shape_.rows(field), shape_.dimension};
      weights_.push_back(
          ms::ops::random_uniform<Row>(device, size, ms::RandomKey(3, field), -1.0F, 1.0F));
      states_.push_back(ms::ops::make_state(device, kRule.kind, size));
      tables.push_back({.weights = weights_.back(), .hotness = shape_.hotness(field)});
      auto own = drawn(batch_ * shape_.hotness(field), shape_.rows(field), draw);
      ids.insert(ids.end(), own.begin(), own.end());
      std::ranges::sort(own);
      distinct_ += std::distance(own.begin(), std::ranges::unique(own).begin());
    }
    tables_ = std::make_unique<ms::ops::EmbeddingTables<R>>(device, tables);
    places_ = static_cast<std::int64_t>(ids.size());
    bags_ = std::make_unique<ms::ops::TableBags<R>>(ms::ops::TableBags<R>{
        .ids = put_ids<std::int64_t>(device, ids, {places_}), .batch = batch_});
    gradient_ = std::make_unique<ms::Tensor<T, R>>(ms::ops::random_uniform<T>(
        device, {batch_, tables_->width()}, ms::RandomKey(3, train_dlrm::kFields), -1.0F, 1.0F));
  }

  /// Returns the pooled rows of the batch.
  [[nodiscard]] ms::Tensor<T, R> lookup() const {
    return ms::ops::embedding_lookup<T>(*tables_, *bags_);
  }
  /// Computes the gradients of the distinct rows.
  void backward() const {
    benchmark::DoNotOptimize(ms::ops::embedding_tables_gradient(*tables_, *bags_, *gradient_));
  }
  /// Returns the positions of the ids, sorted and grouped by row.
  [[nodiscard]] Grouped group() const {
    return ms::ops::detail::group_tables(
        *tables_, *bags_, gradient_->any(), {}, 0, std::source_location::current());
  }
  /// Updates the distinct rows without writing their gradients to memory.
  void update(Grouped grouped) const {
    namespace detail = ms::ops::detail;
    auto const here = std::source_location::current();
    auto const sums =
        std::make_shared<detail::TablesGradient const>(std::move(grouped), nullptr, here);
    std::vector<detail::TableUpdate> updates;
    for (std::size_t field = 0; field < train_dlrm::kFields; ++field) {
      auto const number = static_cast<std::int64_t>(field);
      auto const capacity = std::min(shape_.rows(field), batch_ * shape_.hotness(field));
      updates.push_back(
          {.table = weights_[field].any(),
           .gradient = detail::TablePart{sums, number, tables_->first_row(number), capacity},
           .state = states_[field],
           .rounding = {.is_stochastic = rounding_ == Rounding::stochastic,
                        .key = ms::ops::kernels::rounding_key(3, field)}});
    }
    if (!detail::update_by_sums(kRule, step_, updates, here).empty()) {
      throw std::logic_error("a table is not updated by the fused operation");
    }
  }

  [[nodiscard]] std::int64_t distinct() const { return distinct_; }
  /// Returns the bytes that grouping and update must read and write: the ids, the gradient of the
  /// pooled rows, and each distinct row with its state, read and written.
  [[nodiscard]] std::int64_t bytes() const {
    auto const row_bytes = shape_.dimension * static_cast<std::int64_t>(sizeof(Row)) +
                           static_cast<std::int64_t>(sizeof(float));
    return places_ * static_cast<std::int64_t>(sizeof(std::int64_t)) +
           static_cast<std::int64_t>(gradient_->bytes()) + 2 * distinct_ * row_bytes;
  }

 private:
  static constexpr ms::ops::OptimizerRule kRule{ms::ops::OptimizerKind::rowwise_adagrad, 1e-3F};

  ms::ops::StepCounter<R> step_;
  train_dlrm::DlrmShape shape_;
  std::int64_t batch_;
  Rounding rounding_;
  std::int64_t places_ = 0;
  std::int64_t distinct_ = 0;
  std::vector<ms::Tensor<Row, R>> weights_;
  std::vector<ms::ops::OptimizerState<R>> states_;
  std::unique_ptr<ms::ops::EmbeddingTables<R>> tables_;
  std::unique_ptr<ms::ops::TableBags<R>> bags_;
  std::unique_ptr<ms::Tensor<T, R>> gradient_;
};

}  // namespace benchmarks
