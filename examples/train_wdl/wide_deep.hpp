// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/counter_random.hpp"

#include <msstream/msstream.hpp>

#include <cmath>
#include <cstdint>
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
};

struct WideDeepShape {
  std::vector<std::string> fields;
  std::vector<std::int64_t> table_rows;
  std::int64_t continuous;
  std::int64_t embedding_dim;
  std::vector<std::int64_t> layers;
  std::uint64_t seed;
};

/// A Wide & Deep model (Cheng et al. 2016): its logit is the sum of a linear model over the fields
/// and an MLP over their embeddings.
///
/// Each field is a branch on the stream group with the number of the field modulo the number of
/// groups: a hash, a deep and a wide lookup. The operations that join the branches run on group 0.
template <ms::Runtime R>
class WideDeep {
 public:
  WideDeep(ms::Device<R> const& device, WideDeepShape shape) : shape_(std::move(shape)) {
    for (std::size_t i = 0; i < shape_.fields.size(); ++i) {
      std::int64_t const rows = shape_.table_rows[i];
      deep_.push_back(uniform(device, {rows, shape_.embedding_dim}, 0.05F));
      wide_.push_back(ms::zeros<float>(device, {rows, 1}));
    }
    std::int64_t width =
        static_cast<std::int64_t>(shape_.fields.size()) * shape_.embedding_dim + shape_.continuous;
    auto widths = shape_.layers;
    widths.push_back(1);
    for (std::int64_t const outputs : widths) {
      auto const limit =
          std::sqrt(6.0F / static_cast<float>(width + outputs));  // Glorot & Bengio 2010, eq. 16
      layers_.push_back(
          {uniform(device, {width, outputs}, limit), ms::zeros<float>(device, {outputs})});
      width = outputs;
    }
    if (shape_.continuous > 0) {
      linear_.push_back(
          {ms::zeros<float>(device, {shape_.continuous, 1}), ms::zeros<float>(device, {1})});
    }
  }

  /// Returns the logits, [rows, 1], of the first rows of the batch, as many as it has labels.
  [[nodiscard]] ms::Tensor<float, R> forward(ms::GradientTape<R>& tape,
                                             ms::StreamPool<R>& pool,
                                             DeviceBatch<R> const& batch) const {
    std::int64_t const rows = batch.labels.shape()[0];
    std::vector<ms::Tensor<float, R>> deep;
    std::vector<ms::Tensor<float, R>> wide;
    for (std::size_t i = 0; i < shape_.fields.size(); ++i) {
      auto const field = static_cast<std::int64_t>(i);
      ms::StreamScope<R> const branch(pool[static_cast<int>(field % pool.groups())],
                                      {.include_grad = true});
      ms::NameScope const name(shape_.fields[i]);
      auto const keys =
          batch.keys.rows(field, field + 1).reshaped({batch.keys.shape()[1]}).rows(0, rows);
      ms::ops::Bags<R> const ids = ms::ops::hash_to_bucket(keys, shape_.table_rows[i], i);
      deep.push_back(ms::ops::embedding_lookup(tape, deep_[i], ids));
      wide.push_back(ms::ops::embedding_lookup(tape, wide_[i], ids));
    }
    ms::StreamScope<R> const trunk(pool[0], {.include_grad = true});
    if (!linear_.empty()) {
      tape.without_gradient(batch.continuous);
      deep.push_back(batch.continuous);
      wide.push_back(ms::ops::dense(tape, batch.continuous, linear_[0].weight, linear_[0].bias));
    }
    auto hidden = ms::ops::concat(tape, deep);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      auto const activation =
          i + 1 < layers_.size() ? ms::ops::Activation::relu : ms::ops::Activation::none;
      hidden = ms::ops::dense(tape, hidden, layers_[i].weight, layers_[i].bias, activation);
    }
    wide.push_back(hidden);
    return ms::ops::add(tape, wide);
  }

  /// Returns the mean loss over the rows of the batch.
  [[nodiscard]] ms::Tensor<float, R> loss(ms::GradientTape<R>& tape,
                                          ms::StreamPool<R>& pool,
                                          DeviceBatch<R> const& batch) const {
    return ms::ops::mean_bce_with_logits(tape, forward(tape, pool, batch), batch.labels);
  }

  /// Calls `dense(name, tensor)` for each dense parameter, and `table(name, tensor)` for each
  /// table.
  template <class Dense, class Table>
  void visit_parameters(Dense&& dense, Table&& table) const {
    for (std::size_t i = 0; i < shape_.fields.size(); ++i) {
      table("deep/" + shape_.fields[i], deep_[i]);
      table("wide/" + shape_.fields[i], wide_[i]);
    }
    auto const visit_layer = [&](std::string const& name, Layer const& layer) {
      dense(name + "/weight", layer.weight);
      dense(name + "/bias", layer.bias);
    };
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      visit_layer("mlp/" + std::to_string(i), layers_[i]);
    }
    for (auto const& layer : linear_) {
      visit_layer("linear", layer);
    }
  }

 private:
  struct Layer {
    ms::Tensor<float, R> weight;  ///< [inputs, outputs]
    ms::Tensor<float, R> bias;    ///< [outputs]
  };

  ms::Tensor<float, R> uniform(ms::Device<R> const& device, ms::Shape const& shape, float limit) {
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    std::uint64_t const stream = drawn_++;
    for (std::size_t i = 0; i < values.size(); ++i) {
      double const unit =
          ms::datasets::uniform_of(ms::datasets::random_bits(shape_.seed, stream, i));
      values[i] = limit * static_cast<float>(2.0 * unit - 1.0);
    }
    return ms::to_device<float, R>(device, values, shape);
  }

  WideDeepShape shape_;
  std::uint64_t drawn_ = 0;
  std::vector<ms::Tensor<float, R>> deep_;
  std::vector<ms::Tensor<float, R>> wide_;
  std::vector<Layer> layers_;
  std::vector<Layer> linear_;
};

}  // namespace train_wdl
