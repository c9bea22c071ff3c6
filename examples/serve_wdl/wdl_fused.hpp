// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wdl_layers.hpp"

#include <msstream/memory/device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace serve_wdl {

/// A Wide & Deep model with all tables in one tensor, so that one hash and one lookup serve all
/// fields. In a row of the tensor, the wide weight follows the deep ones. The first layer uses the
/// deep columns of the lookup. The wide columns are summed by a layer with one output, whose
/// weights for them are 1.
template <ms::Runtime R>
class WdlFused : public ms::load::ServedModel<R> {
 public:
  WdlFused(ms::Device<R> const& device, WdlWeights const& weights, int variant)
      : ms::load::ServedModel<R>(variant),
        tables_(device, rows_of(weights), weights.packed_width()),
        layers_(device, with_packed_inputs(weights), weights.precision),
        wide_(device, wide_layer(weights)) {
    auto const width = weights.packed_width();
    for (std::int64_t field = 0; field < weights.fields(); ++field) {
      auto const& table = weights.tables[static_cast<std::size_t>(field)];
      ms::PinnedArray<float, R> packed(device, static_cast<std::size_t>(table.rows * width));
      std::ranges::fill(packed.elements(), 0.0F);
      for (std::int64_t row = 0; row < table.rows; ++row) {
        auto* const to = packed.data() + row * width;
        auto const deep = table.deep.begin() + row * weights.embedding_dim;
        std::copy(deep, deep + weights.embedding_dim, to);
        to[weights.embedding_dim] = table.wide[static_cast<std::size_t>(row)];
      }
      ms::copy(tables_.table(field), packed);
    }
    auto all = tables_.weights();
    all.freeze();
    auto first_rows = tables_.first_rows();
    first_rows.freeze();
  }

  static std::vector<ms::serve::Field> inputs(WdlWeights const& weights, std::int64_t hotness) {
    return {ms::serve::field<std::int64_t>("keys", weights.fields() * hotness),
            ms::serve::field<float>("dense", weights.dense_columns())};
  }

  /// Returns the model's probability for each row, [rows, 1].
  ms::Tensor<float, R> operator()(ms::serve::Inputs<R> const& inputs) const override {
    auto const keys = inputs.template get<std::int64_t>("keys");
    auto const bags = inputs.rows() * tables_.tables();
    auto const ids = ms::ops::hash_to_tables(
        tables_, ms::ops::Bags<R>(keys.reshaped({bags, keys.count() / bags})));
    auto const columns = ms::ops::concat<R>(
        {ms::ops::embedding_lookup(tables_, ids), inputs.template get<float>("dense")});
    return ms::ops::sigmoid(ms::ops::add(wide_(columns), layers_(columns)));
  }
  std::size_t weight_bytes() const override {
    return tables_.weights().bytes() + layers_.bytes() + wide_.bytes();
  }

 private:
  static std::vector<std::int64_t> rows_of(WdlWeights const& weights) {
    std::vector<std::int64_t> rows;
    for (auto const& table : weights.tables) {
      rows.push_back(table.rows);
    }
    return rows;
  }
  static std::int64_t packed_inputs(WdlWeights const& weights) {
    return weights.fields() * weights.packed_width() + weights.dense_columns();
  }

  /// Returns the layers of the deep part for inputs that contain wide weights and padding: in the
  /// first layer, the weights of those columns are 0.
  static std::vector<WdlWeights::Layer> with_packed_inputs(WdlWeights const& weights) {
    auto layers = weights.layers;
    auto& first = layers.front();
    auto const from = std::exchange(first.weight, {});
    first.inputs = packed_inputs(weights);
    first.weight.assign(static_cast<std::size_t>(first.inputs * first.outputs), 0.0F);
    auto const copy_rows = [&](std::int64_t source, std::int64_t target, std::int64_t count) {
      auto const begin = from.begin() + source * first.outputs;
      std::copy(
          begin, begin + count * first.outputs, first.weight.begin() + target * first.outputs);
    };
    auto const width = weights.embedding_dim;
    for (std::int64_t field = 0; field < weights.fields(); ++field) {
      copy_rows(field * width, field * weights.packed_width(), width);
    }
    copy_rows(weights.fields() * width,
              weights.fields() * weights.packed_width(),
              weights.dense_columns());
    return layers;
  }
  static WdlWeights::Layer wide_layer(WdlWeights const& weights) {
    WdlWeights::Layer layer{packed_inputs(weights), 1, {}, weights.linear.bias};
    layer.weight.assign(static_cast<std::size_t>(layer.inputs), 0.0F);
    for (std::int64_t field = 0; field < weights.fields(); ++field) {
      auto const column = field * weights.packed_width() + weights.embedding_dim;
      layer.weight[static_cast<std::size_t>(column)] = 1;
    }
    std::ranges::copy(weights.linear.weight, layer.weight.end() - weights.dense_columns());
    return layer;
  }

  ms::ops::TableBatch<float, R> tables_;
  Perceptron<R> layers_;
  FrozenLayer<R> wide_;
};

}  // namespace serve_wdl
