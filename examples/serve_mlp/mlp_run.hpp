// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "datasets/initialiser.hpp"
#include "load/serve_run.hpp"
#include "mlp_options.hpp"

#include <msstream/msstream.hpp>

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace serve_mlp {

/// A multilayer perceptron: dense layers with ReLU between them.
template <ms::Runtime R>
class Mlp : public ms::load::ServedModel<R> {
 public:
  struct Layer {
    ms::Tensor<float, R> weight;  ///< [inputs, outputs]
    ms::Tensor<float, R> bias;    ///< [outputs]
  };

  /// Initialises the weights with random values, which depend only on the seed and on `variant`.
  Mlp(ms::Device<R> const& device, MlpOptions const& options, int variant)
      : ms::load::ServedModel<R>(variant) {
    ms::datasets::Initialiser const initialiser(options.seed + static_cast<std::uint64_t>(variant));
    auto const& widths = options.layers;
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
      std::vector<float> weight;
      std::vector<float> bias;
      initialiser.append_weight(weight, fmt::format("layer{}", i), widths[i], widths[i + 1]);
      initialiser.append(bias, fmt::format("bias{}", i), widths[i + 1], 0.1);
      layers_.push_back({ms::load::frozen(device, weight, {widths[i], widths[i + 1]}),
                         ms::load::frozen(device, bias, {widths[i + 1]})});
    }
  }

  ms::Tensor<float, R> operator()(ms::serve::Inputs<R> const& inputs) const override {
    auto values = inputs.template get<float>("values");
    for (auto const& layer : layers_) {
      bool const is_last = &layer == &layers_.back();
      values = ms::ops::dense(values,
                              layer.weight,
                              layer.bias,
                              is_last ? ms::ops::Activation::none : ms::ops::Activation::relu);
    }
    return values;
  }
  std::size_t weight_bytes() const override {
    std::size_t bytes = 0;
    for (auto const& layer : layers_) {
      bytes += layer.weight.bytes() + layer.bias.bytes();
    }
    return bytes;
  }

 private:
  std::vector<Layer> layers_;
};

template <ms::Runtime R>
nlohmann::ordered_json serve_mlp_on(MlpOptions const& options) {
  namespace datasets = ms::datasets;
  namespace load = ms::load;
  auto const inputs = options.layers.front();
  auto const count = static_cast<std::size_t>(options.batch * inputs);
  load::Workload<R> workload{.inputs = {ms::serve::field<float>("values", inputs)},
                             .outputs_per_row = options.layers.back(),
                             .query_rows = options.batch,
                             .build = [&options](ms::Device<R> const& device, int variant) {
                               return std::make_shared<Mlp<R> const>(device, options, variant);
                             }};
  std::vector<std::vector<float>> values;
  datasets::Initialiser const random(options.seed);
  for (int i = 0; i < options.queries; ++i) {
    random.append(
        values.emplace_back(), fmt::format("query{}", i), static_cast<std::int64_t>(count), 1.0);
    workload.queries.push_back({.query = {.rows = options.batch, .values = {values.back()}}});
  }
  load::run_alone(workload, options);
  auto report = load::serve_workload(
      workload,
      options,
      {.clients = options.threads,
       .iterations = options.iterations,
       .deadline = std::chrono::duration<double, std::milli>(options.deadline_ms),
       .seed = options.seed,
       .lone_too = options.lone});
  report["options"] = describe(options);
  return report;
}

}  // namespace serve_mlp
