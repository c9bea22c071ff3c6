// SPDX-License-Identifier: Apache-2.0
#include "wdl_weights.hpp"

#include <msstream/checkpoint/safetensors.hpp>
#include <msstream/memory/device.hpp>
#include <msstream/ops/random.hpp>
#include <msstream/tensor/copy.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>

namespace serve_wdl {

namespace {

std::vector<std::string> lines_of(std::string_view lines) {
  std::vector<std::string> out;
  while (!lines.empty()) {
    auto const end = std::min(lines.find('\n'), lines.size());
    out.emplace_back(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  return out;
}

/// Loads the weights and biases of a dense layer, of any shape [inputs, outputs].
WdlWeights::Layer load_layer(ms::checkpoint::SafetensorsFile const& file, std::string const& name) {
  auto const shape = file.tensor(name + "/weight").shape;
  if (shape.size() != 2) {
    throw std::invalid_argument(
        fmt::format("tensor {}/weight has {} axes; expected two", name, shape.size()));
  }
  return {shape[0],
          shape[1],
          file.values<float>(name + "/weight", shape),
          file.values<float>(name + "/bias", {shape[1]})};
}

/// Increases the number of a layer's inputs. The weights of the new inputs are 0.
void widen(WdlWeights::Layer& layer, std::int64_t inputs) {
  layer.weight.resize(static_cast<std::size_t>(inputs * layer.outputs), 0);
  layer.inputs = inputs;
}

void widen_to_dense_columns(WdlWeights& weights) {
  auto const columns = weights.dense_columns();
  widen(weights.layers.front(), weights.fields() * weights.embedding_dim + columns);
  widen(weights.linear, columns);
}

}  // namespace

std::int64_t WdlWeights::packed_width() const noexcept {
  constexpr std::int64_t kTogether = 4;
  return (embedding_dim + kTogether) / kTogether * kTogether;
}

std::int64_t WdlWeights::dense_columns() const noexcept {
  std::int64_t const together = precision == ms::Precision::fp32 ? 4 : 8;
  auto const embedded = fields() * (form == TableForm::fused ? packed_width() : embedding_dim);
  auto const least = embedded + std::max<std::int64_t>(continuous, 1);
  return (least + together - 1) / together * together - embedded;
}

WdlWeights random_weights(WdlOptions const& options, std::uint64_t seed) {
  ms::Device<ms::Host> const host;
  auto const uniform = [&](std::string const& name, std::int64_t count, float limit) {
    return ms::to_host(ms::ops::random_uniform(host, {count}, {seed, name}, -limit, limit));
  };
  constexpr float kLimit = 0.05F;
  WdlWeights weights{.embedding_dim = options.embedding_dim,
                     .continuous = options.continuous,
                     .precision = options.precision,
                     .form = options.tables};
  for (std::int64_t field = 0; field < options.fields; ++field) {
    auto const rows = options.table_rows;
    weights.tables.push_back(
        {rows,
         uniform(fmt::format("deep/{}", field), rows * options.embedding_dim, kLimit),
         uniform(fmt::format("wide/{}", field), rows, kLimit)});
  }
  auto inputs = options.fields * options.embedding_dim + options.continuous;
  auto widths = options.layers;
  widths.push_back(1);
  for (auto const outputs : widths) {
    auto const name = fmt::format("layer{}", weights.layers.size());
    // Glorot & Bengio 2010, eq. 16.
    auto const limit = std::sqrt(6.0F / static_cast<float>(inputs + outputs));
    weights.layers.push_back({inputs,
                              outputs,
                              uniform(name, inputs * outputs, limit),
                              uniform(name + "/bias", outputs, kLimit)});
    inputs = outputs;
  }
  weights.linear = {options.continuous,
                    1,
                    uniform("linear", options.continuous, kLimit),
                    uniform("linear/bias", 1, kLimit)};
  widen_to_dense_columns(weights);
  return weights;
}

WdlWeights load_weights(WdlOptions const& options) {
  std::filesystem::path const path = options.model;
  ms::checkpoint::SafetensorsFile const file(path);
  auto const& saved = file.metadata();
  auto const names = saved.find("field_names");
  if (names == saved.end()) {
    throw std::invalid_argument(fmt::format(
        "{}: not a model of train_wdl: metadata 'field_names' is missing", path.string()));
  }
  WdlWeights weights{.precision = options.precision, .form = options.tables};
  for (auto const& field : lines_of(names->second)) {
    auto const shape = file.tensor("deep/" + field).shape;
    if (shape.size() != 2 || (!weights.tables.empty() && shape[1] != weights.embedding_dim)) {
      throw std::invalid_argument(
          fmt::format("{}: table deep/{} has not the others' width", path.string(), field));
    }
    weights.embedding_dim = shape[1];
    weights.tables.push_back({shape[0],
                              file.values<float>("deep/" + field, shape),
                              file.values<float>("wide/" + field, {shape[0], 1})});
  }
  for (int i = 0; file.tensors().contains(fmt::format("mlp/{}/weight", i)); ++i) {
    weights.layers.push_back(load_layer(file, fmt::format("mlp/{}", i)));
  }
  if (weights.tables.empty() || weights.layers.empty() || weights.layers.back().outputs != 1) {
    throw std::invalid_argument(
        fmt::format("{}: not a model of train_wdl: tables or layers are missing", path.string()));
  }
  weights.linear = file.tensors().contains("linear/weight") ? load_layer(file, "linear")
                                                            : WdlWeights::Layer{0, 1, {}, {0.0F}};
  weights.continuous = weights.linear.inputs;
  auto inputs = weights.fields() * weights.embedding_dim + weights.continuous;
  for (auto const& layer : weights.layers) {
    if (layer.inputs != inputs) {
      throw std::invalid_argument(
          fmt::format("{}: a layer has {} inputs; what is before it gives {}",
                      path.string(),
                      layer.inputs,
                      inputs));
    }
    inputs = layer.outputs;
  }
  widen_to_dense_columns(weights);
  return weights;
}

void require_float16(WdlWeights const& weights) {
  constexpr float kLargest = 65'504.0F;
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    for (auto const* const values : {&weights.layers[i].weight, &weights.layers[i].bias}) {
      for (float const value : *values) {
        if (std::abs(value) > kLargest) {
          throw std::invalid_argument(
              fmt::format("--precision fp16: layer {} has a weight of {}; expected at most {} in "
                          "size, or --precision bf16",
                          i,
                          value,
                          kLargest));
        }
      }
    }
  }
}

WdlWeights make_weights(WdlOptions const& options, int variant) {
  if (options.model.empty()) {
    return random_weights(options, options.seed + static_cast<std::uint64_t>(variant));
  }
  auto weights = load_weights(options);
  weights.layers.back().bias[0] += static_cast<float>(variant);
  if (options.precision == ms::Precision::fp16) {
    require_float16(weights);
  }
  return weights;
}

}  // namespace serve_wdl
