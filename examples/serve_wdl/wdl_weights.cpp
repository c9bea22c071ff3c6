// SPDX-License-Identifier: Apache-2.0
#include "wdl_weights.hpp"

#include "datasets/initialiser.hpp"
#include "datasets/safetensors.hpp"

#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace serve_wdl {

namespace data = ms::data;
namespace datasets = ms::datasets;
using data::DataError;

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
WdlWeights::Layer load_layer(datasets::SafetensorsFile const& file, std::string const& name) {
  auto const shape = file.tensor(name + "/weight").shape;
  if (shape.size() != 2) {
    throw data::DataError(
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

std::int64_t WdlWeights::dense_columns() const noexcept {
  constexpr std::int64_t kTogether = 4;
  auto const embedded = fields() * embedding_dim;
  auto const least = embedded + std::max<std::int64_t>(continuous, 1);
  return (least + kTogether - 1) / kTogether * kTogether - embedded;
}

WdlWeights random_weights(WdlOptions const& options, std::uint64_t seed) {
  datasets::Initialiser const initialiser(seed);
  WdlWeights weights{.embedding_dim = options.embedding_dim, .continuous = options.continuous};
  for (std::int64_t field = 0; field < options.fields; ++field) {
    auto& table = weights.tables.emplace_back(WdlWeights::Table{options.table_rows, {}, {}});
    initialiser.append_table(table.deep, field, table.rows * options.embedding_dim);
    initialiser.append(table.wide, fmt::format("wide/{}", field), table.rows, 0.05);
  }
  auto inputs = options.fields * options.embedding_dim + options.continuous;
  auto widths = options.layers;
  widths.push_back(1);
  for (auto const outputs : widths) {
    auto const name = fmt::format("layer{}", weights.layers.size());
    auto& layer = weights.layers.emplace_back(WdlWeights::Layer{inputs, outputs, {}, {}});
    initialiser.append_weight(layer.weight, name, inputs, outputs);
    initialiser.append(layer.bias, name + "/bias", outputs, 0.05);
    inputs = outputs;
  }
  weights.linear = {options.continuous, 1, {}, {}};
  initialiser.append(weights.linear.weight, "linear", options.continuous, 0.05);
  initialiser.append(weights.linear.bias, "linear/bias", 1, 0.05);
  widen_to_dense_columns(weights);
  return weights;
}

WdlWeights load_weights(std::filesystem::path const& path) {
  datasets::SafetensorsFile const file(path);
  auto const& saved = file.metadata();
  auto const names = saved.find("field_names");
  if (names == saved.end()) {
    throw data::DataError(fmt::format(
        "{}: not a model of train_wdl: metadata 'field_names' is missing", path.string()));
  }
  WdlWeights weights;
  for (auto const& field : lines_of(names->second)) {
    auto const shape = file.tensor("deep/" + field).shape;
    if (shape.size() != 2 || (!weights.tables.empty() && shape[1] != weights.embedding_dim)) {
      throw data::DataError(
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
    throw data::DataError(
        fmt::format("{}: not a model of train_wdl: tables or layers are missing", path.string()));
  }
  weights.linear = file.tensors().contains("linear/weight") ? load_layer(file, "linear")
                                                            : WdlWeights::Layer{0, 1, {}, {0.0F}};
  weights.continuous = weights.linear.inputs;
  auto inputs = weights.fields() * weights.embedding_dim + weights.continuous;
  for (auto const& layer : weights.layers) {
    if (layer.inputs != inputs) {
      throw data::DataError(fmt::format("{}: a layer has {} inputs; what is before it gives {}",
                                        path.string(),
                                        layer.inputs,
                                        inputs));
    }
    inputs = layer.outputs;
  }
  widen_to_dense_columns(weights);
  return weights;
}

WdlWeights make_weights(WdlOptions const& options, int variant) {
  if (options.model.empty()) {
    return random_weights(options, options.seed + static_cast<std::uint64_t>(variant));
  }
  auto weights = load_weights(options.model);
  weights.layers.back().bias[0] += static_cast<float>(variant);
  return weights;
}

}  // namespace serve_wdl
