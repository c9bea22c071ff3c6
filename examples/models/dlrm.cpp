// SPDX-License-Identifier: Apache-2.0
// DLRM (Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation
// Systems, 2019): trains, evaluates, saves, and serves. docs/trainer.md explains every step.
#include "clicks.hpp"

#include <msstream/checkpoint/checkpoint.hpp>
#include <msstream/data/device_loader.hpp>
#include <msstream/metrics/auc.hpp>
#include <msstream/msstream.hpp>
#include <msstream/report/progress_line.hpp>
#include <msstream/step/dense_stack.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace ops = ms::ops;

constexpr std::int64_t kWidth = 16;

struct Dlrm {
  Dlrm(ms::Device<> const& device, ms::Parameters<>& parameters)
      : tables(device, parameters.tables("table", clicks::table_shapes(kWidth))),
        bottom(parameters, "bottom", clicks::kNumbers, {64, kWidth}, {.last = relu}),
        top(parameters, "top", kWidth + 27 * 26 / 2, {64, 32, 1}) {}

  // Returns the logits [batch, 1] for numbers [batch, 13] and the ids of all fields, field by
  // field.
  auto forward(auto& tape,
               ms::Tensor<float> const& dense,
               ms::Tensor<std::int64_t> const& ids) const {
    auto const rows = ops::embedding_lookup(tape, tables, {ids, dense.shape()[0]});
    return top(tape, ops::dot_interaction(tape, bottom(tape, dense), rows));
  }
  auto forward(auto& tape, ms::data::DeviceBatch<> const& batch) const {
    return forward(tape, batch.floats("dense"), batch.ints("id0", "id25"));
  }
  auto operator()(ms::serve::Inputs<> const& inputs) const {
    auto const ids = inputs.get<std::int64_t>("ids");
    return ops::sigmoid(
        forward(ms::no_tape, inputs.get<float>("dense"), ids.reshaped({ids.count()})));
  }

  static constexpr auto relu = ops::Activation::relu;
  ops::EmbeddingTables<> tables;
  ms::DenseStack<> bottom;
  ms::DenseStack<> top;
};

int main() {
  ms::Device<> const device;
  ms::StreamPool pool(device, {.groups = 2});
  ms::Parameters parameters(device, {.seed = 1});
  auto const model = std::make_shared<Dlrm>(device, parameters);
  ms::Optimizer optimizer(device, {.kind = ops::OptimizerKind::adam, .learning_rate = 3e-3F});
  optimizer.add(parameters);
  ms::GradientTape tape(device);

  auto batches = clicks::batches(device, pool[0], 0, 300'000);
  ms::report::ProgressLine progress("training", 300'000);
  while (auto const batch = batches.next()) {
    auto const logits = model->forward(tape, *batch);
    auto const loss = ops::mean_bce_with_logits(tape, logits, clicks::labels_of(*batch));
    tape.backward(loss);
    optimizer.step(tape);
    tape.clear();
    progress.update(batch->first_sample() + batch->rows());
  }
  progress.finish();
  ms::checkpoint::save("dlrm.safetensors",
                       ms::checkpoint::Tensors(parameters, optimizer),
                       {.metadata = {{"position", to_string(batches.position())}}});

  ms::metrics::Auc const auc(device);
  auto held_out = clicks::batches(device, pool[0], 300'000, 320'000);
  while (auto const batch = held_out.next()) {
    auc.update(model->forward(ms::no_tape, *batch), clicks::labels_of(*batch));
  }
  std::printf("held-out AUC %.4f\n", auc.value().value());

  parameters.freeze("*");
  ms::serve::InferencePool server(
      device,
      std::shared_ptr<Dlrm const>(model),
      {.inputs = {ms::serve::field<float>("dense", clicks::kNumbers),
                  ms::serve::field<std::int64_t>(
                      "ids", clicks::kFields, ms::serve::Field::Order::columns)},
       .outputs_per_row = 1});
  clicks::Query const query;
  auto const answer = server.submit({.rows = 1, .values = {query.dense, query.ids}}).get();
  std::printf("probability of a click: %.4f\n", answer.values[0]);
}
