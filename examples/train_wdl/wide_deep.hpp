// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "training/lookups_in_parts.hpp"

#include <msstream/msstream.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace train_wdl {

/// The tensors of one batch on the device. The categorical keys are one tensor with one row per
/// field.
template <ms::Runtime R>
struct DeviceBatch {
  ms::Tensor<std::int64_t, R> keys;  ///< [fields, capacity]
  ms::Tensor<float, R> continuous;   ///< [rows, continuous]; not used if it has no columns
  ms::Tensor<float, R> labels;       ///< [rows, 1]
  /// The keys of the next batch, [fields, rows], if its lookups are sent ahead.
  std::optional<ms::Tensor<std::int64_t, R>> next_keys = {};
};

struct WideDeepShape {
  std::vector<std::string> fields;
  std::vector<std::int64_t> table_rows;
  std::int64_t continuous;
  std::int64_t embedding_dim;
  std::vector<std::int64_t> layers;
  std::uint64_t seed;
  /// Whether an operation looks up all deep tables at once, and another one all wide tables, in
  /// place of a branch for each field. The results are the same but for rounding.
  bool fused = false;
  ms::Precision precision = ms::Precision::fp32;  ///< of the MLP's products and between its layers
};

/// A Wide & Deep model (Cheng et al. 2016): its logit is the sum of a linear model over the fields
/// and an MLP over their embeddings.
///
/// Each field is a branch on the stream group with the number of the field modulo the number of
/// groups: a hash, a deep and a wide lookup. The operations that join the branches run on group 0,
/// and so do all others of a model whose lookups are fused.
template <ms::Runtime R>
class WideDeep {
 public:
  /// Makes the parameters. Tables in parts are those of table_specs(); without them, the parameters
  /// have the tables.
  WideDeep(ms::Device<R> const& device,
           WideDeepShape shape,
           std::optional<ms::training::LookupsInParts<R>> in_parts = {})
      : shape_(std::move(shape)),
        parameters_(device, {.seed = shape_.seed}),
        in_parts_(std::move(in_parts)) {
    for (std::size_t i = 0; !in_parts_ && i < shape_.fields.size(); ++i) {
      auto const& field = shape_.fields[i];
      std::int64_t const rows = shape_.table_rows[i];
      deep_.push_back(parameters_.table("deep/" + field, {rows, shape_.embedding_dim}));
      wide_.push_back(parameters_.table("wide/" + field, {rows, 1}, ms::init::zeros()));
    }
    if (!in_parts_ && shape_.fused) {
      at_once_.emplace(ms::ops::EmbeddingTables<R>(device, deep_),
                       ms::ops::EmbeddingTables<R>(device, wide_));
    }
    auto widths = shape_.layers;
    widths.push_back(1);
    mlp_.emplace(
        parameters_,
        "mlp",
        static_cast<std::int64_t>(shape_.fields.size()) * shape_.embedding_dim + shape_.continuous,
        widths,
        ms::DenseStackOptions{.precision = shape_.precision});
    if (shape_.continuous > 0) {
      linear_.emplace(parameters_.dense("linear/weight", {shape_.continuous, 1}, ms::init::zeros()),
                      parameters_.dense("linear/bias", {1}, ms::init::zeros()));
    }
  }

  /// Returns the logits, [rows, 1], of the first rows of the batch, as many as it has labels.
  [[nodiscard]] ms::Tensor<float, R> forward(ms::GradientTape<R>& tape,
                                             ms::StreamPool<R>& pool,
                                             DeviceBatch<R> const& batch) const {
    std::vector<ms::Tensor<float, R>> deep;
    std::vector<ms::Tensor<float, R>> wide;
    if (in_parts_) {
      look_up_in_parts(tape, pool, batch, deep, wide);
    } else if (at_once_) {
      look_up_at_once(tape, pool, batch, deep, wide);
    }
    for (std::size_t i = 0; !in_parts_ && !at_once_ && i < shape_.fields.size(); ++i) {
      auto const field = static_cast<std::int64_t>(i);
      ms::StreamScope<R> const branch(pool[static_cast<int>(field % pool.groups())],
                                      {.include_grad = true});
      ms::NameScope const name(shape_.fields[i]);
      auto const ids = ids_of_field(batch.keys, batch.labels.shape()[0], i);
      deep.push_back(ms::ops::embedding_lookup(tape, deep_[i], ids));
      wide.push_back(ms::ops::embedding_lookup(tape, wide_[i], ids));
    }
    ms::StreamScope<R> const trunk(pool[0], {.include_grad = true});
    if (linear_) {
      tape.without_gradient(batch.continuous);
      deep.push_back(batch.continuous);
      wide.push_back(ms::ops::dense(tape, batch.continuous, linear_->first, linear_->second));
    }
    wide.push_back((*mlp_)(tape, ms::ops::concat(tape, deep)));
    return ms::ops::add(tape, wide);
  }

  /// Returns the mean loss over the rows of the batch; 0 if it has none.
  [[nodiscard]] ms::Tensor<float, R> loss(ms::GradientTape<R>& tape,
                                          ms::StreamPool<R>& pool,
                                          DeviceBatch<R> const& batch) const {
    auto const logits = forward(tape, pool, batch);
    return batch.labels.count() == 0 ? ms::ops::sum(tape, ms::ops::sum(tape, logits, 0), 0)
                                     : ms::ops::mean_bce_with_logits(tape, logits, batch.labels);
  }

  [[nodiscard]] ms::Parameters<R> const& parameters() const noexcept { return parameters_; }
  /// Returns the lookups in tables that are in parts on all ranks; nothing if the parameters have
  /// the tables.
  [[nodiscard]] std::optional<ms::training::LookupsInParts<R>> const& in_parts() const noexcept {
    return in_parts_;
  }

 private:
  /// Returns the ids of the first rows of a batch in the tables of field i. `keys` are those of all
  /// fields, [fields, capacity].
  [[nodiscard]] ms::ops::Bags<R> ids_of_field(ms::Tensor<std::int64_t, R> const& keys,
                                              std::int64_t rows,
                                              std::size_t i) const {
    auto const field = static_cast<std::int64_t>(i);
    auto const of_field = keys.rows(field, field + 1).reshaped({keys.shape()[1]}).rows(0, rows);
    return ms::ops::hash_to_bucket(of_field, shape_.table_rows[i], i);
  }

  /// Looks up all fields at once in tables that this rank has. The batch has as many labels as keys
  /// of a field.
  void look_up_at_once(ms::GradientTape<R>& tape,
                       ms::StreamPool<R>& pool,
                       DeviceBatch<R> const& batch,
                       std::vector<ms::Tensor<float, R>>& deep,
                       std::vector<ms::Tensor<float, R>>& wide) const {
    ms::StreamScope<R> const trunk(pool[0], {.include_grad = true});
    auto const rows = batch.keys.shape()[1];
    ms::ops::TableBags<R> const bags{.ids = ms::ops::hash_to_bucket(batch.keys, shape_.table_rows),
                                     .batch = rows};
    deep.push_back(ms::ops::embedding_lookup(tape, at_once_->first, bags));
    wide.push_back(ms::ops::sum(tape,
                                ms::ops::embedding_lookup(tape, at_once_->second, bags),
                                1,
                                {.keep_dimension = true}));
  }

  /// Looks up all fields at once. All ranks call it, also one without rows.
  void look_up_in_parts(ms::GradientTape<R>& tape,
                        ms::StreamPool<R>& pool,
                        DeviceBatch<R> const& batch,
                        std::vector<ms::Tensor<float, R>>& deep,
                        std::vector<ms::Tensor<float, R>>& wide) const {
    ms::StreamScope<R> const trunk(pool[0], {.include_grad = true});
    auto const bags_of = [&](ms::Tensor<std::int64_t, R> const& keys) {
      std::vector<ms::ops::Bags<R>> ids;
      for (std::size_t i = 0; i < shape_.fields.size(); ++i) {
        ids.push_back(ids_of_field(keys, batch.labels.shape()[0], i));
      }
      auto const of_deep = ids;
      ids.insert(ids.end(), of_deep.begin(), of_deep.end());  // the wide tables have the same ids
      return ms::ops::joined_bags(ids);
    };
    std::vector<std::int64_t> widths(shape_.fields.size() + 1, 1);
    widths[0] = static_cast<std::int64_t>(shape_.fields.size()) * shape_.embedding_dim;
    auto const columns = ms::ops::split(
        tape, in_parts_->lookup(tape, pool, batch.keys, batch.next_keys, bags_of), widths);
    deep.push_back(columns[0]);
    wide.assign(columns.begin() + 1, columns.end());
  }

  WideDeepShape shape_;
  ms::Parameters<R> parameters_;
  std::optional<ms::training::LookupsInParts<R>> in_parts_;
  std::vector<ms::Tensor<float, R>> deep_;
  std::vector<ms::Tensor<float, R>> wide_;
  /// The deep tables and the wide ones, if an operation looks up all of either.
  std::optional<std::pair<ms::ops::EmbeddingTables<R>, ms::ops::EmbeddingTables<R>>> at_once_;
  std::optional<ms::DenseStack<R>> mlp_;
  /// The weight and the bias of the continuous values in the linear model, if there are any.
  std::optional<std::pair<ms::Tensor<float, R>, ms::Tensor<float, R>>> linear_;
};

}  // namespace train_wdl
