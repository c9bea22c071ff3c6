// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  /// Initialises the weights with random values, which depend only on the seed and on `variant`.
  Mlp(ms::Device<R> const& device, MlpOptions const& options, int variant)
      : ms::load::ServedModel<R>(variant),
        parameters_(device, {.seed = options.seed + static_cast<std::uint64_t>(variant)}),
        layers_(parameters_,
                "layers",
                options.layers.front(),
                {options.layers.begin() + 1, options.layers.end()},
                {.bias = ms::init::uniform(-0.1F, 0.1F)}) {
    parameters_.freeze("*");
  }

  ms::Tensor<float, R> operator()(ms::serve::Inputs<R> const& inputs) const override {
    return layers_(ms::no_tape, inputs.template get<float>("values"));
  }
  std::size_t weight_bytes() const override {
    return static_cast<std::size_t>(parameters_.count()) * sizeof(float);
  }

 private:
  ms::Parameters<R> parameters_;
  ms::DenseStack<R> layers_;
};

template <ms::Runtime R>
nlohmann::ordered_json serve_mlp_on(MlpOptions const& options) {
  namespace load = ms::load;
  auto const inputs = options.layers.front();
  load::Workload<R> workload{.inputs = {ms::serve::field<float>("values", inputs)},
                             .outputs_per_row = options.layers.back(),
                             .query_rows = options.batch,
                             .build = [&options](ms::Device<R> const& device, int variant) {
                               return std::make_shared<Mlp<R> const>(device, options, variant);
                             }};
  std::vector<std::vector<float>> values;
  ms::Device<ms::Host> const host;
  for (int i = 0; i < options.queries; ++i) {
    values.push_back(ms::to_host(ms::ops::random_uniform(
        host, {options.batch * inputs}, {options.seed, fmt::format("query{}", i)}, -1.0F, 1.0F)));
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
