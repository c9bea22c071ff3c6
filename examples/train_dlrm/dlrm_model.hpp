// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dlrm_shape.hpp"
#include "training/lookups_in_parts.hpp"
#include "training/ranks.hpp"

#include <msstream/msstream.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace train_dlrm {

/// The ids of a batch in all fields, on the device.
template <ms::Runtime R>
struct FieldIds {
  /// [batch * DlrmShape::ids()]: field by field [batch, hotness]; of a multi-hot model [capacity].
  ms::Tensor<std::int64_t, R> ids;
  /// The offsets of the bags of all fields in `ids`, [fields * batch + 1], of a multi-hot model.
  std::optional<ms::Tensor<std::int64_t, R>> offsets = {};
};

/// A batch on the device.
template <ms::Runtime R>
struct DeviceBatch {
  ms::Tensor<float, R> numbers;  ///< [batch, 13]
  FieldIds<R> fields;
  ms::Tensor<float, R> labels;  ///< [batch, 1]
  /// The ids of the next batch, if its lookups are sent ahead.
  std::optional<FieldIds<R>> next_fields = {};
};

/// A deep learning recommendation model: dense layers on the numbers, pooled rows of a table for
/// each field, an interaction of both, and dense layers that give the logit of a click.
///
///     bottom: 13 → 512 → 256 → dimension      x = [bottom | pooled rows of 26 tables]
///     cross:  x ← x₀ ⊙ (x U V + b) + x, three times (DCN-v2)
///     dot:    bottom, and the products of every two of the 27 vectors (DLRM, Naumov et al. 2019)
///     top:    1024 → 1024 → 512 → 256 → 1
///
/// T is the type of everything between the layers. Weights and logits are float32. So are pooled
/// rows of tables in parts on all ranks, which are cast to T in front of the interaction.
template <ms::Runtime R, ms::RealElement T>
class DlrmModel {
 public:
  using Values = ms::Tensor<T, R>;
  using Batch = DeviceBatch<R>;
  using Inputs = ms::training::BatchesOfParts<Batch>;

  /// Makes the parameters. Tables in parts are those of table_specs(); without them, the parameters
  /// have the tables.
  DlrmModel(ms::Device<R> const& device,
            DlrmShape const& shape,
            std::optional<ms::training::LookupsInParts<R>> in_parts = {})
      : shape_(shape),
        parameters_(device, {.seed = shape.seed}),
        in_parts_(std::move(in_parts)),
        tables_(in_parts_ ? std::vector<ms::ops::EmbeddingTable<R>>()
                          : make_tables(parameters_, shape)),
        at_once_(in_parts_ || shape.tables == TableForm::branches
                     ? std::nullopt
                     : std::optional<ms::ops::EmbeddingTables<R>>(std::in_place, device, tables_)),
        bottom_(parameters_,
                "bottom",
                kNumbers,
                with(shape.bottom, shape.dimension),
                {.last = ms::ops::Activation::relu, .fp8_products = shape.fp8_products}),
        top_(parameters_,
             "top",
             top_inputs(shape),
             shape.top,
             {.fp8_products = shape.fp8_products}) {
    if (shape.interaction == Interaction::cross) {
      cross_.emplace(
          parameters_,
          "cross",
          inputs_of_cross(shape),
          ms::CrossNetworkOptions{.layers = shape.cross_layers, .rank = shape.cross_rank});
    }
  }

  /// Returns the logits of clicks, [batch, 1]. All ranks call it if tables are in parts.
  [[nodiscard]] ms::Tensor<float, R> logits(ms::GradientTape<R>& tape,
                                            ms::StreamPool<R>& pool,
                                            Batch const& batch) const {
    auto const bottom = bottom_of(tape, pool, batch);
    return top_of(tape, cross_ ? cross(tape, pool, bottom, batch) : dot(tape, pool, bottom, batch));
  }

  /// Returns the mean binary cross-entropy of a batch, a scalar.
  [[nodiscard]] ms::Tensor<float, R> loss(ms::GradientTape<R>& tape,
                                          ms::StreamPool<R>& pool,
                                          Batch const& batch) const {
    tape.without_gradient(batch.numbers);
    auto const of_batch = logits(tape, pool, batch);
    return ms::ops::mean_bce_with_logits(tape, of_batch, batch.labels);
  }

  // The stages of a training in two stages: see TwoStage. The losses are those of loss().

  /// A batch whose ids are rows of the tables.
  struct Prepared {
    Batch batch;
  };
  struct Features {
    Values pooled;  ///< rows of all fields, [batch, fields * dimension]
    Batch batch;
  };
  /// Hashes the ids, and with a lookup for each table groups those of its backward.
  [[nodiscard]] Prepared prepare(ms::GradientTape<R>& tape, Inputs const& inputs) const {
    auto batch = ms::training::inputs_of_part(inputs, 0);
    ms::NameScope const named("prepare");
    batch.fields.ids = rows_of(batch.fields.ids);
    if (!at_once_) {
      auto const rows = batch.numbers.shape()[0];
      for (std::size_t field = 0; field < kFields; ++field) {
        tape.unique_rows(ms::ops::Bags<R>(ids_of_field(batch.fields.ids, rows, field)),
                         shape_.rows(field));
      }
    }
    return {std::move(batch)};
  }
  [[nodiscard]] Features embed(ms::GradientTape<R>& tape,
                               ms::StreamPool<R>& pool,
                               Prepared const& prepared) const {
    ms::NameScope const named("tables");
    return {pool_rows_of(tape, pool, prepared.batch), prepared.batch};
  }
  [[nodiscard]] ms::Tensor<float, R> loss_of(ms::GradientTape<R>& tape,
                                             ms::StreamPool<R>& pool,
                                             Features const& features) const {
    tape.without_gradient(features.batch.numbers);
    auto const bottom = bottom_of(tape, pool, features.batch);
    auto const joined = [&] {
      ms::NameScope const named("interaction");
      return cross_ ? (*cross_)(tape, ms::ops::concat(tape, std::vector{bottom, features.pooled}))
                    : ms::ops::dot_interaction(tape, bottom, features.pooled);
    }();
    return ms::ops::mean_bce_with_logits(tape, top_of(tape, joined), features.batch.labels);
  }

  [[nodiscard]] ms::Parameters<R> const& parameters() const noexcept { return parameters_; }
  /// Returns the lookups in tables that are in parts on all ranks; nothing if the parameters have
  /// the tables.
  [[nodiscard]] std::optional<ms::training::LookupsInParts<R>> const& in_parts() const noexcept {
    return in_parts_;
  }

 private:
  [[nodiscard]] Values bottom_of(ms::GradientTape<R>& tape,
                                 ms::StreamPool<R>& pool,
                                 Batch const& batch) const {
    ms::StreamScope<R> const side(pool[pool.groups() - 1], {.include_grad = true});
    ms::NameScope const named("bottom");
    return bottom_(tape, ms::ops::cast<T>(tape, batch.numbers));
  }
  /// Opens the scope of a lookup of all fields if DlrmShape::rows_beside: the group in front of the
  /// one of the bottom layers, or that one if there are two. The backward and the update of the
  /// tables follow the lookup to its group. There, the update waits for the gradient of the pooled
  /// rows alone, and runs beside gradients of weights and the update of dense parameters.
  [[nodiscard]] std::optional<ms::StreamScope<R>> scope_of_rows(ms::StreamPool<R>& pool) const {
    auto const groups = pool.groups();
    return shape_.rows_beside
               ? std::optional<ms::StreamScope<R>>(std::in_place,
                                                   pool[groups > 2 ? groups - 2 : groups - 1],
                                                   ms::StreamScopeOptions{.include_grad = true})
               : std::nullopt;
  }
  /// Returns the logits, [batch, 1], from the inputs of the top layers.
  [[nodiscard]] ms::Tensor<float, R> top_of(ms::GradientTape<R>& tape, Values const& joined) const {
    ms::NameScope const named("top");
    return ms::ops::cast<float>(tape, top_(tape, joined));
  }
  [[nodiscard]] ms::ops::TableBags<R> bags_of(FieldIds<R> const& fields, Batch const& batch) const {
    return bags_of_rows({rows_of(fields.ids), fields.offsets}, batch);
  }
  [[nodiscard]] static ms::ops::TableBags<R> bags_of_rows(FieldIds<R> const& fields,
                                                          Batch const& batch) {
    return {.ids = fields.ids, .batch = batch.numbers.shape()[0], .offsets = fields.offsets};
  }
  /// Returns the ids of one field of a batch without offsets, [rows, hotness], of those of all.
  [[nodiscard]] ms::Tensor<std::int64_t, R> ids_of_field(ms::Tensor<std::int64_t, R> const& ids,
                                                         std::int64_t rows,
                                                         std::size_t field) const {
    std::int64_t first = 0;
    for (std::size_t before = 0; before < field; ++before) {
      first += rows * shape_.hotness(before);
    }
    auto const hotness = shape_.hotness(field);
    return ids.rows(first, first + rows * hotness).reshaped({rows, hotness});
  }
  /// Returns the pooled rows of all fields, [batch, fields * dimension], of tables in parts.
  [[nodiscard]] Values pool_rows_in_parts(ms::GradientTape<R>& tape,
                                          ms::StreamPool<R>& pool,
                                          Batch const& batch) const {
    return ms::ops::cast<T>(
        tape,
        in_parts_->lookup(tape, pool, batch.fields, batch.next_fields, [&](auto const& fields) {
          return bags_of(fields, batch);
        }));
  }
  /// Returns the pooled rows of all fields, [batch, fields * dimension], looked up in a branch for
  /// each field: on the stream group with the number of the field modulo the number of groups.
  /// `are_rows`: whether the ids have been hashed.
  [[nodiscard]] Values pool_rows_in_branches(ms::GradientTape<R>& tape,
                                             ms::StreamPool<R>& pool,
                                             Batch const& batch,
                                             bool are_rows) const {
    std::vector<ms::Tensor<float, R>> pooled;
    for (std::size_t field = 0; field < kFields; ++field) {
      ms::StreamScope<R> const branch(pool[static_cast<int>(field) % pool.groups()],
                                      {.include_grad = true});
      ms::NameScope const named("field" + std::to_string(field));
      auto ids = ids_of_field(batch.fields.ids, batch.numbers.shape()[0], field);
      if (shape_.hashes_ids && !are_rows) {
        ids = ms::ops::hash_to_bucket(ids, shape_.rows(field), field);
      }
      pooled.push_back(std::visit(
          [&](auto const& table) {
            return ms::ops::embedding_lookup(tape, table, ms::ops::Bags<R>(ids));
          },
          tables_[field].weights));
    }
    return ms::ops::cast<T>(tape, ms::ops::concat(tape, pooled));
  }
  /// Returns the pooled rows of all fields, [batch, fields * dimension].
  [[nodiscard]] Values pool_rows(ms::GradientTape<R>& tape,
                                 ms::StreamPool<R>& pool,
                                 Batch const& batch) const {
    return at_once_    ? ms::ops::embedding_lookup<T>(tape, *at_once_, bags_of(batch.fields, batch))
           : in_parts_ ? pool_rows_in_parts(tape, pool, batch)
                       : pool_rows_in_branches(tape, pool, batch, false);
  }
  /// Like pool_rows(), of a batch whose ids are rows, and of tables that this rank has.
  [[nodiscard]] Values pool_rows_of(ms::GradientTape<R>& tape,
                                    ms::StreamPool<R>& pool,
                                    Batch const& batch) const {
    return at_once_
               ? ms::ops::embedding_lookup<T>(tape, *at_once_, bags_of_rows(batch.fields, batch))
               : pool_rows_in_branches(tape, pool, batch, true);
  }
  /// Returns the rows of the tables of all ids.
  [[nodiscard]] ms::Tensor<std::int64_t, R> rows_of(ms::Tensor<std::int64_t, R> const& ids) const {
    if (!shape_.hashes_ids) {
      return ids;
    }
    std::vector<std::int64_t> counts;
    for (std::size_t field = 0; field < kFields; ++field) {
      counts.push_back(shape_.rows(field));
    }
    auto const fields = static_cast<std::int64_t>(kFields);
    return ms::ops::hash_to_bucket(ids.reshaped({fields, ids.count() / fields}), counts)
        .reshaped({ids.count()});
  }
  [[nodiscard]] static std::int64_t inputs_of_cross(DlrmShape const& shape) {
    return shape.dimension * static_cast<std::int64_t>(kFields + 1);
  }
  [[nodiscard]] static std::int64_t top_inputs(DlrmShape const& shape) {
    auto const vectors = static_cast<std::int64_t>(kFields + 1);
    return shape.interaction == Interaction::cross ? inputs_of_cross(shape)
                                                   : shape.dimension + vectors * (vectors - 1) / 2;
  }
  [[nodiscard]] static std::vector<std::int64_t> with(std::vector<std::int64_t> widths,
                                                      std::int64_t last) {
    widths.push_back(last);
    return widths;
  }
  [[nodiscard]] static std::vector<ms::ops::EmbeddingTable<R>> make_tables(
      ms::Parameters<R>& parameters, DlrmShape const& shape) {
    std::vector<ms::ops::EmbeddingTable<R>> tables;
    for (std::size_t field = 0; field < kFields; ++field) {
      auto const name = table_name(field);
      ms::Shape const size{shape.rows(field), shape.dimension};
      auto& made = tables.emplace_back(
          shape.half_tables
              ? ms::ops::EmbeddingTable<R>{.weights = parameters.template table<T>(name, size)}
              : ms::ops::EmbeddingTable<R>{.weights =
                                               parameters.template table<float>(name, size)});
      made.hotness = shape.hotness(field);
    }
    return tables;
  }

  [[nodiscard]] Values cross(ms::GradientTape<R>& tape,
                             ms::StreamPool<R>& pool,
                             Values const& bottom,
                             Batch const& batch) const {
    auto const joined = [&] {
      auto const rows = scope_of_rows(pool);
      ms::NameScope const named("tables");
      return at_once_ ? ms::ops::embedding_lookup_beside(
                            tape, bottom, *at_once_, bags_of(batch.fields, batch))
                      : ms::ops::concat(tape, std::vector{bottom, pool_rows(tape, pool, batch)});
    }();
    ms::NameScope const named("interaction");
    return (*cross_)(tape, joined);
  }
  [[nodiscard]] Values dot(ms::GradientTape<R>& tape,
                           ms::StreamPool<R>& pool,
                           Values const& bottom,
                           Batch const& batch) const {
    auto const pooled = [&] {
      auto const rows = scope_of_rows(pool);
      ms::NameScope const named("tables");
      return pool_rows(tape, pool, batch);
    }();
    ms::NameScope const named("interaction");
    return ms::ops::dot_interaction(tape, bottom, pooled);
  }

  DlrmShape shape_;
  ms::Parameters<R> parameters_;
  std::optional<ms::training::LookupsInParts<R>> in_parts_;
  std::vector<ms::ops::EmbeddingTable<R>> tables_;      ///< none if they are in parts
  std::optional<ms::ops::EmbeddingTables<R>> at_once_;  ///< the tables, if they are fused
  ms::DenseStack<R> bottom_;
  ms::DenseStack<R> top_;
  std::optional<ms::CrossNetwork<R>> cross_;
};

}  // namespace train_dlrm
