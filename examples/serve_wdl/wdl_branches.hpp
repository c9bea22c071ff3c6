// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "wdl_layers.hpp"

#include <msstream/memory/device.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace serve_wdl {

inline std::string keys_of_field(std::size_t field) {
  return fmt::format("keys{}", field);
}

/// A Wide & Deep model as it is usually written: a hash, a deep and a wide lookup for each field.
template <ms::Runtime R>
class WdlBranches : public ms::load::ServedModel<R> {
 public:
  WdlBranches(ms::Device<R> const& device, WdlWeights const& weights, int variant)
      : ms::load::ServedModel<R>(variant),
        layers_(device, weights.layers, weights.precision),
        linear_(device, weights.linear) {
    for (auto const& table : weights.tables) {
      deep_.push_back(ms::load::frozen(device, table.deep, {table.rows, weights.embedding_dim}));
      wide_.push_back(ms::load::frozen(device, table.wide, {table.rows, 1}));
    }
  }

  /// Returns the inputs of the model. The keys of each field are an input of their own, so that
  /// they are contiguous.
  static std::vector<ms::serve::Field> inputs(WdlWeights const& weights, std::int64_t hotness) {
    std::vector<ms::serve::Field> fields;
    for (std::size_t i = 0; i < weights.tables.size(); ++i) {
      fields.push_back(ms::serve::field<std::int64_t>(keys_of_field(i), hotness));
    }
    fields.push_back(ms::serve::field<float>("dense", weights.dense_columns()));
    return fields;
  }

  /// Returns the model's probability for each row, [rows, 1].
  ms::Tensor<float, R> operator()(ms::serve::Inputs<R> const& inputs) const override {
    std::vector<ms::Tensor<float, R>> deep;
    std::vector<ms::Tensor<float, R>> wide;
    for (std::size_t i = 0; i < deep_.size(); ++i) {
      auto const name = keys_of_field(i);
      ms::NameScope const named(name);
      ms::StreamScope const scope(inputs.branch(i));
      auto const keys = inputs.template get<std::int64_t>(name);
      ms::ops::Bags<R> const ids = ms::ops::hash_to_bucket(keys, deep_[i].shape()[0]);
      deep.push_back(ms::ops::embedding_lookup(deep_[i], ids));
      wide.push_back(ms::ops::embedding_lookup(wide_[i], ids));
    }
    auto const dense = inputs.template get<float>("dense");
    deep.push_back(dense);
    wide.push_back(linear_(dense));
    wide.push_back(layers_(ms::ops::concat(deep)));
    auto const logits = ms::ops::sum(ms::ops::concat(wide), 1).reshaped({inputs.rows(), 1});
    return ms::ops::sigmoid(logits);
  }
  std::size_t weight_bytes() const override {
    auto bytes = layers_.bytes() + linear_.bytes();
    for (std::size_t i = 0; i < deep_.size(); ++i) {
      bytes += deep_[i].bytes() + wide_[i].bytes();
    }
    return bytes;
  }

 private:
  std::vector<ms::Tensor<float, R>> deep_;
  std::vector<ms::Tensor<float, R>> wide_;
  Perceptron<R> layers_;
  FrozenLayer<R> linear_;
};

}  // namespace serve_wdl
